//===- WideDual.h - lower bounds over every option -------------------------------------------------===//
//
// The dual ascent of bound/Dual.h on a WideGraph: messages are by state, not by option, so a pass takes time in
// proportion to the options and the tables, never to pairs of options. The local polytope is the same as over pairs of
// options, since options of one state cost an edge the same.
//
// A node gives an edge ahead, for each state, a share of the least sum of the options in that state. What an option has
// beyond that stays with it.
//
// Example:
//   WideDual dual(wide, everyOption(wide));
//   double bound = dual.pass();
//   dual.reducedCosts();       // by option: how far the bound rises at least if it is chosen
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SEARCH_WIDE_WIDEDUAL_H
#define TESSERA_STRATEGIES_SEARCH_WIDE_WIDEDUAL_H

#include "strategies/search/bound/MemoryPrices.h"
#include "strategies/space/WideGraph.h"

#include <deque>

namespace tessera::strategies {

class WideDual {
public:
  /// Every kept option has, on every edge, a partner that is not forbidden (Partners.h).
  WideDual(const WideGraph &wide, const Kept &kept);

  /// One sweep over all nodes, in alternating directions. Returns the bound for the present prices.
  double pass();
  /// Elementary steps of a pass.
  double passWork() const { return work_; }
  double best() const { return best_; }
  int stalledPasses() const { return stalled_; }
  /// Per node the position in `kept` that the last pass chose.
  const std::vector<int32_t> &answer() const { return chosen_; }
  /// Moves the memory prices towards the cost `target`.
  void stepPrices(double target);
  /// Of memory, by point in time. Others than of this problem are ignored.
  void setPrices(const std::vector<double> &prices);
  /// Those of the best bound.
  const std::vector<double> &bestPrices() const { return bestPrices_; }
  bool hasMemory() const { return !flat_.room.empty(); }
  /// Goes back to the messages and prices of the best bound. Two passes then make reducedCosts good.
  void restoreBest();

  /// Place of a node's first option in reducedCosts.
  size_t first(size_t node) const { return flat_.first[node]; }
  /// For each kept option a lower bound on the rise of the last pass' bound if it is chosen.
  std::vector<double> reducedCosts() const;
  double last() const { return last_; }

private:
  /// The states that kept options have, numbered anew.
  struct States {
    std::vector<int32_t> ofOption; // by kept option
    std::vector<int32_t> inTable;  // the wide graph's number
  };
  /// A table among such states in both directions.
  struct WideTable {
    std::vector<double> costs, turned;
  };
  struct Link {
    int32_t other;
    const double *table;                            // row: the other's state, column: this end's
    size_t states, theirStates;                     // numbers of them
    const std::vector<int32_t> *state, *theirState; // by kept option of this end and the other
    size_t mine, theirs;                            // places of the two ends' messages
  };
  void pull(const Link &link);

  const FlatProblem flat_; // nodes and memory, no edges
  std::vector<std::vector<Link>> links_;
  std::deque<WideTable> tables_;
  std::deque<States> states_;
  MemoryPrices prices_;
  bool forward_ = true;
  std::vector<double> unary_, message_, bestMessage_, bestPrices_, kept_, total_, score_, pushed_;
  std::vector<int32_t> chosen_;
  double last_ = 0, best_;
  int stalled_ = 0;
  double work_ = 0;
};

} // namespace tessera::strategies

#endif
