//===- Fitting.h - searches until something fits the memory of a rank ------------------------------===//
//
// The search counts tensors only; the program also has the buffers of reshards, and the arena has gaps between blocks.
// If it needs more than the limit, the search is repeated: so that copies may expire, and with smaller limits. The
// cheaper program of those that fit is taken. If none fits, copies may expire and limits are smaller. For a pipeline
// this comes before smaller limits alone: its search has memory to spare, so that else nothing expires. Its first
// search counts one micro-batch, since later stages hold few, and a cut may give them more of the network. The second
// one counts as many as the first stage holds, and is taken if it fits.
//
//   Fitting fitting(run, assign, candidates, fitted, [&](AssignOptions limited) -> Expected<int64_t> { ... }, tooMuch);
//   Error e = fitting.run();    // `fitted` has what fits
//
// This header is private to the driver.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_DRIVER_FIT_FITTING_H
#define TESSERA_COMPILER_DRIVER_FIT_FITTING_H

#include "compiler/driver/fit/Candidates.h"
#include "compiler/driver/fit/FitMemory.h"

namespace tessera {

/// The most repetitions of the search with smaller limits, if the arena does not fit.
inline constexpr int kMaxAttempts = 5;

/// Whether the search had little memory to spare. The search for a pipeline counts less than its stages hold. Where it
/// has memory to spare, copies that may expire do not, since to make one again takes time.
bool memoryWasShort(const strategies::AssignReport &report);

/// Searches under one limit, and says how many bytes a rank needs then, or fails with DoesNotFit. The result is in the
/// program that Fitting was given.
using Attempt = llvm::function_ref<llvm::Expected<int64_t>(const strategies::AssignOptions &)>;

class Fitting {
public:
  /// `tooMuch` makes the error of the last attempt that found an assignment.
  /// `share`: of a pipeline, with the micro-batches that its first stage holds. `first`: the bytes that `fitted` needs,
  /// where it has what the first search finds. All that is given must outlive this.
  Fitting(Compilation &run, const strategies::AssignOptions &assign, Candidates &candidates, FittedProgram &fitted,
          Attempt attempt, llvm::function_ref<llvm::Error(int64_t)> tooMuch, strategies::PipelineShare share = {},
          std::optional<int64_t> first = std::nullopt);

  llvm::Error run();

private:
  /// A search so that copies expire, in one of two degrees.
  struct Expiring {
    std::optional<FittedProgram> fits; // the cheapest
    int64_t needed = 0, counted = 0;   // of one that does not fit, of activations if there is one; 0: there is none
    bool ofActivations = false;        // of that one
  };

  llvm::Expected<bool> countHeld(int64_t needed);
  llvm::Expected<Expiring> expire(int64_t needed);
  llvm::Error lowerExpiring(Expiring &expiring);
  llvm::Expected<bool> lower(int64_t needed, int64_t counted, strategies::Cost most);
  int64_t used() const;
  bool isLongEnough() const;

  Compilation &run_;
  const strategies::AssignOptions &assign_;
  Candidates &candidates_;
  FittedProgram &fitted_;
  const Attempt attempt_;
  const llvm::function_ref<llvm::Error(int64_t)> tooMuch_;
  const strategies::PipelineShare share_;
  const std::optional<int64_t> first_;
  const int64_t limit_;
  bool isLong_ = false; // a search with a smaller limit ended since it took no less than what fits elsewhere
};

} // namespace tessera

#endif
