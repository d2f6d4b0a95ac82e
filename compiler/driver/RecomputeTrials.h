//===- RecomputeTrials.h - what --recompute auto tries -------------------------------------------===//
//
// How much is made again for the backward half: nothing, what is cheap, or segments of the forward half
// (compiler/transform/Recompute.cpp). Whether a choice fits and what it takes only shows when the program is
// searched, partitioned and laid out, so few are tried:
//
//   none, cheap                     and if none of them will do
//   full, and full:SOME             by bisection, the fewest segments that fit, those first that free most for their
//                                   price; then without each of them that has become unnecessary, and with
//                                   cheaper ones in their place
//
//   RecomputeTrials trials{.run = ..., .enough = ..., .segments = ...};
//   llvm::Error e = tryRecomputation(trials);  // the caller keeps what was best in `run`
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_DRIVER_RECOMPUTETRIALS_H
#define TESSERA_COMPILER_DRIVER_RECOMPUTETRIALS_H

#include "compiler/transform/Passes.h"

#include "llvm/Support/Error.h"

#include <functional>
#include <string>
#include <vector>

namespace tessera {

/// The level (none, cheap, full) and, of full, the segments: ascending; empty: all.
using Recomputed = compiler::RecomputePassOptions;

/// "none", "full", "full:0,2".
llvm::Expected<Recomputed> parseRecomputed(llvm::StringRef text);
std::string str(const Recomputed &again);

struct RecomputeTrials {
  /// Whether it fits; an error ends everything.
  std::function<llvm::Expected<bool>(const Recomputed &)> run;
  /// Whether what fits cannot be much improved on.
  std::function<llvm::Expected<bool>()> enough;
  /// All segments with what they cost, those first that free most bytes for it.
  std::function<std::vector<std::pair<int64_t, double>>()> segments;
};

llvm::Error tryRecomputation(const RecomputeTrials &trials);

} // namespace tessera

#endif
