//===- CountWork.h - what a device would run of a plan, as numbers --------------------------------------===//
//
// Counts what BoundProgram.h binds.
//
//   Result<std::vector<DeviceWork>> work = countWork(plan, program, options);
//   work[0]      // {"fc1/MatMul", "matmul", launches 1, flops 2 m n k, bytes of x, w and y, ...}
//
// Bytes: a library call and a generated kernel pass over each tensor that they are given once; a copy reads and writes.
// Scratch memory is not counted.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CUDA_COUNT_COUNTWORK_H
#define TESSERA_RUNTIME_BACKEND_CUDA_COUNT_COUNTWORK_H

#include "runtime/backend/Backend.h"

namespace tessera::rt::cuda {

/// One launch, library call, copy or fill.
struct DeviceWork {
  std::string step; // the step's name; of several steps that run as one, the first's
  std::string kind; // the kernel's name in the plan: "matmul"; "rows" for loops along rows that run as one
  bool library = false;
  int bits = 32; // of the numbers that it computes with
  double flops = 0;
  uint64_t bytes = 0;
  uint64_t times = 1; // in a run of the program
};

/// Of one program of the plan. The plan passed checkPlan.
Result<std::vector<DeviceWork>> countWork(const plan::Plan &plan, int program, const LoadOptions &options);

} // namespace tessera::rt::cuda

#endif
