#include "compiler/driver/stages/StageTrials.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

namespace tessera {

using strategies::Cost;
using strategies::kForbidden;

/// The most meshes like the best so far that are tried, those with which other numbers of micro-batches are tried, and
/// the most numbers between those that were tried and meshes of more axes.
static constexpr size_t kSimilarMeshes = 3, kBestMeshes = 2, kMostBetween = 8, kMostOthers = 8;
static constexpr double kWide = 1.9;

std::vector<int64_t> widelySpaced(llvm::ArrayRef<int64_t> ascending) {
  std::vector<int64_t> some;
  for (int64_t n : ascending)
    if (some.empty() || double(n) >= kWide * double(some.back()))
      some.push_back(n);
  if (!some.empty() && some.back() != ascending.back()) {
    if (some.size() > 1 && double(ascending.back()) < kWide * double(some[some.size() - 2]) * kWide)
      some.pop_back();
    some.push_back(ascending.back());
  }
  return some;
}

namespace {

class Walk {
public:
  explicit Walk(const StageTrials &trials) : trials_(trials), parts_(widelySpaced(trials.microBatches)) {}

  llvm::Expected<TriedStages> run() {
    if (llvm::Error e = sortStages())
      return e;
    for (const Row &row : rows_) {
      if (done())
        break;
      if (row.bounds[row.first] >= best_) {
        if (row.bounds[row.first] < kForbidden)
          tried_.leftOut.push_back(row.stages);
        continue;
      }
      if (llvm::Error e = tryRow(row))
        return e;
    }
    if (llvm::Error e = refine())
      return e;
    llvm::sort(tried_.leftOut);
    return std::move(tried_);
  }

private:
  struct Row {
    int64_t stages;
    std::vector<Cost> bounds; // by place in parts_
    size_t first;             // of the least bound
  };

  bool done() const { return best_ < kForbidden && trials_.stopped(); }

  llvm::Error sortStages() {
    for (int64_t stages : trials_.stages) {
      Row row{stages, {}, 0};
      for (int64_t parts : parts_) {
        llvm::Expected<Cost> bound = trials_.bound(stages, parts);
        if (!bound)
          return bound.takeError();
        row.bounds.push_back(*bound);
      }
      row.first = size_t(llvm::min_element(row.bounds) - row.bounds.begin());
      rows_.push_back(std::move(row));
    }
    llvm::stable_sort(rows_, [](const Row &a, const Row &b) { return a.bounds[a.first] < b.bounds[b.first]; });
    return llvm::Error::success();
  }

  /// Tries some meshes. Returns what the best of them takes.
  llvm::Expected<Cost> attempt(int64_t stages, int64_t parts, llvm::ArrayRef<size_t> meshes) {
    std::vector<StageTrial> list;
    for (size_t mesh : meshes)
      list.push_back({stages, parts, mesh});
    llvm::Expected<std::vector<Cost>> costs = trials_.run(list, best_);
    if (!costs)
      return costs.takeError();
    Cost least = kForbidden;
    for (auto [trial, cost] : llvm::zip_equal(list, *costs)) {
      tried_.trials.push_back({trial, cost});
      least = std::min(least, cost);
    }
    best_ = std::min(best_, least);
    return least;
  }

  /// The place `from` if it fits, else the next one that does, by larger and larger steps and then by bisection; past the
  /// end if the last one does not.
  llvm::Expected<size_t> fewestThatFit(size_t from, llvm::function_ref<llvm::Expected<bool>(size_t)> fits) const {
    const size_t last = parts_.size() - 1;
    size_t few = from, many = from;
    for (size_t step = 1;; step *= 2) {
      llvm::Expected<bool> good = fits(many);
      if (!good)
        return good.takeError();
      if (*good)
        break;
      if (many == last)
        return parts_.size();
      few = many;
      many = std::min(last, many + step);
    }
    while (few + 1 < many) {
      const size_t middle = few + (many - few) / 2;
      llvm::Expected<bool> good = fits(middle);
      if (!good)
        return good.takeError();
      (*good ? many : few) = middle;
    }
    return many;
  }

  llvm::Error tryRow(const Row &row) {
    const size_t simple = trials_.meshes(row.stages).simple;
    std::vector<size_t> meshes, others; // the others wait until something fits
    if (best_ < kForbidden) {
      for (size_t mesh : trials_.similar(row.stages, bestTrial().first))
        if (mesh < simple && meshes.size() < kSimilarMeshes)
          meshes.push_back(mesh);
    } else {
      const std::set<size_t> spread = {0, simple / 2, simple - 1};
      for (size_t mesh = 0; mesh < simple; ++mesh)
        (spread.count(mesh) ? meshes : others).push_back(mesh);
    }
    std::map<size_t, Cost> known; // by place in parts_
    auto fits = [&](size_t at) -> llvm::Expected<bool> {
      if (auto it = known.find(at); it != known.end())
        return it->second < kForbidden;
      llvm::Expected<Cost> least = attempt(row.stages, parts_[at], meshes);
      if (!least)
        return least.takeError();
      known[at] = *least;
      return *least < kForbidden;
    };
    llvm::Expected<size_t> at = fewestThatFit(row.first, fits);
    if (!at)
      return at.takeError();
    if (*at == parts_.size())
      return llvm::Error::success();
    if (!others.empty()) {
      llvm::Expected<Cost> least = attempt(row.stages, parts_[*at], others);
      if (!least)
        return least.takeError();
      known[*at] = std::min(known[*at], *least);
    }
    meshes = bestMeshes(row.stages, parts_[*at], kBestMeshes);
    auto walk = [&](int step) -> llvm::Expected<bool> { // whether that helps
      bool helps = false;
      for (size_t i = *at + size_t(step); i < parts_.size() && !done(); i += size_t(step)) {
        if (known.count(i) || row.bounds[i] >= best_)
          break;
        if (llvm::Expected<bool> next = fits(i); !next)
          return next.takeError();
        if (known[i] >= known[i - size_t(step)])
          break;
        helps = true;
      }
      return helps;
    };
    llvm::Expected<bool> more = walk(1);
    if (!more || *more) // fewer are beyond a number that is worse
      return more.takeError();
    return walk(-1).takeError();
  }

