#include "compiler/driver/fit/RecomputeTrials.h"

#include "llvm/ADT/STLExtras.h"

#include <map>

namespace tessera {

/// The most trials that leave out one segment, and the most that exchange a segment for a cheaper one.
static constexpr int kMaxLeftOut = 5, kMaxExchanged = 5;

llvm::Expected<Recomputed> parseRecomputed(llvm::StringRef text) {
  auto [level, list] = text.split(':');
  Recomputed again{level.str(), {}};
  bool good = llvm::is_contained(kRecomputeLevels, level);
  if (text.contains(':')) {
    good &= level == "full";
    llvm::SmallVector<llvm::StringRef> parts;
    list.split(parts, ',');
    for (llvm::StringRef part : parts) {
      int64_t n = 0;
      good &= !part.getAsInteger(10, n) && n >= 0;
      again.segments.push_back(n);
    }
    llvm::sort(again.segments);
  }
  if (!good)
    return llvm::createStringError("--recompute %s: expected auto, none, cheap, full, or full:0,2 "
                                   "with the segments that run again",
                                   text.str().c_str());
  return again;
}

std::string str(const Recomputed &again) {
  std::string text = again.level;
  for (size_t i = 0; i < again.segments.size(); ++i)
    text += (i ? "," : ":") + std::to_string(again.segments[i]);
  return text;
}

llvm::Error tryRecomputation(const RecomputeTrials &trials) {
  bool any = false;
  for (const char *level : {"none", "cheap"}) {
    llvm::Expected<bool> fits = trials.run({level, {}});
    if (!fits)
      return fits.takeError();
    any |= *fits;
  }
  if (any) {
    llvm::Expected<bool> done = trials.enough();
    if (!done || *done)
      return done ? llvm::Error::success() : done.takeError();
  }
  std::vector<int64_t> order;
  std::map<int64_t, double> cost;
  for (auto [segment, time] : trials.segments()) {
    order.push_back(segment);
    cost[segment] = time;
  }
  llvm::Expected<bool> fits = trials.run({"full", {}});
  if (!fits || !*fits)
    return fits ? llvm::Error::success() : fits.takeError();
  auto some = [&](std::vector<int64_t> segments) {
    llvm::sort(segments);
    return trials.run({"full", llvm::SmallVector<int64_t>(llvm::ArrayRef<int64_t>(segments))});
  };
  std::vector<int64_t> chosen = order;
  for (size_t few = 0, many = order.size(); few + 1 < many;) {
    const size_t middle = few + (many - few) / 2;
    std::vector<int64_t> segments(order.begin(), order.begin() + middle);
    if (fits = some(segments); !fits)
      return fits.takeError();
    if (*fits)
      chosen = std::move(segments);
    (*fits ? many : few) = middle;
  }
  // The last segment that the bisection added may have made earlier ones unnecessary.
  size_t kept = 0;
  for (int tries = 0; tries < kMaxLeftOut && kept + 1 < chosen.size(); ++tries) {
    std::vector<int64_t> fewer = chosen;
    fewer.erase(fewer.begin() + kept);
    if (fits = some(fewer); !fits)
      return fits.takeError();
    if (*fits)
      chosen = std::move(fewer);
    else
      ++kept;
  }
  // A cheaper segment may be enough in place of an expensive one.
  auto dearer = [&](int64_t a, int64_t b) { return cost[a] > cost[b]; };
  llvm::stable_sort(chosen, dearer);
  llvm::stable_sort(order, dearer);
  const std::vector<int64_t> given = chosen;
  int tries = 0;
  for (int64_t out : given)
    for (int64_t in : order) {
      if (cost[in] >= cost[out] || llvm::is_contained(chosen, in) || !llvm::is_contained(chosen, out) ||
          tries++ >= kMaxExchanged)
        continue;
      std::vector<int64_t> other = chosen;
      *llvm::find(other, out) = in;
      if (fits = some(other); !fits)
        return fits.takeError();
      if (*fits)
        chosen = std::move(other);
    }
  return llvm::Error::success();
}

} // namespace tessera
