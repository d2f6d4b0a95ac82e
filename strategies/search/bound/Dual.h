//===- Dual.h - lower bounds by message passing and memory prices -----------------------------===//
//
// Dual ascent on the local polytope of a FlatProblem, with one Lagrangian price per memory point for
// memory. Messages are passed sequentially forward and backward (Kolmogorov, "Convergent
// tree-reweighted message passing", PAMI 2006, in the form of "A new look at reweighted message
// passing", PAMI 2015). Each pass yields a valid bound, a primal answer by sequential choice, and
// reduced costs.
//
// Example:
//   Dual dual(flat);
//   double bound = dual.pass();    // forward
//   bound = dual.pass();           // backward; with equal prices never lower
//   dual.stepPrices(bestCost);     // moves the prices along the memory excess of the answers
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SEARCH_BOUND_DUAL_H
#define TESSERA_STRATEGIES_SEARCH_BOUND_DUAL_H

#include "strategies/search/bound/Knapsack.h"
#include "strategies/search/bound/MemoryPrices.h"

namespace tessera::strategies {

class Dual {
public:
  explicit Dual(const FlatProblem &flat);

  /// One sweep over all variables, in alternating directions. Returns the bound for the present
  /// prices, the problem's constant included.
  double pass();
  /// A sweep with soft minima instead of minima (SoftMinimum.h), at a temperature > 0. Coordinate ascent stops where no
  /// single message can raise the bound; on the smooth bound it goes on. Fills `excess`. What it leaves is no bound:
  /// pass() makes one of its messages. Not with knapsacks.
  void softPass(double temperature, std::vector<double> &excess);
  double softPassWork() const { return softWork_; }
  /// The number of elementary steps of a pass.
  double passWork() const { return work_ + knapsackWork_; }
  /// The answer that the last pass chose.
  const Answer &answer() const { return chosen_; }
  /// Takes one subgradient step of the prices towards the cost `target`, by the answer of the last pass. Does nothing
  /// with knapsacks.
  void stepPrices(double target);
  void setPrices(std::vector<double> newPrices);
  const std::vector<double> &prices() const { return prices_.values(); }
  /// Those of the best bound.
  const std::vector<double> &bestPrices() const { return bestPrice_; }
  const std::vector<double> &room() const { return flat_.room; }
  int32_t variables() const { return flat_.count(); }
  double bound() const { return last_; }
  double best() const { return bestBound_; }
  /// Goes back to the prices and messages of the best bound.
  void restoreBest();
  /// Where a dual stands: all that the next pass depends on but its direction.
  struct Position {
    std::vector<double> prices, messages;
  };
  Position position() const { return {prices(), message_}; }
  /// Goes to a position of this dual. Drops knapsacks.
  void goTo(const Position &position);
  /// Passes since the bound last rose by more than rounding.
  int stalledPasses() const { return stalled_; }
  /// Length of the steps, of Polyak's; it adapts itself.
  double &stepFactor() { return prices_.factor; }
  /// Goes back to the best bound and lets knapsacks stand for the memory points whose prices say most, until
  /// setPrices. False if there are none. Passes are then dearer, and still never lower the bound.
  bool addKnapsacks();

  /// Moves the messages, rounded to integers, into the costs of the problem that the flat problem was made of. The
  /// problem stays the same, and a new Dual with the same prices begins about where this one is.
  void moveInto(Problem &problem) const;

  /// For each option a lower bound on the rise of the bound if it is chosen, from the last pass.
  std::vector<double> reducedCosts() const;

private:
  void dropKnapsacks();
  void keepBest();

  const FlatProblem &flat_;
  bool forward_ = true;
  MemoryPrices prices_;
  std::vector<double> bestPrice_;
  std::vector<double> unary_; // costs with prices
  /// Per (edge, end, option): moved from the edge to the end; those of the best bound where another pass followed.
  std::vector<double> message_, bestMessage_;
  bool atBest_ = false;      // message_ are those of the best bound, and bestMessage_ is room for others
  std::vector<double> kept_; // per option: what is left at the node after the pass
  std::vector<double> sum_;
  std::vector<Knapsack> knapsacks_;
  std::vector<std::vector<std::pair<int32_t, int32_t>>> memberOf_; // per variable: knapsack, member
  std::vector<int32_t> inKnapsack_;                                // the points they stand for
  double knapsackWork_ = 0;
  Answer chosen_;
  double last_ = 0, bestBound_;
  int stalled_ = 0;
  double work_, softWork_;
};

/// q[s] = min over t of m[t][s] - p[t]. There is a row at least.
void minPlus(const double *m, const double *p, size_t rows, size_t columns, double *q);

} // namespace tessera::strategies

#endif
