//===- AttentionKernels.h - the two ways to compute attention, and what they share ------------------===//
//
//   tiled      own kernels that hold a tile of scores at a time (AttentionTiles.cpp)
//   composed   the library's products, with kernels on the lines of scores between them; the scores of one operator
//              at a time lie in scratch memory (Attention.cpp)
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CUDA_BIND_ATTENTIONKERNELS_H
#define TESSERA_RUNTIME_BACKEND_CUDA_BIND_ATTENTIONKERNELS_H

#include "runtime/backend/AttentionGeometry.h"
#include "runtime/backend/cuda/bind/CudaKernel.h"
#include "runtime/backend/cuda/text/Templates.h"

namespace tessera::rt::cuda {

/// Where a result is written in place of the call's output: its first row, and how many elements lie between two rows
/// of a head, or of a row's heads, if they lie side by side.
struct StoredRows {
  Place first;
  plan::DType type = plan::F32;
  int64_t width = 0;
};

/// `stored`: where all results are written, if not in the call's outputs. Those of the gradient have its type.
CudaKernel bindTiledAttention(const KernelCall &call, const std::vector<StoredRows> *stored = nullptr);
CudaKernel bindComposedAttention(const KernelCall &call, const BindOptions &options);

/// An expression for a double with exactly these bits.
std::string exactNumber(double v);
/// An expression for the number of keys that `row` sees (AttentionGeometry::inside).
std::string insideCode(const AttentionGeometry &g);
/// HAS_BIAS, BIAS(i), BIAS_HEAD, BIAS_ROW, BIAS_KEY; BIAS_BASE adds what `batch` contributes to `at`.
Constants biasConstants(const AttentionGeometry &g);

} // namespace tessera::rt::cuda

#endif
