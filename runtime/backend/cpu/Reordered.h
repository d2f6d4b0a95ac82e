//===- Reordered.h - a kernel on plain copies of its operands ---------------------------------------------===//
//
// For kernels that accept only row-major operands: operands in other layouts are copied to scratch memory.
//
//   BindResult kernel = bindReordered(call, [&](const KernelCall &plain) { return registry.bind(plain); });
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CPU_REORDERED_H
#define TESSERA_RUNTIME_BACKEND_CPU_REORDERED_H

#include "runtime/backend/Kernel.h"

namespace tessera::rt {

/// `bind` is called with plain operands, perhaps more than once, as long as the kernel lives.
BindResult bindReordered(const KernelCall &call, const BindCall &bind);

} // namespace tessera::rt

#endif
