//===- SideBySide.h - steps of one thread each that run at once ---------------------------------------------===//
//
// A kernel that keeps its bits on one thread alone (a weight gradient of a reproducible plan) leaves a rank's other
// threads idle. Steps in a row that have such kernels, and of which none touches what another writes, run at once, a
// thread each. The bits stay, since every kernel does what it does alone.
//
//   steps:  leaf0 (x[0:8] -> a)  leaf1 (x[8:16] -> b)  sum (a, b -> c)
//   counts: 2                    0                     1
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_SIDEBYSIDE_H
#define TESSERA_RUNTIME_BACKEND_SIDEBYSIDE_H

#include "runtime/backend/Kernel.h"

namespace tessera::rt {

/// A step that may run beside its neighbours.
struct SingleStep {
  bool single = false;           // its kernel uses one thread, and it waits for no step of another resource
  size_t section = 0;            // steps of one section are called together
  std::vector<KernelCall> calls; // one for every combination of places that its operands lie in
};

/// How many steps a step's launch runs: itself and those after it. 0: the launch of an earlier step runs it.
std::vector<uint32_t> countSideBySide(const std::vector<SingleStep> &steps);

} // namespace tessera::rt

#endif
