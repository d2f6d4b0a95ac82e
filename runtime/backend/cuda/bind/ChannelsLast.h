//===- ChannelsLast.h - tensors of tensor cores' convolutions with their channels last --------------------===//
//
// Tensor cores multiply rows of channels, so that cuDNN's engines for them want N [D] H W C and filters F [D] R S C,
// and convert on the way where they do not get it. They are for 16 bits, and for F32 that may be rounded to TF32. What
// stands in one class with an operand of such a convolution (Layouts.h) is held so: as the layout {{1, C}}, one block
// of all channels.
//
//   x bf16[8, 64, 56, 56] -> conv -> y -> fused(y, scale[1, 64, 1, 1]) -> z: x, y, z have the layout {{1, 64}}
//
// A loop over such tensors is the same loop over tensors of the shape [8, 56, 56, 64]; other kernels work on plain
// copies, and a convolution that has operands of both kinds, as that of the input has, on copies with their channels
// last.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CUDA_BIND_CHANNELSLAST_H
#define TESSERA_RUNTIME_BACKEND_CUDA_BIND_CHANNELSLAST_H

#include "runtime/backend/Backend.h"
#include "runtime/backend/ExpressionCode.h"
#include "runtime/backend/Layouts.h"
#include "runtime/backend/cuda/layout/PaddedRows.h"
#include "runtime/plan/plan.pb.h"

#include <optional>

namespace tessera::rt::cuda {

/// One layout per buffer. Inputs stay plain, and so do tensors that a collective cannot move in this layout. `tf32` is
/// that of LoadOptions.
std::vector<Layout> channelsLast(const plan::Plan &plan, const std::vector<std::vector<KernelCall>> &calls, bool tf32);

/// How tensors lie otherwise than the plan says: with their channels last, or their rows further apart. Nothing where
/// all lie plain: what is widened, and what a reproducible plan has, whose kernels are generated for plain tensors.
std::optional<PaddedRows> layoutsFor(const plan::Plan &plan, const std::vector<std::vector<KernelCall>> &calls,
                                     const LoadOptions &options);

/// Whether a tensor's bytes are those of channels last, whatever its layout is called.
bool liesChannelsLast(const TensorView &tensor);

/// Strides of the logical dimensions of a tensor with channels last: [N, C, H, W] -> [H W C, 1, W C, C].
Shape channelsLastStrides(const Shape &shape);

/// The expression of a call over tensors with channels last, with channels as the last dimension; nothing where an
/// operand lies otherwise.
std::optional<ExpressionCode> withChannelsLast(const ExpressionCode &code, const KernelCall &call);

} // namespace tessera::rt::cuda

#endif
