//===- RecomputeTrials.h - what --recompute auto tries -------------------------------------------===//
//
// The backward half may recompute nothing, cheap values, or segments of the forward half
// (compiler/transform/Recompute.cpp). Whether a choice fits, and how long it takes, is known only after search,
// partition and layout. So only a few choices are tried:
//
//   none, cheap                     both, as the second may be smaller and faster; and if neither is good enough
//   full, and full:SOME             a bisection finds the fewest segments that fit, in the order of bytes freed per
//                                   time; then each segment that has become unnecessary is left out, and expensive
//                                   ones are replaced by cheaper ones
//
//   RecomputeTrials trials{.run = ..., .enough = ..., .segments = ...};
//   llvm::Error e = tryRecomputation(trials);  // `run` keeps the best result
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_DRIVER_FIT_RECOMPUTETRIALS_H
#define TESSERA_COMPILER_DRIVER_FIT_RECOMPUTETRIALS_H

#include "compiler/transform/Passes.h"

#include "llvm/Support/Error.h"

#include <functional>
#include <string>
#include <vector>

namespace tessera {

/// The level (none, cheap, full) and, for full, the segments in ascending order; empty: all.
using Recomputed = compiler::RecomputePassOptions;

/// The levels, in ascending order of what they compute again.
inline constexpr const char *kRecomputeLevels[] = {"none", "cheap", "full"};

/// "none", "full", "full:0,2".
llvm::Expected<Recomputed> parseRecomputed(llvm::StringRef text);
std::string str(const Recomputed &again);

struct RecomputeTrials {
  /// Compiles with this recomputation and returns whether it fits. An error ends all trials.
  std::function<llvm::Expected<bool>(const Recomputed &)> run;
  /// Whether the best result so far is so good that further trials could improve it little.
  std::function<llvm::Expected<bool>()> enough;
  /// All segments with the time of their recomputation, in descending order of bytes freed per time.
  std::function<std::vector<std::pair<int64_t, double>>()> segments;
};

llvm::Error tryRecomputation(const RecomputeTrials &trials);

} // namespace tessera

#endif
