//===- SearchRecursive.cpp - fast halving --------------------------------------------------------===//
//
// The variables in program order are halved until few are left; those are minimised exactly given what is
// already decided (an undecided neighbour counts with its best option). On the way up a window over the seam
// of the two halves is minimised again given all the rest. About linear in the size of the graph.
//
//===----------------------------------------------------------------------------------------------===//
#include "strategies/search/PriceSweep.h"
#include "strategies/search/Searchers.h"
#include "strategies/search/reduce/Eliminate.h"

#include <algorithm>

using namespace tessera::strategies;

namespace {

// Tuning. At the end of a line: what half and twice do to the cost (docs/adding-a-searcher.md).
constexpr int32_t kPiece = 12;          // variables that are decided together; +11.2/+190.1 %
constexpr double kMostTable = 1 << 18;  // entries of one table of an elimination; same
constexpr double kMostTables = 1 << 20; // entries of all; same

class Halving {
public:
  Halving(const FlatProblem &flat, const std::vector<double> &costs)
      : flat_(flat), costs_(costs), answer_(size_t(flat.count()), -1) {}

  Answer run() {
    halve(0, flat_.count());
    return answer_;
  }

private:
  void halve(int32_t from, int32_t to) {
    if (to - from <= kPiece)
      return decide(from, to);
    const int32_t middle = from + (to - from) / 2;
    halve(from, middle);
    halve(middle, to);
    decide(std::max(from, middle - kPiece / 2), std::min(to, middle + kPiece / 2));
  }

  void decide(int32_t from, int32_t to) {
    if (from >= to)
      return;
    std::vector<int32_t> sizes;
    std::vector<std::vector<double>> own;
    std::vector<const double *> unary;
    std::vector<EliminationEdge> edges;
    for (int32_t v = from; v < to; ++v) {
      const size_t size = size_t(flat_.size(v));
      sizes.push_back(flat_.size(v));
      const double *first = &costs_[flat_.first[size_t(v)]];
      own.emplace_back(first, first + size);
      for (const FlatLink &link : flat_.links[size_t(v)]) {
        if (link.other >= from && link.other < to) {
          if (link.other > v)
            edges.push_back({v - from, link.other - from, &flat_.matrices[link.to], &flat_.matrices[link.from]});
          continue;
        }
        const double *rows = &flat_.matrices[link.from]; // the other's option by this one's
        const int32_t chosen = answer_[size_t(link.other)];
        for (size_t s = 0; s < size; ++s) {
          double least = rows[size_t(std::max(chosen, 0)) * size + s];
          for (size_t t = 1; chosen < 0 && t < size_t(flat_.size(link.other)); ++t)
            least = std::min(least, rows[t * size + s]);
          own.back()[s] += least;
        }
      }
    }
    EliminationPlan plan(sizes, edges, {kMostTable, kMostTables});
    if (!plan.fits() && to - from > 1) { // too dense, so one half is decided after the other
      const int32_t middle = from + (to - from) / 2;
      decide(from, middle);
      return decide(middle, to);
    }
    std::vector<int32_t> positions(1, 0);
    if (plan.fits()) {
      for (const std::vector<double> &list : own)
        unary.push_back(list.data());
      plan.run(unary, positions);
    } else {
      positions[0] = int32_t(std::min_element(own[0].begin(), own[0].end()) - own[0].begin());
    }
    std::copy(positions.begin(), positions.end(), answer_.begin() + from);
  }

  const FlatProblem &flat_;
  const std::vector<double> &costs_;
  Answer answer_; // -1: undecided
};

} // namespace

Solution tessera::strategies::searchRecursive(const StrategyGraph &graph, const SearchOptions &options) {
  return priceSweep(graph, options, [](const FlatProblem &flat, const std::vector<double> &costs) {
    return Halving(flat, costs).run();
  });
}
