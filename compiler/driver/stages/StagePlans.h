//===- StagePlans.h - which of the plans that seem best are made ------------------------------------===//
//
// An estimate says what a step takes; only a plan that is made tells whether it fits. To make one that fits takes one
// search where the first one does, and some dozen where strategies must be chosen again and again. A plan that is known
// to fit ends most of these: what takes no less time need not be made to fit. So
//
//   - the plans of the best estimates are searched once each, until one fits and none of the others promises less;
//   - what is computed again may make that one faster;
//   - then those that did not fit are made to, as long as they promise less.
//
// Two at a time are made, where the second one is likely to be needed whatever becomes of the first one.
//
//   StagePlanMaking making{.once = ..., .whole = ..., .stopped = ...};
//   std::optional<size_t> best = makeStagePlans({{8, 640}, {8, 641}, {4, 652}}, making);
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_DRIVER_STAGES_STAGEPLANS_H
#define TESSERA_COMPILER_DRIVER_STAGES_STAGEPLANS_H

#include "strategies/space/StrategyGraph.h"

#include "llvm/ADT/ArrayRef.h"

#include <functional>
#include <optional>
#include <vector>

namespace tessera {

/// A plan that was estimated.
struct StagePlanToMake {
  int64_t stages = 1;
  strategies::Cost estimate = 0; // of a step
};

struct StagePlanMade {
  bool fits = false;
  /// Of a step. Of what does not fit: of the strategies that were found first, or the estimate; kForbidden: it cannot be
  /// made at all.
  strategies::Cost predicted = strategies::kForbidden;
};

struct StagePlanMaking {
  /// Searches each of the plans once. They may be searched side by side.
  std::function<std::vector<StagePlanMade>(llvm::ArrayRef<size_t> plans)> once;
  /// Makes them fit, and searches what is computed again. One may be given up once it is known to take `longEnough`.
  std::function<std::vector<StagePlanMade>(llvm::ArrayRef<size_t> plans, strategies::Cost longEnough)> whole;
  /// Becomes true: nothing more is made once something fits.
  std::function<bool()> stopped = [] { return false; };
};

/// Makes some of the plans, which come in the order of their estimates. Returns the one that takes the least time of
/// those that fit; nothing: none does.
std::optional<size_t> makeStagePlans(llvm::ArrayRef<StagePlanToMake> plans, const StagePlanMaking &making);

} // namespace tessera

#endif
