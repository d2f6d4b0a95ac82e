//===- CpuBackend.h - the fast backend on CPUs -----------------------------------------------------------===//
//
// Convolutions, matrix products and pooling by oneDNN, everything elementwise and every reduction by the
// fused-kernel engine, the rest by the reference kernels. Layouts are chosen over the whole plan when it
// is loaded (Layouts.h), so that a convolution finds its operands as it wants them; where a kernel does
// not take an operand's layout, a reorder into scratch stands before or after it.
//
// Plans loaded with LoadOptions::widen run on the reference kernels.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CPU_CPUBACKEND_H
#define TESSERA_RUNTIME_BACKEND_CPU_CPUBACKEND_H

#include "runtime/backend/Backend.h"

namespace tessera::rt {
std::unique_ptr<Backend> createCpuBackend();
/// What its kernels are of: "oneDNN 2.6.3".
std::string cpuLibraries();
} // namespace tessera::rt

#endif
