//===- AttentionKernels.h - the three ways to compute attention, and what they share ----------------===//
//
//   library    the library's kernels, where operands and results have 16 bits (LibraryAttention.cpp)
//   tiled      own kernels that hold a tile of scores at a time (AttentionTiles.cpp), on tensor cores in bfloat16
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

/// Where the rows of an operand or a result lie: the first one, and by how many elements rows, heads and batches are
/// apart. The elements of a row lie side by side.
struct PlacedRows {
  Place first;
  plan::DType type = plan::F32;
  int64_t row = 0, head = 0, batch = 0;
};
/// As `r` says, in a tensor at this place.
PlacedRows placedRows(const AttentionGeometry::Rows &r, Place tensor, plan::DType type);

/// Where everything lies but the bias, what dropout keeps and what attention keeps for its gradient: dy, q, k, v of the
/// call, and its results. Operands are of one type, results, too.
struct AttentionPlaces {
  std::vector<PlacedRows> operands, results;
};
AttentionPlaces attentionPlaces(const KernelCall &call);

/// The call with operands and results at these places.
CudaKernel bindTiledAttention(const KernelCall &call, const AttentionPlaces &places);
/// The same by the library, best first; it may refuse each when it is prepared. Empty where it cannot say what the call
/// says, or would round what the call does not.
std::vector<CudaKernel> bindLibraryAttention(const KernelCall &call, const AttentionPlaces &places,
                                             const BindOptions &options);
CudaKernel bindComposedAttention(const KernelCall &call, const BindOptions &options);
/// Whether the call is composed of products, if the library has them.
bool composesAttention(const KernelCall &call, const BindOptions &options);

/// An expression for a double with exactly these bits.
std::string exactNumber(double v);
/// An expression for the number of keys that `row` sees (AttentionGeometry::inside).
std::string insideCode(const AttentionGeometry &g);
/// HAS_BIAS, BIAS(i), BIAS_HEAD, BIAS_ROW, BIAS_KEY; BIAS_BASE adds what `batch` contributes to `at`.
Constants biasConstants(const AttentionGeometry &g, plan::DType type);
/// HAS_KEEP, M, KEEP(i), KEEP_SCALE.
Constants keepConstants(const KernelCall &call, const AttentionGeometry &g);

} // namespace tessera::rt::cuda

#endif
