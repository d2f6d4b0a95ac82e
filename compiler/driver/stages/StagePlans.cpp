#include "compiler/driver/stages/StagePlans.h"

#include "llvm/ADT/STLExtras.h"

#include <map>

namespace tessera {

using strategies::Cost;
using strategies::kForbidden;

/// The most plans that are made for a number of stages, and in all; those without stages do not count.
static constexpr int kMostAlike = 2, kMostMade = 4;
/// So many are made at a time: the number is the same on every machine, so that the choice is.
static constexpr size_t kAtOnce = 2;
/// A plan is predicted to take up to so much more than its estimate: another estimate below that is looked at, too.
static constexpr double kAboveEstimate = 1.015;

std::optional<size_t> makeStagePlans(llvm::ArrayRef<StagePlanToMake> plans, const StagePlanMaking &making) {
  std::optional<size_t> best;
  Cost least = kForbidden;
  auto note = [&](llvm::ArrayRef<size_t> list, llvm::ArrayRef<StagePlanMade> made) {
    for (auto [plan, one] : llvm::zip_equal(list, made))
      if (one.fits && one.predicted < least) {
        best = plan;
        least = one.predicted;
      }
  };
  auto isOver = [&] { return best && making.stopped(); };
  int made = 0;
  std::map<int64_t, int> alike;                // by stages
  std::vector<std::pair<Cost, size_t>> others; // that do not fit as they were first searched
  for (size_t i = 0; i < plans.size() && !isOver();) {
    std::vector<size_t> list;
    for (; i < plans.size() && list.size() < kAtOnce; ++i) {
      const StagePlanToMake &plan = plans[i];
      if (plan.estimate >= least)
        break;
      if (!list.empty() && double(plan.estimate) >= double(plans[list.front()].estimate) * kAboveEstimate)
        break;
      if (alike[plan.stages] == kMostAlike || (plan.stages > 1 && made == kMostMade))
        continue;
      ++alike[plan.stages];
      made += plan.stages > 1;
      list.push_back(i);
    }
    if (list.empty())
      break;
    const std::vector<StagePlanMade> found = making.once(list);
    note(list, found);
    for (auto [plan, one] : llvm::zip_equal(list, found))
      if (!one.fits && one.predicted < kForbidden)
        others.push_back({one.predicted, plan});
  }
  if (best && !making.stopped())
    note(*best, making.whole(*best, least));
  llvm::sort(others);
  for (size_t i = 0; i < others.size() && others[i].first < least && !isOver();) {
    // What fits tells the next one when to give up.
    const size_t most = best ? kAtOnce : 1;
    std::vector<size_t> list;
    for (; i < others.size() && others[i].first < least && list.size() < most; ++i)
      list.push_back(others[i].second);
    note(list, making.whole(list, least));
  }
  return best;
}

} // namespace tessera
