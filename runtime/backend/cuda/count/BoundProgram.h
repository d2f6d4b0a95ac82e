//===- BoundProgram.h - what a device would run of a program, bound without one --------------------------===//
//
// Binds a program as CudaPlan does, at addresses that no memory has. Libraries are taken to accept the first choice of
// every kernel.
//
//   Result<BoundProgram> bound = bindProgram(plan, program, options);
//   bound->kernels[0].set.steps         // {3, 5}: steps 3 and 5 run as one, in the place of one of them
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CUDA_COUNT_BOUNDPROGRAM_H
#define TESSERA_RUNTIME_BACKEND_CUDA_COUNT_BOUNDPROGRAM_H

#include "runtime/backend/Backend.h"
#include "runtime/backend/cuda/join/JoinedSteps.h"

namespace tessera::rt::cuda {

/// A step, or several that run as one.
struct BoundStep {
  StepSet set;
  CudaKernel kernel;
  std::string name;   // of the first step
  std::string kind;   // the kernel's name in the plan: "matmul"; "rows" for loops along rows that run as one
  uint64_t times = 1; // in a run of the program
};

struct BoundProgram {
  std::vector<KernelCall> calls;  // by step; empty for collectives
  std::vector<BoundStep> kernels; // in the order in which they run
  const char *base = nullptr;     // the address from which accesses are counted
};

/// The plan passed checkPlan, and lives as long as the result.
Result<BoundProgram> bindProgram(const plan::Plan &plan, int program, const LoadOptions &options);

} // namespace tessera::rt::cuda

#endif
