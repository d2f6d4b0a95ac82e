#include "strategies/pipeline/stages/SharedMemory.h"

namespace tessera::strategies {

std::vector<int64_t> shareMemory(const StageProblem &problem, const StagePlan &plan, GivesUp who) {
  const int64_t limit = problem.devices[size_t(problem.ways[0].devices)].memory;
  std::vector<int64_t> shares(plan.size(), limit);
  for (const StagePlace &place : problem.places) {
    std::vector<int64_t> need(place.inFlight.size(), 0);
    int64_t all = 0;
    for (size_t i = 0; i < place.stages.size(); ++i) {
      int64_t &own = shares[size_t(place.stages[i])] = 0;
      int64_t fixed = 0, held = 0;
      for (int node : plan[size_t(place.stages[i])].nodes) {
        const StageVariant &variant = problem.nodes[size_t(node)].ways[0].variants[0];
        fixed += variant.fixed;
        held += variant.held;
      }
      for (size_t m = 0; m < need.size(); ++m) {
        need[m] += fixed + place.inFlight[m][i] * held;
        own = std::max(own, fixed + place.inFlight[m][i] * held);
      }
      all += own;
    }
    const int64_t left = limit - *std::max_element(need.begin(), need.end());
    const auto [first, last] = std::minmax_element(place.stages.begin(), place.stages.end());
    for (int stage : place.stages) {
      int64_t &own = shares[size_t(stage)];
      if (left >= 0)
        own += left / int64_t(place.stages.size());
      else if (who == GivesUp::All)
        own += int64_t(double(left) * double(own) / double(all)); // `all` is more than the limit
      else if (stage == (who == GivesUp::First ? *first : *last))
        own = std::max<int64_t>(0, own + left);
    }
  }
  return shares;
}

} // namespace tessera::strategies
