//===- SharedMemory.h - what stages of one place need while a plan is put together ------------------===//
//
// A plan is put together from its last stage to its first. What its places need at each of their moments is a list of
// numbers, one for each moment of each place:
//
//   SharedMemory shared(problem);
//   std::vector<int64_t> need(shared.size(), 0);
//   if (!shared.add(stage, fixed, held, need))
//     ... the stage has no room beside those of its place that come behind it
//
// A place whose stages all have their nodes needs nothing more, and its numbers are 0 again.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_PIPELINE_STAGES_SHAREDMEMORY_H
#define TESSERA_STRATEGIES_PIPELINE_STAGES_SHAREDMEMORY_H

#include "strategies/pipeline/stages/StageProblem.h"

#include <algorithm>
#include <span>

namespace tessera::strategies {

/// Whether stages share a memory that has a limit.
inline bool sharesMemory(const StageProblem &problem) {
  return !problem.places.empty() && problem.devices[size_t(problem.ways[0].devices)].memory >= 0;
}

class SharedMemory {
public:
  /// Empty unless sharesMemory(problem).
  explicit SharedMemory(const StageProblem &problem) {
    if (!sharesMemory(problem))
      return;
    limit_ = problem.devices[size_t(problem.ways[0].devices)].memory;
    stages_.resize(size_t(problem.stages));
    for (const StagePlace &place : problem.places) {
      for (size_t i = 0; i < place.stages.size(); ++i) {
        OfStage &of = stages_[size_t(place.stages[i])];
        of.begin = size_;
        of.isFirst = place.stages[i] == *std::min_element(place.stages.begin(), place.stages.end());
        for (const std::vector<int> &moment : place.inFlight)
          of.inFlight.push_back(moment[i]);
      }
      size_ += place.inFlight.size();
    }
    mostBefore_.assign(1, std::vector<int64_t>(size_, 0));
    for (const OfStage &of : stages_) {
      mostBefore_.push_back(mostBefore_.back());
      for (size_t m = 0; m < of.inFlight.size(); ++m)
        mostBefore_.back()[of.begin + m] = std::max(mostBefore_.back()[of.begin + m], of.inFlight[m]);
    }
  }

  size_t size() const { return size_; }

  /// Adds a stage to what places need. False if its place has too little room.
  bool add(int stage, int64_t fixed, int64_t held, std::span<int64_t> need) const {
    const OfStage &of = stages_[size_t(stage)];
    bool fits = true;
    for (size_t m = 0; m < of.inFlight.size(); ++m) {
      need[of.begin + m] += fixed + of.inFlight[m] * held;
      fits &= need[of.begin + m] <= limit_;
    }
    if (of.isFirst)
      std::fill_n(need.begin() + ptrdiff_t(of.begin), of.inFlight.size(), 0);
    return fits;
  }

  /// Whether whatever fits beside `b` fits beside `a`. Both have the stages from `stage` on; those before it get so many
  /// fixed and held bytes in all.
  bool noMore(std::span<const int64_t> a, std::span<const int64_t> b, int stage, int64_t fixed, int64_t held) const {
    for (size_t m = 0; m < size_; ++m)
      if (a[m] > b[m] && a[m] + fixed + mostBefore_[size_t(stage)][m] * held > limit_)
        return false; // else there is room for all that is left
    return true;
  }

private:
  struct OfStage {
    size_t begin = 0; // of its place's moments
    bool isFirst = false;
    std::vector<int64_t> inFlight; // by moment of its place
  };

  size_t size_ = 0;
  int64_t limit_ = -1;
  std::vector<OfStage> stages_;
  std::vector<std::vector<int64_t>> mostBefore_; // by stage and moment of all places: of a stage before it
};

/// Which stages of a place need less than in a plan, if the place needs too much.
enum class GivesUp { All, First, Last };

/// By stage, how much it may need at its own worst moment, so that the places have room for all of them: what it needs
/// in the plan, and its part of what its place has left, or less where the place has too little.
std::vector<int64_t> shareMemory(const StageProblem &problem, const StagePlan &plan, GivesUp who);

} // namespace tessera::strategies

#endif
