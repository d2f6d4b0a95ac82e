// reshape, transpose, slice, pad, concat, micro_rows: copies of strided boxes. The addresses are computed as the
// reference backend's are (reference/Movement.cpp).
#include "runtime/backend/Half.h"
#include "runtime/backend/cuda/bind/ChannelsLast.h"
#include "runtime/backend/cuda/bind/LoopTable.h"
#include "runtime/plan/TimeOrder.h"

#include <algorithm>
#include <cstring>

namespace tessera::rt::cuda {
namespace {

constexpr int64_t kTile = 32;

/// A box of a tensor: where it begins, in elements, and how it is stepped through.
struct Box {
  const TensorView &tensor;
  int64_t first;
  Shape strides;
};

/// The address of the first element. It is no part of the text, so that copies of boxes of one size share it.
Place beginOf(const Box &box) {
  Place place = at(box.tensor.data);
  place.value += uint64_t(box.first) * bytesPerElement(box.tensor.dtype);
  return place;
}

void addCopy(CudaKernel &kernel, const Shape &sizes, const Box &to, const Box &from) {
  if (const int64_t points = elementCount(sizes))
    kernel.actions.push_back(
        launchLoop(stridedCopy({sizes, to.strides, from.strides, bytesPerElement(to.tensor.dtype)}), points,
                   {beginOf(from), beginOf(to)}));
}

/// The bits of `value` as an element, as the reference's fill has them.
uint64_t bitsOf(plan::DType type, double value) {
  uint64_t bits = 0;
  auto take = [&](auto v) { std::memcpy(&bits, &v, sizeof v); };
  if (type == plan::F16)
    take(toHalf(float(value)).bits);
  else if (type == plan::BF16)
    take(toBfloat16(float(value)).bits);
  else
    dispatchNumber(type, [&](auto tag) {
      using T = decltype(tag);
      if constexpr (std::is_floating_point_v<T>)
        take(static_cast<T>(value));
      else
        take(static_cast<T>(value >= -0x1p63 && value < 0x1p63 ? int64_t(value) : 0));
    });
  return bits;
}

/// The last two dimensions of a collapsed transposition swapped, [batch, r, c] -> [batch, c, r]: through a tile
/// in shared memory, so that both sides are read and written along their rows.
bool tiledTranspose(const KernelCall &call, const Nest &nest, CudaKernel &kernel) {
  const Shape &s = nest.sizes, &to = nest.strides[0], &from = nest.strides[1];
  const size_t n = s.size();
  if (n < 2 || n > 3 || to[n - 1] != 1 || from[n - 2] != 1 || s[n - 1] < kTile || s[n - 2] < kTile)
    return false;
  const int64_t batch = n == 3 ? s[0] : 1, rows = s[n - 2], cols = s[n - 1]; // of the result
  const int64_t down = (rows + kTile - 1) / kTile, across = (cols + kTile - 1) / kTile;
  // The second and third dimension of a grid have at most 65535 blocks.
  if (down > 65535 || batch > 65535 || across > INT32_MAX)
    return false;
  const char *element = bytesPerElement(call.outputs[0].dtype) == 8   ? "u64"
                        : bytesPerElement(call.outputs[0].dtype) == 4 ? "u32"
                        : bytesPerElement(call.outputs[0].dtype) == 2 ? "u16"
                                                                      : "u8";
  auto literal = [](int64_t v) { return std::to_string(v) + "ull"; };
  const std::string toBatch = literal(n == 3 ? to[0] : 0), fromBatch = literal(n == 3 ? from[0] : 0);
  std::string source = prelude() + "extern \"C\" __global__ void k(const " + element + " *__restrict__ from, " +
                       element + " *__restrict__ to) {\n__shared__ " + element +
                       " tile[32][33];\nconst u32 tx = threadIdx.x % 32u, ty = threadIdx.x / 32u;\n"
                       "const u64 row0 = blockIdx.y * 32ull, col0 = blockIdx.x * 32ull, batch = blockIdx.z;\n"
                       "for (u32 j = ty; j < 32u; j += 8u)\nif (col0 + j < " +
                       literal(cols) + " && row0 + tx < " + literal(rows) + ")\ntile[j][tx] = from[batch * " +
                       fromBatch + " + (col0 + j) * " + literal(from[n - 1]) +
                       " + row0 + tx];\n__syncthreads();\n"
                       "for (u32 j = ty; j < 32u; j += 8u)\nif (row0 + j < " +
                       literal(rows) + " && col0 + tx < " + literal(cols) + ")\nto[batch * " + toBatch +
                       " + (row0 + j) * " + literal(to[n - 2]) + " + col0 + tx] = tile[tx][j];\n}\n";
  kernel.actions.push_back(Launch{std::move(source),
                                  {uint32_t(across), uint32_t(down), uint32_t(batch)},
                                  256,
                                  {at(call.inputs[0].data), at(call.outputs[0].data)}});
  return true;
}

void transpose(const KernelCall &call, CudaKernel &kernel) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  Shape own = rowMajorStrides(x.shape), strides;
  for (int64_t d : call.intsAttribute("perm"))
    strides.push_back(own[size_t(d)]);
  if (tiledTranspose(call, collapse({y.shape, {rowMajorStrides(y.shape), strides}}), kernel))
    kernel.description = "generated tiled";
  else
    addCopy(kernel, y.shape, {y, 0, rowMajorStrides(y.shape)}, {x, 0, strides});
}

void slice(const KernelCall &call, CudaKernel &kernel) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  Shape strides = rowMajorStrides(x.shape), starts = call.intsAttribute("starts");
  Shape steps = call.intsAttribute("strides");
  int64_t first = 0;
  for (size_t d = 0; d < strides.size(); ++d) {
    first += starts[d] * strides[d];
    if (y.shape[d] > 1) // where the extent is 1 the stride is not used and may be huge
      strides[d] *= steps[d];
  }
  addCopy(kernel, y.shape, {y, 0, rowMajorStrides(y.shape)}, {x, first, strides});
}

