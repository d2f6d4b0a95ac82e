//===- KernelWork.h - what a kernel computes and touches, as numbers ---------------------------===//
//
//   KernelWork work = workOf(call);            // conv f32 [8, 3, 32, 32] * [64, 3, 3, 3]
//   work.bytes; *work.flops == 2.0 * 8 * 64 * 32 * 32 * 3 * 3 * 3
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_KERNELWORK_H
#define TESSERA_RUNTIME_BACKEND_KERNELWORK_H

#include "runtime/backend/Kernel.h"

#include <optional>

namespace tessera::rt {

struct KernelWork {
  // Of operands and results, each once. What only takes rows or a part of its first operand reads as much as it writes.
  uint64_t bytes = 0;
  /// The number of operations. A multiplication and an addition count as two, any other instruction of a loop's body as
  /// one. None where a kernel only moves, compares or selects.
  std::optional<double> flops;
};

/// The work of a call that passed checkKernel.
KernelWork workOf(const KernelCall &call);

} // namespace tessera::rt

#endif
