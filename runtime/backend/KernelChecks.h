//===- KernelChecks.h - what every kernel's operands and attributes must satisfy --------------===//
//
// The plan is untrusted. So before any backend binds a kernel, checkKernel compares its operands and attributes with
// the operator's definition (dialects/graph/GraphOps.td). Kernels therefore contain no checks, and the null backend
// checks as much as the others. The geometries below are the parsed attributes; after checkKernel they cannot fail.
//
//   conv f32[1, 3, 8, 8] * f32[4, 3, 3, 3] -> f32[1, 4, 8, 8] with pads {0, 0, 0, 0}
//   => "conv: the result of [1, 3, 8, 8] and [4, 3, 3, 3] has the shape [1, 4, 6, 6],
//      not [1, 4, 8, 8]"
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_KERNELCHECKS_H
#define TESSERA_RUNTIME_BACKEND_KERNELCHECKS_H

#include "runtime/backend/Kernel.h"

#include <array>
#include <utility>

namespace tessera::rt {

/// Checks that the call is what its operator allows. Unknown kernels are an error.
Status checkKernel(const KernelCall &call);

/// The places of windows: `in`, `out` and `kernel` are the sizes of input, result and window along each of three
/// spatial dimensions. An operator with fewer spatial dimensions has leading sizes of 1.
struct WindowGeometry {
  size_t spatial = 0; // given spatial dimensions
  std::array<int64_t, 3> in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1};
  std::array<int64_t, 3> stride{1, 1, 1}, padLo{0, 0, 0}, padHi{0, 0, 0}, dilation{1, 1, 1};
};

/// A convolution (forward or either gradient). c and f are per group.
struct ConvGeometry : WindowGeometry {
  int64_t n = 1, groups = 1, c = 1, f = 1;
  int64_t leaves = 1; // of a gradient of weights: equal ranges of n, a power of two, added as a balanced tree
};
Result<ConvGeometry> convGeometry(const KernelCall &call);

/// A pooling (forward or gradient), seen as `planes` = n * c independent planes.
struct PoolGeometry : WindowGeometry {
  int64_t planes = 1;
  bool includePad = false;
};
Result<PoolGeometry> poolGeometry(const KernelCall &call);

/// y[b] = a[batchA[b]] * b[batchB[b]], each matrix m x k (or its transpose) times k x n.
struct MatMulGeometry {
  int64_t m = 1, n = 1, k = 1;
  int64_t leaves = 1; // equal ranges of k, a power of two, whose products are added as a balanced tree
  bool transposeA = false, transposeB = false;
  Shape batch;                      // broadcast batch dimensions
  Shape batchStrideA, batchStrideB; // in matrices, 0 where broadcast
  /// The numbers of the matrices of a and b whose product is matrix number `i` of the result.
  std::pair<int64_t, int64_t> operands(int64_t i) const;
};
Result<MatMulGeometry> matmulGeometry(const KernelCall &call);

/// gather and scatter_add: table [batch, outer, extent, inner], indices [batch, indices], values [batch,
/// outer, indices, inner]. Only the first `rows` of `extent` count.
struct IndexGeometry {
  int64_t batch = 1, outer = 1, extent = 1, inner = 1, indices = 1, start = 0, rows = 1;
};
Result<IndexGeometry> indexGeometry(const KernelCall &call);

/// A tensor seen as outer * extent * inner around dimension `dim` (softmax and its kin, argmax).
struct AxisGeometry {
  int64_t outer = 1, extent = 1, inner = 1;
};
Result<AxisGeometry> axisGeometry(const KernelCall &call);

} // namespace tessera::rt

#endif
