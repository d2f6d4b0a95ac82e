//===- Layouts.h - which buffers are kept channel-blocked -------------------------------------------------===//
//
// oneDNN convolves fastest on blocked layouts (nChw16c, OIhw16i16o). Reordering around every convolution
// would cost as much as the elementwise work, so a layout is given to each buffer of the plan once:
//
//   - buffers that a kernel reads or writes point by point in one shape, and the two ends of a
//     collective, form a class and share a layout where their shapes allow it;
//   - a class with a convolution's or pooling's activation and whole blocks of channels is blocked by
//     channels; one with a convolution's weight (or its gradient) by input and output channels;
//   - buffers that have views of other shapes stay plain.
//
// Example: x -> conv(w) -> y -> fused(y, s) -> z: x is nChw16c, w OIhw16i16o; y, z are one class, nChw16c.
// The choice depends on shapes and steps alone, which are equal on all ranks, and on the block size, which
// follows from the instruction set (16, or 8 without AVX-512): ranks on unlike machines may not be mixed.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CPU_LAYOUTS_H
#define TESSERA_RUNTIME_BACKEND_CPU_LAYOUTS_H

#include "runtime/backend/Kernel.h"

namespace tessera::rt {

/// One layout per buffer. `calls` are HostPlan::calls of the plan.
std::vector<Layout> chooseLayouts(const plan::Plan &plan,
                                  const std::vector<std::vector<KernelCall>> &calls, int block);

} // namespace tessera::rt

#endif