void pad(const KernelCall &call, CudaKernel &kernel) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  Shape strides = rowMajorStrides(y.shape), lo = call.intsAttribute("lo");
  Shape inner = call.intsAttribute("inner");
  const int64_t points = y.elements();
  if (points == 0)
    return;
  uint64_t bits = bitsOf(y.dtype, call.floatAttribute("value"));
  kernel.actions.push_back(launchLoop(fill(points, bytesPerElement(y.dtype), bits), points, {at(y.data)}));
  int64_t first = 0;
  for (size_t d = 0; d < strides.size(); ++d) {
    first += lo[d] * strides[d];
    if (x.shape[d] > 1)
      strides[d] *= inner[d] + 1;
  }
  addCopy(kernel, x.shape, {y, first, strides}, {x, 0, rowMajorStrides(x.shape)});
}

void concat(const KernelCall &call, CudaKernel &kernel) {
  const TensorView &y = call.outputs[0];
  const size_t dim = size_t(call.intAttribute("dim"));
  const Shape strides = rowMajorStrides(y.shape);
  int64_t first = 0;
  for (const TensorView &x : call.inputs) {
    addCopy(kernel, x.shape, {y, first, strides}, {x, 0, rowMajorStrides(x.shape)});
    first += x.shape[dim] * strides[dim];
  }
  joinLoops(kernel);
}

} // namespace

CudaKernel bindMicroRows(const KernelCall &call) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  const int64_t parts = call.intAttribute(kParts);
  auto strides = [](const TensorView &t) {
    return t.layout.plain() ? rowMajorStrides(t.shape) : channelsLastStrides(t.shape);
  };
  CudaKernel kernel;
  kernel.description = "generated";
  if (y.elements() == 0)
    return kernel;
  StridedCopy copy = {y.shape, strides(y), strides(x), bytesPerElement(y.dtype)};
  const uint64_t row = uint64_t(copy.fromStrides[0]) * copy.elementBytes;
  copy.fromStrides[0] = y.shape[0] > 1 ? copy.fromStrides[0] * parts : 0;
  if (!y.layout.plain()) // the loops run in the order of the memory that is written
    for (Shape *list : {&copy.sizes, &copy.toStrides, &copy.fromStrides})
      std::rotate(list->begin() + 1, list->begin() + 2, list->end());
  Place from = at(x.data);
  from.perIndex = row;
  kernel.actions.push_back(launchLoop(stridedCopy(copy), y.elements(), {from, at(y.data)}));
  return kernel;
}

CudaKernel bindMovement(const KernelCall &call) {
  CudaKernel kernel;
  kernel.description = "generated";
  if (call.name() == "reshape") {
    kernel.description = "copy";
    if (call.inputs[0].data != call.outputs[0].data && call.outputs[0].bytes() > 0)
      kernel.actions.push_back(CopyBytes{at(call.outputs[0].data), at(call.inputs[0].data), call.outputs[0].bytes()});
  } else if (call.name() == "transpose") {
    transpose(call, kernel);
  } else if (call.name() == "slice") {
    slice(call, kernel);
  } else if (call.name() == "pad") {
    pad(call, kernel);
  } else {
    concat(call, kernel);
  }
  return kernel;
}

} // namespace tessera::rt::cuda
