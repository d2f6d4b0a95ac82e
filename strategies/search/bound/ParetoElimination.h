//===- ParetoElimination.h - exact minimisation under memory by elimination ---------------------===//
//
// Eliminates one variable after the other like EliminationPlan, but keeps for every choice of the
// neighbours a list of labels: a cost and the memory at every memory point, none worse than another in
// all of them (the labels of constrained shortest paths; Aneja, Aggarwal and Nair, Networks 1983, on
// the order of bucket elimination). A memory point whose last variable is gone is checked and forgotten.
//
// Prices turn memory into cost, and with prices plain elimination gives a bound, also for the rest of every
// label: a label is dropped as soon as its cost, its priced memory and that rest exceed `limit`. That is what
// keeps the lists short: with good prices few labels survive, and often the bound alone decides.
//
// Example:
//   ParetoElimination labels(flat, dual, limit, [&] { return clock.expired(); });
//   switch (labels.run(maxWork, work, answer)) {
//   case ParetoElimination::Found:    // `answer` is best
//   case ParetoElimination::Nothing:  // proven: no answer costs less than `limit`
//   case ParetoElimination::TooLarge: // not known; `answer` is empty or better than `limit`
//   }
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SEARCH_BOUND_PARETOELIMINATION_H
#define TESSERA_STRATEGIES_SEARCH_BOUND_PARETOELIMINATION_H

#include "strategies/search/bound/Dual.h"
#include "strategies/search/reduce/Eliminate.h"

#include <cmath>
#include <functional>
#include <optional>

namespace tessera::strategies {

class ParetoElimination {
public:
  enum Result { Found, Nothing, TooLarge };

  /// Looks for answers of integer cost below `limit`, beginning with the prices of `dual`. `stop` is called every few
  /// million elementary steps; if it returns true, the run ends as TooLarge.
  ParetoElimination(
      const FlatProblem &flat, const Dual &dual, double limit, std::function<bool()> stop = [] { return false; });

  /// `answer` must be empty. Gives up after about `maxWork` elementary steps. Adds the steps done to `work`.
  Result run(double maxWork, double &work, Answer &answer);

private:
  struct Table { // an edge; the variable's own option is the inner index
    const double *costs;
    int32_t outer; // the other variable
  };
  struct Child { // a message of a variable that went before
    int32_t bucket;
    std::vector<size_t> strides; // by dimension of the scope
    size_t inner;                // for the variable's own option
  };
  struct Labels {
    std::vector<double> costs;  // without memory prices
    std::vector<double> loads;  // points.size() per label
    std::vector<int32_t> backs; // option, then one label per child
    size_t count() const { return costs.size(); }
  };
  struct Bucket {
    int32_t variable = -1; // -1: the last, which joins what does not hang together
    std::vector<int32_t> scope;
    size_t table = 1;
    std::vector<Table> edges;
    std::vector<Child> children;
    std::vector<int32_t> closing; // points that nothing later touches
    std::vector<size_t> starts;   // per row of the scope: its first label; one more at the end
    std::vector<double> least;    // per row: the least priced sum of a label
    Labels labels;
  };

  bool plan();
  void addPrices();
  bool priceMemory(Answer &answer);
  bool eliminate(size_t k);
  bool search(Answer &answer);
  /// Joins the labels of a row of a child to each of `list`; `backs` grow by one entry.
  bool join(const Labels &list, size_t backsOf, const Bucket &child, size_t row, double rest, Labels &out);
  bool keepPareto(Labels &list, size_t backsOf, size_t from);
  /// A label's cost plus its priced memory.
  double priced(double cost, const double *load) const {
    for (size_t p = 0; p < points_; ++p)
      cost += prices_[p] * load[p];
    return cost;
  }
  /// The upper limit of the priced sum of any better answer.
  double most() const {
    double sum = limit_ - 1 + kRelativeRounding * std::abs(limit_) + kRoundingUnits - flat_.constant;
    for (size_t p = 0; p < points_; ++p)
      sum += prices_[p] * flat_.room[p];
    return sum;
  }
  void toAnswer(const std::vector<int32_t> &positions, Answer &answer) const;

  const FlatProblem &flat_;
  const Dual &dual_;
  double limit_;
  size_t points_;
  std::vector<double> prices_;
  std::vector<std::vector<int32_t>> options_; // kept options per variable
  std::vector<std::vector<double>> costs_;    // by kept option, without memory prices
  std::vector<std::vector<double>> withPrices_;
  std::vector<std::vector<double>> loads_;    // points per kept option
  std::vector<std::vector<double>> matrices_; // of kept options; edges point to them
  std::optional<EliminationPlan> elimination_;
  std::vector<std::vector<double>> outside_; // per bucket and row: least priced sum of all the rest
  std::vector<Bucket> buckets_;              // in order of elimination
  /// Counts elementary steps. False if the work or the time is used up.
  bool spend(double steps);

  std::function<bool()> stop_;
  bool found_ = false, stopped_ = false;
  double done_ = 0, maxDone_ = 0, polled_ = 0;
};

} // namespace tessera::strategies

#endif
