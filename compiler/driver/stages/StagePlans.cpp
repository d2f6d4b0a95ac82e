#include "compiler/driver/stages/StagePlans.h"

#include "llvm/ADT/STLExtras.h"

#include <map>

namespace tessera {

using strategies::Cost;
using strategies::kForbidden;

/// The most plans that are made for a number of stages, and in all; those without stages do not count.
static constexpr int kMostAlike = 2, kMostMade = 4;

std::optional<size_t> makeStagePlans(llvm::ArrayRef<StagePlanToMake> plans, const StagePlanMaking &making) {
  std::optional<size_t> best;
  Cost least = kForbidden;
  auto note = [&](size_t plan, const StagePlanMade &made) {
    if (made.fits && made.predicted < least) {
      best = plan;
      least = made.predicted;
    }
  };
  int made = 0;
  std::map<int64_t, int> alike;                // by stages
  std::vector<std::pair<Cost, size_t>> others; // that do not fit as they were first searched
  for (auto [i, plan] : llvm::enumerate(plans)) {
    if (best && (plan.estimate >= least || making.stopped()))
      break;
    if (alike[plan.stages] == kMostAlike || (plan.stages > 1 && made == kMostMade))
      continue;
    ++alike[plan.stages];
    made += plan.stages > 1;
    const StagePlanMade found = making.once(i);
    note(i, found);
    if (!found.fits && found.predicted < kForbidden)
      others.push_back({found.predicted, i});
  }
  if (best && !making.stopped())
    note(*best, making.whole(*best, least));
  llvm::sort(others);
  for (auto [predicted, plan] : others)
    if (predicted < least && !(best && making.stopped()))
      note(plan, making.whole(plan, least));
  return best;
}

} // namespace tessera
