// matmul: cuBLASLt for floating-point numbers, an own tiled kernel for integers, for what the library refuses, and in
// reproducible plans, since the library may choose how to add by the number of rows and columns.
#include "runtime/backend/KernelChecks.h"
#include "runtime/backend/KernelWork.h"
#include "runtime/backend/cuda/bind/Copies.h"
#include "runtime/backend/cuda/kernels/Kernels.h"
#include "runtime/backend/cuda/layout/PaddedRows.h"
#include "runtime/backend/cuda/text/Templates.h"

#include <bit>

namespace tessera::rt::cuda {
namespace {

CudaKernel tiled(const KernelCall &call, const MatMulGeometry &g) {
  CudaKernel kernel;
  kernel.description = "generated";
  const plan::DType type = call.outputs[0].dtype;
  const int64_t batch = elementCount(g.batch), down = (g.m + 15) / 16, across = (g.n + 15) / 16;
  std::string split;
  Shape strides = rowMajorStrides(g.batch);
  for (size_t d = 0; d < g.batch.size(); ++d)
    split += "{ const i64 at = batch / " + wide(strides[d]) + " % " + wide(g.batch[d]) + "; ia += at * " +
             wide(g.batchStrideA[d]) + "; ib += at * " + wide(g.batchStrideB[d]) + "; } ";
  if (batch * g.m * g.n == 0)
    return kernel;
  Constants constants = {{"T", memoryType(type)},
                         {"A", isFloat(type) ? "double" : "u64"},
                         {"M", wide(g.m)},
                         {"N", wide(g.n)},
                         {"K", wide(g.k)},
                         {"BATCH", wide(batch)},
                         {"TILES_M", wide(down)},
                         {"TILES_N", wide(across)},
                         {"TRANSPOSE_A", g.transposeA ? "1" : "0"},
                         {"TRANSPOSE_B", g.transposeB ? "1" : "0"},
                         {"BATCH_INDEX", split}};
  addLeaves(constants, call, g.leaves);
  kernel.actions.push_back(
      Launch{withConstants(constants, (std::string(kernels::kLeaves) + kernels::kTiledMatMul).c_str()),
             {uint32_t(std::min<int64_t>(batch * down * across, 1 << 20)), 1, 1},
             256,
             {at(call.inputs[0].data), at(call.inputs[1].data), at(call.outputs[0].data)}});
  return kernel;
}

/// A batch is one library call where both operands step evenly through its innermost (joined) dimension; the
/// dimensions before it become calls of their own.
CudaKernel library(const KernelCall &call, const MatMulGeometry &g, bool tf32) {
  CudaKernel kernel;
  const plan::DType type = call.inputs[0].dtype;
  tf32 = tf32 && type == plan::F32;
  kernel.description = tf32 ? "cuBLASLt tf32" : "cuBLASLt " + dtypeName(type);
  Nest nest = collapse({g.batch, {rowMajorStrides(g.batch), g.batchStrideA, g.batchStrideB}});
  const size_t rank = nest.sizes.size();
  const int64_t inner = rank ? nest.sizes.back() : 1;
  TesseraMatMul what = {};
  what.dtype = type;
  what.resultType = call.outputs[0].dtype;
  what.tf32 = tf32;
  what.transposeA = g.transposeA;
  what.transposeB = g.transposeB;
  what.m = g.m;
  what.n = g.n;
  what.k = g.k;
  what.batch = inner;
  what.ldA = call.inputs[0].pitch();
  what.ldB = call.inputs[1].pitch();
  what.ldY = call.outputs[0].pitch();
  const int64_t apart[3] = {g.m * what.ldY, (g.transposeA ? g.k : g.m) * what.ldA,
                            (g.transposeB ? g.n : g.k) * what.ldB}; // matrices of y, a and b
  what.strideY = rank ? nest.strides[0].back() * apart[0] : 0;
  what.strideA = rank ? nest.strides[1].back() * apart[1] : 0;
  what.strideB = rank ? nest.strides[2].back() * apart[2] : 0;
  // A shared right operand under a batch of left ones is one tall product.
  if (rank == 1 && what.strideB == 0 && nest.strides[1][0] == 1 && !g.transposeA) {
    what.m *= inner;
    what.batch = 1;
    what.strideA = what.strideY = 0;
  }
  int64_t calls = 1;
  for (size_t d = 0; d + 1 < rank; ++d)
    calls *= nest.sizes[d];
  const uint64_t size = bytesPerElement(type), resultSize = bytesPerElement(call.outputs[0].dtype);
  for (int64_t c = 0; c < calls; ++c) {
    uint64_t offset[3] = {0, 0, 0};
    int64_t rest = c;
    for (size_t d = rank - (rank ? 1 : 0); d-- > 0;) {
      for (size_t i = 0; i < 3; ++i)
        offset[i] += uint64_t(rest % nest.sizes[d] * nest.strides[i][d]);
      rest /= nest.sizes[d];
    }
    auto matrix = [&](const TensorView &t, uint64_t index, int64_t elements) {
      Place place = at(t.data);
      place.value += index * uint64_t(elements) * bytesPerElement(t.dtype);
      return place;
    };
    kernel.actions.push_back(LibraryMatMul{what, matrix(call.inputs[0], offset[1], apart[1]),
                                           matrix(call.inputs[1], offset[2], apart[2]),
                                           matrix(call.outputs[0], offset[0], apart[0])});
  }
  std::vector<Place> places = {{false, uint64_t(what.strideA) * size},
                               {false, uint64_t(what.strideB) * size},
                               {false, uint64_t(what.strideY) * resultSize}};
  for (const Action &action : kernel.actions)
    for (const Place &place :
         {std::get<LibraryMatMul>(action).a, std::get<LibraryMatMul>(action).b, std::get<LibraryMatMul>(action).y})
      places.push_back(place);
  for (Action &action : kernel.actions)
    std::get<LibraryMatMul>(action).what.alignment = alignmentOf(places);
  return kernel;
}

/// The least operations for each byte of a copy: below, the copy takes longer than it saves.
constexpr double kWorthByte = 256;

bool isWorthCopies(const KernelCall &call) {
  double copied = 0;
  for (const TensorView *view : {call.inputs.data(), &call.inputs[1], call.outputs.data()})
    copied += hasUnalignedRows(*view) ? double(view->bytes()) : 0;
  return copied > 0 && gainsFromAlignedRows(call) && workOf(call).flops.value_or(0) >= kWorthByte * copied;
}

/// The product on copies whose rows are aligned.
std::vector<CudaKernel> libraryOnCopies(const KernelCall &call, const MatMulGeometry &g, bool tf32) {
  return bindOnCopies(
      call, kRowCopies, ", on aligned copies",
      [](TensorView &view, size_t) {
        const bool copied = hasUnalignedRows(view);
        if (copied)
          view.layout.pitch = alignedPitch(view);
        return copied;
      },
      [&](const KernelCall &copied) { return std::vector{library(copied, g, tf32)}; });
}

/// The library's fast kernels want the sizes along which a matrix has its rows to be multiples of this, even where rows
/// begin aligned.
constexpr int64_t kMultiple = 8;
/// Sizes below this are left alone: what lies beyond the multiple would be a large part.
constexpr int64_t kLeastSize = 64;

/// The parts of a product: sizes that are multiples, and what lies beyond. Of the sum over k, the part beyond is made
/// first, so that a result of 16 bits is rounded as the sum of all but for a small number.
std::vector<LibraryMatMul> alignedParts(const LibraryMatMul &product) {
  const TesseraMatMul &w = product.what;
  const auto in = int64_t(bytesPerElement(plan::DType(w.dtype))),
             out = int64_t(bytesPerElement(plan::DType(w.resultType)));
  auto largest = [](int64_t size, bool alongRows) {
    return alongRows && size >= kLeastSize ? size / kMultiple * kMultiple : size;
  };
  const int64_t m = largest(w.m, w.transposeA), n = largest(w.n, true), k = largest(w.k, !w.transposeA || w.transposeB);
  const bool whole = m == w.m && n == w.n && k == w.k;
  const bool aligned = isAlignedPitch(w.ldA, in) && isAlignedPitch(w.ldB, in) && isAlignedPitch(w.ldY, out);
  if (whole || in != 2 || !aligned || !outlastsLaunch(operationsOf(w)) || (w.epilogue & TESSERA_EPILOGUE_KEEP) ||
      (k != w.k && (w.epilogue & TESSERA_EPILOGUE_SUM)))
    return {product};
  struct Range {
    int64_t begin, end;
  };
  auto ranges = [](int64_t size, int64_t inner) {
    return inner == size ? std::vector<Range>{{0, size}} : std::vector<Range>{{inner, size}, {0, inner}};
  };
  std::vector<LibraryMatMul> parts;
  for (const Range &ms : ranges(w.m, m))
    for (const Range &ns : ranges(w.n, n))
      for (const Range &ks : ranges(w.k, k)) {
        LibraryMatMul part = product;
        TesseraMatMul &p = part.what;
        p.m = ms.end - ms.begin;
        p.n = ns.end - ns.begin;
        p.k = ks.end - ks.begin;
        part.a.value += uint64_t(in * (w.transposeA ? ks.begin * w.ldA + ms.begin : ms.begin * w.ldA + ks.begin));
        part.b.value += uint64_t(in * (w.transposeB ? ns.begin * w.ldB + ks.begin : ks.begin * w.ldB + ns.begin));
        part.y.value += uint64_t(out * (ms.begin * w.ldY + ns.begin));
        part.bias.value += uint64_t(out * ns.begin);
        part.aux.value += uint64_t(out * ns.begin);
        if (ms.begin > 0)
          p.epilogue &= ~TESSERA_EPILOGUE_SUM;
        if (ks.begin > 0)
          p.epilogue = 0;
        p.accumulate = w.accumulate || (ks.begin == 0 && ks.end < w.k);
        parts.push_back(part);
      }
  return parts;
}

} // namespace

void addLeaves(Constants &constants, const KernelCall &call, int64_t leaves) {
  const plan::DType type = call.outputs[0].dtype, narrowed = call.narrowed;
  const bool rounds = narrowed != plan::DTYPE_INVALID;
  constants.push_back({"V", memoryType(type)});
  constants.push_back({"ROUND(x)", rounds ? loadCode(narrowed, storeCode(narrowed, "(x)")) : "(x)"});
  constants.push_back({"LEAVES", wide(leaves)});
  constants.push_back({"SIZES", std::to_string(std::bit_width(uint64_t(leaves)))});
}

std::vector<Action> inAlignedParts(const std::vector<Action> &actions) {
  std::vector<Action> all;
  for (const Action &action : actions)
    if (const auto *product = std::get_if<LibraryMatMul>(&action))
      for (const LibraryMatMul &part : alignedParts(*product))
        all.emplace_back(part);
    else
      all.push_back(action);
  return all;
}

LibraryMatMul *onlyProduct(CudaKernel &kernel) {
  LibraryMatMul *found = nullptr;
  for (Action &action : kernel.actions)
    if (auto *product = std::get_if<LibraryMatMul>(&action)) {
      if (found)
        return nullptr;
      found = product;
    }
  return found;
}

int32_t alignmentOf(const std::vector<Place> &places) {
  uint64_t bits = 16;
  for (const Place &place : places)
    bits |= place.value;
  return int32_t(bits & (~bits + 1));
}

std::vector<CudaKernel> bindMatMul(const KernelCall &given, const BindOptions &options, const TensorView *stored) {
  MatMulGeometry g = *matmulGeometry(given);
  KernelCall call = given;
  if (stored)
    call.outputs[0] = *stored;
  const int64_t batch = elementCount(g.batch);
  const plan::DType type = call.inputs[0].dtype, result = call.outputs[0].dtype;
  std::vector<CudaKernel> choices;
  // The generated kernel gives zero for a sum without products.
  if (!call.exact && libraryTypes(type, result) && call.inputs[1].dtype == type && batch * g.m * g.n * g.k > 0) {
    CudaKernel kernel = library(call, g, options.tf32);
    if (kernel.actions.size() <= 64) {
      if (isWorthCopies(call))
        choices = libraryOnCopies(call, g, options.tf32);
      choices.push_back(std::move(kernel));
    }
  }
  const bool apart = call.inputs[0].layout.pitch || call.inputs[1].layout.pitch || call.outputs[0].layout.pitch;
  if (type == result && bytesPerElement(type) != 2 && !apart)
    choices.push_back(tiled(call, g));
  return choices;
}

} // namespace tessera::rt::cuda
