#include "strategies/pipeline/stages/Room.h"

#include <algorithm>
#include <functional>
#include <limits>

namespace tessera::strategies {

namespace {

constexpr double kRounding = 1 + 1e-9; // sums of doubles are taken a little larger than they are

/// The largest limit of a stage; negative: some have none.
int64_t largestLimit(const StageProblem &problem) {
  int64_t largest = 0;
  for (const StageWay &way : problem.ways) {
    const int64_t limit = problem.devices[size_t(way.devices)].memory;
    if (limit < 0)
      return -1;
    largest = std::max(largest, limit);
  }
  return largest;
}

int64_t mostStages(const StageProblem &problem) {
  if (problem.stages > 0)
    return problem.stages;
  int64_t devices = 0; // no stage takes less than one
  for (const StageDevices &kind : problem.devices)
    devices += kind.count;
  return std::min<int64_t>(devices, int64_t(problem.nodes.size()));
}

} // namespace

bool hasRoom(const StageProblem &problem) {
  const int64_t limit = largestLimit(problem);
  if (limit < 0 || problem.mostReplicas > 1) // replicas hold fewer micro-batches each
    return true;
  double fixed = 0, held = 0;
  for (const StageNode &node : problem.nodes) {
    int64_t leastFixed = std::numeric_limits<int64_t>::max(), leastHeld = leastFixed;
    for (const StageNodeWay &way : node.ways)
      for (const StageVariant &variant : way.variants) {
        leastFixed = std::min(leastFixed, variant.fixed);
        leastHeld = std::min(leastHeld, variant.held);
      }
    if (leastFixed == std::numeric_limits<int64_t>::max())
      return true; // the node cannot be run: that is for others to say
    fixed += double(leastFixed);
    held += double(leastHeld);
  }
  double room = 0;
  if (!problem.places.empty()) {
    // At any one moment a place holds what it holds of all its stages: as much as if all of it were in the one of which
    // it then holds least. The moment at which that is most tells most.
    std::vector<int> least;
    for (const StagePlace &place : problem.places) {
      least.push_back(0);
      for (const std::vector<int> &moment : place.inFlight)
        least.back() = std::max(least.back(), *std::min_element(moment.begin(), moment.end()));
    }
    std::sort(least.begin(), least.end(), std::greater<>());
    for (int inFlight : least) {
      const double here = std::min(fixed, double(limit));
      fixed -= here;
      if (inFlight == 0 && here < double(limit))
        return true;
      room += inFlight == 0 ? 0 : (double(limit) - here) / inFlight;
    }
    return fixed <= double(limit) * (kRounding - 1) && held <= room * kRounding;
  }
  for (int64_t behind = mostStages(problem); behind-- > 0;) { // those first that hold most
    const double here = std::min(fixed, double(limit));
    fixed -= here;
    room += (double(limit) - here) / double(microBatchesInFlight(problem, 1, behind));
  }
  return fixed <= double(limit) * (kRounding - 1) && held <= room * kRounding;
}

} // namespace tessera::strategies
