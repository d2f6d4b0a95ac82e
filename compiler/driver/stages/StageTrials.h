//===- StageTrials.h - which numbers of stages and micro-batches are tried -------------------------===//
//
// Ranks can be arranged as one stage or as several, the batch can pass in few micro-batches or in many, and the ranks
// of a stage have a mesh. Together these are too many: what a trial takes is known only after a search. So
//
//   - the numbers of stages come in the order of what they take at least, and those that cannot be faster are left out;
//   - of the first that fits, all simple meshes are tried, of the others those most like the best so far, with the
//     micro-batches that seem best; if none fits, with more of them;
//   - then the best two meshes with more micro-batches, as long as that helps, or with fewer, where it does not;
//   - at the end, around the best of every number of stages, the micro-batches between those that were tried, if they
//     may be better than the best of all; and around that, some of the other meshes.
//
//   StageTrials trials{.stages = {1, 2, 4}, .microBatches = {1, 2, 4, 8}, .bound = ..., .meshes = ..., .run = ...};
//   llvm::Expected<TriedStages> tried = tryStages(trials);      // `run` keeps what it found
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_DRIVER_STAGES_STAGETRIALS_H
#define TESSERA_COMPILER_DRIVER_STAGES_STAGETRIALS_H

#include "strategies/space/StrategyGraph.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <functional>
#include <vector>

namespace tessera {

struct StageTrial {
  int64_t stages = 1, microBatches = 1;
  size_t mesh = 0; // of those that a stage may have
};

/// The meshes of a stage. The first `simple` of them come first.
struct StageMeshes {
  size_t simple = 0, all = 0;
};

struct StageTrials {
  std::vector<int64_t> stages, microBatches; // ascending
  /// What a step takes at least; kForbidden: there is none of this kind.
  std::function<llvm::Expected<strategies::Cost>(int64_t stages, int64_t microBatches)> bound;
  std::function<StageMeshes(int64_t stages)> meshes;
  /// All meshes of so many stages, those first that are most like the mesh of the trial.
  std::function<std::vector<size_t>(int64_t stages, const StageTrial &like)> similar;
  /// What a step takes in each of the trials, which differ in their meshes alone; kForbidden: it does not fit, or it
  /// takes no less than `most`. An error ends all.
  std::function<llvm::Expected<std::vector<strategies::Cost>>(llvm::ArrayRef<StageTrial>, strategies::Cost most)> run;
  /// Whether the ranks of a stage can divide the rows of a micro-batch. Where they cannot, a step takes longer than its
  /// number of micro-batches alone tells.
  std::function<bool(int64_t stages, int64_t microBatches)> divides = [](int64_t, int64_t) { return true; };
  /// Becomes true: nothing more is tried once something fits.
  std::function<bool()> stopped = [] { return false; };
};

struct TriedStages {
  std::vector<std::pair<StageTrial, strategies::Cost>> trials; // in their order
  std::vector<int64_t> leftOut;                                // numbers of stages that cannot be faster
};

llvm::Expected<TriedStages> tryStages(const StageTrials &trials);

/// Some of the numbers, each at least about twice the one before, and the last.
std::vector<int64_t> widelySpaced(llvm::ArrayRef<int64_t> ascending);

} // namespace tessera

#endif
