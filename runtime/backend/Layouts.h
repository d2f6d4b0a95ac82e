//===- Layouts.h - which buffers are kept in which layout -------------------------------------------------===//
//
// Libraries convolve fastest on layouts of their own: oneDNN channel-blocked (nChw16c, OIhw16i16o), its AMX kernels and
// cuDNN's tensor cores with channels last. Reordering around every convolution would cost as much as the elementwise
// work, so a layout is given to each buffer of the plan once:
//
//   - buffers that a kernel reads or writes point by point in one shape, and the two ends of a
//     collective, form a class and share a layout where their shapes allow it;
//   - a class with a convolution's or pooling's activation gets the backend's layout of activations; one with a
//     convolution's weight (or its gradient) that of weights;
//   - buffers that have views of other shapes, and the two ends of an exchange of boxes, stay plain.
//
// Example: x -> conv(w) -> y -> fused(y, s) -> z: on the CPU x is nChw16c, w OIhw16i16o; y, z are one class, nChw16c.
// The choice depends on shapes and steps alone, which are equal on all ranks, and on what the backend wishes: on the
// CPU the block size follows from the instruction set (16, or 8 without AVX-512; also 8 where channels fill no 16), so
// that ranks on unlike machines may not be mixed.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_LAYOUTS_H
#define TESSERA_RUNTIME_BACKEND_LAYOUTS_H

#include "runtime/backend/Kernel.h"

#include <functional>

namespace tessera::rt {

struct LayoutWishes {
  /// Whether operands of this type should have a layout.
  std::function<bool(plan::DType, bool weight)> wanted;
  /// The layout of such operands; plain where the shape does not allow it. The shape has at least three dimensions.
  std::function<Layout(const Shape &, bool weight)> layout;
  std::vector<bool> plain = {}; // by buffer: stays plain in any case. Empty: none
};

/// One layout per buffer. `calls` are resolveCalls of the plan.
std::vector<Layout> chooseLayouts(const plan::Plan &plan, const std::vector<std::vector<KernelCall>> &calls,
                                  const LayoutWishes &wishes);

/// The points of each plane of a tensor [N, C, points...].
int64_t pointsOf(const Shape &shape);
/// The layout of such a tensor with its channels last; plain where that is the same.
Layout channelsLastLayout(const Shape &shape);

} // namespace tessera::rt

#endif
