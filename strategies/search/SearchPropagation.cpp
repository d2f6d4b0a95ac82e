//===- SearchPropagation.cpp - outwards from what is fixed ---------------------------------------===//
//
// What the user fixed has one option, and the reductions have moved its edges into its neighbours' costs.
// From there choices spread: next is always the variable whose best option, given its decided neighbours, is
// ahead of its second best by the largest margin (the one that is least in doubt); it takes that option.
//
//===----------------------------------------------------------------------------------------------===//
#include "strategies/search/PriceSweep.h"
#include "strategies/search/Searchers.h"

#include <algorithm>
#include <set>

using namespace tessera::strategies;

namespace {

constexpr double kMore = 1e300; // than every sum

Answer propagate(const FlatProblem &flat, const std::vector<double> &costs) {
  const size_t n = size_t(flat.count());
  std::vector<double> sums(costs), margins(n);
  auto margin = [&](size_t v) {
    double best = kMore, second = kMore;
    for (size_t k = flat.first[v]; k < flat.first[v + 1]; ++k) {
      second = std::min(second, std::max(best, sums[k]));
      best = std::min(best, sums[k]);
    }
    return second - best;
  };
  std::set<std::pair<double, size_t>> queue; // the smallest doubt first, ties by index
  for (size_t v = 0; v < n; ++v)
    queue.insert({-(margins[v] = margin(v)), v});
  Answer answer(n, -1);
  while (!queue.empty()) {
    const size_t v = queue.begin()->second;
    queue.erase(queue.begin());
    const double *own = &sums[flat.first[v]];
    answer[v] = int32_t(std::min_element(own, own + flat.size(int32_t(v))) - own);
    for (const FlatLink &link : flat.links[v]) {
      const size_t u = size_t(link.other), size = size_t(flat.size(link.other));
      if (answer[u] >= 0)
        continue;
      for (size_t t = 0; t < size; ++t)
        sums[flat.first[u] + t] += flat.matrices[link.to + size_t(answer[v]) * size + t];
      queue.erase({-margins[u], u});
      queue.insert({-(margins[u] = margin(u)), u});
    }
  }
  return answer;
}

} // namespace

Solution tessera::strategies::searchPropagation(const StrategyGraph &graph, const SearchOptions &options) {
  return priceSweep(graph, options, propagate);
}
