//===- JoinedSteps.h - steps that run as one where whole programs run ----------------------------------===//
//
// Some adjacent steps of a program run faster as one: a product with the loop that reads it (Epilogue.h), loops and
// reductions along the same rows (RowChain.h), or sums with the loops over their results (SumLoops.h). The single steps
// stay available, too. So a caller that runs steps one by one, for a profile or to find the origin of a NaN, finds
// every result.
//
//   steps: 0 matmul x w -> t · 1 neg u -> v · 2 relu t -> y        =>   {0, 2} may run at 2, if step 1 writes neither x
//   nor w
//
// A set of steps is of one section and runs in the place of one of them. Other steps in between that read or write the
// same bytes keep their order with every step of the set. Results that only the set reads need not be stored.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CUDA_JOIN_JOINEDSTEPS_H
#define TESSERA_RUNTIME_BACKEND_CUDA_JOIN_JOINEDSTEPS_H

#include "runtime/backend/BufferUses.h"
#include "runtime/backend/cuda/bind/CudaKernel.h"
#include "runtime/backend/cuda/join/StreamSchedule.h"

#include <map>
#include <optional>

namespace tessera::rt::cuda {

/// Steps that run as one, and the bytes that each of them still reads and writes then.
struct StepSet {
  std::vector<size_t> steps; // ascending
  std::vector<StepAccess> accesses;
};

/// The order of one program's steps, in which sets are formed one after the other.
class JoinedProgram {
public:
  JoinedProgram(const plan::Program &program, const std::vector<ByteRange> &buffers);

  /// The last step in whose place the set can run; nothing if there is none, or the set is of two sections.
  std::optional<size_t> place(const StepSet &set) const;
  void join(const StepSet &set, size_t place);
  /// From now on a step that is in no set reads and writes these bytes.
  void change(size_t step, StepAccess access) { accesses_[step] = std::move(access); }

  /// Whether the step belongs to a set already. It then runs with the set and can join no other.
  bool taken(size_t step) const { return places_.contains(step); }
  std::optional<size_t> placeOf(size_t step) const;
  const std::vector<StepAccess> &accesses() const { return accesses_; }

private:
  const TimeOrder order_;
  std::vector<StepAccess> accesses_;
  std::map<size_t, size_t> places_;
};

/// A set of steps and their kernel.
struct JoinedKernel {
  StepSet set;
  CudaKernel kernel;
};

/// Loops and reductions along the same rows, from step `first` on: as many as can be one kernel; nothing where only one
/// can. Loops over a few numbers that stand between them and only read their results run behind them, by launches of
/// their own. `calls`: of all steps, empty for collectives.
std::optional<JoinedKernel> rowsFrom(const plan::Program &program, const std::vector<KernelCall> &calls, size_t first,
                                     const std::vector<ByteRange> &buffers, const BufferUses &uses,
                                     const JoinedProgram &joined, const BindOptions &options);

} // namespace tessera::rt::cuda

#endif
