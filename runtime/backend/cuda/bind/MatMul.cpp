// matmul: cuBLASLt for floating-point numbers, an own tiled kernel for integers and for what the library refuses.
#include "runtime/backend/KernelChecks.h"
#include "runtime/backend/cuda/bind/CudaKernel.h"
#include "runtime/backend/cuda/kernels/Kernels.h"
#include "runtime/backend/cuda/text/Templates.h"

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
  kernel.actions.push_back(Launch{withConstants({{"T", memoryType(type)},
                                                 {"A", isFloat(type) ? "double" : "u64"},
                                                 {"M", wide(g.m)},
                                                 {"N", wide(g.n)},
                                                 {"K", wide(g.k)},
                                                 {"BATCH", wide(batch)},
                                                 {"TILES_M", wide(down)},
                                                 {"TILES_N", wide(across)},
                                                 {"TRANSPOSE_A", g.transposeA ? "1" : "0"},
                                                 {"TRANSPOSE_B", g.transposeB ? "1" : "0"},
                                                 {"BATCH_INDEX", split}},
                                                kernels::kTiledMatMul),
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
  what.strideA = rank ? nest.strides[1].back() * g.m * g.k : 0;
  what.strideB = rank ? nest.strides[2].back() * g.k * g.n : 0;
  what.strideY = rank ? nest.strides[0].back() * g.m * g.n : 0;
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
    kernel.actions.push_back(LibraryMatMul{what, matrix(call.inputs[0], offset[1], g.m * g.k),
                                           matrix(call.inputs[1], offset[2], g.k * g.n),
                                           matrix(call.outputs[0], offset[0], g.m * g.n)});
  }
  // The alignment of all matrices' addresses, up to the largest that the library can use.
  uint64_t bits = 16;
  for (int64_t stride : {what.strideA, what.strideB})
    bits |= uint64_t(stride) * size;
  bits |= uint64_t(what.strideY) * resultSize;
  for (const Action &action : kernel.actions)
    for (const Place &place :
         {std::get<LibraryMatMul>(action).a, std::get<LibraryMatMul>(action).b, std::get<LibraryMatMul>(action).y})
      bits |= place.value;
  for (Action &action : kernel.actions)
    std::get<LibraryMatMul>(action).what.alignment = int32_t(bits & (~bits + 1));
  return kernel;
}

} // namespace

std::vector<CudaKernel> bindMatMul(const KernelCall &given, const BindOptions &options, const TensorView *stored) {
  MatMulGeometry g = *matmulGeometry(given);
  KernelCall call = given;
  if (stored)
    call.outputs[0] = *stored;
  const int64_t batch = elementCount(g.batch);
  const plan::DType type = call.inputs[0].dtype, result = call.outputs[0].dtype;
  std::vector<CudaKernel> choices;
  // The generated kernel gives zero for a sum without products.
  if (libraryTypes(type, result) && call.inputs[1].dtype == type && batch * g.m * g.n * g.k > 0) {
    CudaKernel kernel = library(call, g, options.tf32);
    if (kernel.actions.size() <= 64)
      choices.push_back(std::move(kernel));
  }
  if (type == result && bytesPerElement(type) != 2)
    choices.push_back(tiled(call, g));
  return choices;
}

} // namespace tessera::rt::cuda