  /// The best meshes of the trials with these numbers.
  std::vector<size_t> bestMeshes(int64_t stages, int64_t parts, size_t most) const {
    llvm::SmallVector<std::pair<Cost, size_t>> order;
    for (const auto &[trial, cost] : tried_.trials)
      if (trial.stages == stages && trial.microBatches == parts && cost < kForbidden)
        order.push_back({cost, trial.mesh});
    llvm::sort(order);
    std::vector<size_t> meshes;
    for (size_t i = 0; i < std::min(most, order.size()); ++i)
      meshes.push_back(order[i].second);
    return meshes;
  }

  /// The first of those that take least. Requires one that fits.
  const std::pair<StageTrial, Cost> &bestTrial() const {
    return *llvm::find_if(tried_.trials, [&](const auto &one) { return one.second == best_; });
  }

  /// A number of micro-batches between those that were tried.
  struct Between {
    Cost least; // that it takes
    StageTrial trial;
  };

  /// What a step takes at least with a number of micro-batches between the best of a row, which takes `best`, and the
  /// next one in the row, which takes no less. A step takes a + b / n + c n, whatever a, b and c are: work, waiting for
  /// the first micro-batch, and what every micro-batch begins with.
  static Cost leastBetween(Cost best, int64_t bestParts, int64_t next, int64_t parts) {
    const auto n = double(parts), at = double(bestParts), end = double(next);
    return Cost(double(best) * (1 - std::abs(n - at) * std::abs(end - n) / (n * (end + at))));
  }

  /// Adds what lies next to the best of a row and may be better than the best of all.
  llvm::Error addBetween(const Row &row, std::vector<Between> &list) {
    std::optional<size_t> at;
    Cost least = kForbidden;
    for (const auto &[trial, cost] : tried_.trials)
      if (trial.stages == row.stages && cost < least) {
        least = cost;
        at = size_t(llvm::find(parts_, trial.microBatches) - parts_.begin());
      }
    if (!at)
      return llvm::Error::success();
    const int64_t parts = parts_[*at];
    for (int64_t n : trials_.microBatches) {
      const bool isMore = n > parts;
      if (n == parts || (isMore ? *at + 1 == parts_.size() : *at == 0))
        continue;
      const int64_t next = parts_[isMore ? *at + 1 : *at - 1];
      if (isMore ? n >= next : n <= next)
        continue;
      // What is known of rows that are not divided says nothing of others, nor which mesh is best for them.
      const bool isOther = trials_.divides(row.stages, n) && !trials_.divides(row.stages, parts);
      Cost takes = isOther ? 0 : leastBetween(least, parts, next, n);
      if (takes >= best_)
        continue;
      llvm::Expected<Cost> bound = trials_.bound(row.stages, n);
      if (!bound)
        return bound.takeError();
      takes = std::max(takes, *bound);
      std::vector<size_t> meshes = bestMeshes(row.stages, parts, 1);
      if (isOther) {
        meshes = trials_.similar(row.stages, bestTrial().first);
        llvm::erase_if(meshes, [&](size_t mesh) { return mesh >= trials_.meshes(row.stages).simple; });
        meshes.resize(std::min(meshes.size(), kBestMeshes));
      }
      for (size_t mesh : meshes)
        list.push_back({takes, {row.stages, n, mesh}});
    }
    return llvm::Error::success();
  }

  /// Around the best trials.
  llvm::Error refine() {
    if (best_ >= kForbidden || done())
      return llvm::Error::success();
    std::vector<Between> between;
    for (const Row &row : rows_)
      if (llvm::Error e = addBetween(row, between))
        return e;
    llvm::stable_sort(between, [](const Between &a, const Between &b) { return a.least < b.least; });
    between.resize(std::min(between.size(), kMostBetween));
    for (const Between &one : between) {
      if (done() || one.least >= best_)
        break;
      if (llvm::Expected<Cost> cost = attempt(one.trial.stages, one.trial.microBatches, {one.trial.mesh}); !cost)
        return cost.takeError();
    }
    const StageTrial now = bestTrial().first;
    const StageMeshes meshes = trials_.meshes(now.stages);
    std::vector<size_t> others;
    for (size_t mesh : trials_.similar(now.stages, now))
      if (mesh >= meshes.simple && others.size() < kMostOthers)
        others.push_back(mesh);
    if (others.empty() || done())
      return llvm::Error::success();
    return attempt(now.stages, now.microBatches, others).takeError();
  }

  const StageTrials &trials_;
  const std::vector<int64_t> parts_; // widely spaced numbers of micro-batches
  std::vector<Row> rows_;
  TriedStages tried_;
  Cost best_ = kForbidden;
};

} // namespace

llvm::Expected<TriedStages> tryStages(const StageTrials &trials) { return Walk(trials).run(); }

} // namespace tessera
