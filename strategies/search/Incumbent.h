//===- Incumbent.h - the best answer so far, and nested subproblems ---------------------------===//
//
// A Scope is a problem and where it came from: branching copies the live part of a problem into a child
// and restricts it. `lift` carries an answer of the child out to a choice of the graph. The
// Incumbent judges choices with Evaluate and keeps the best.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SEARCH_INCUMBENT_H
#define TESSERA_STRATEGIES_SEARCH_INCUMBENT_H

#include "strategies/search/Searchers.h"
#include "strategies/search/bound/Dual.h"
#include "strategies/search/problem/FlatProblem.h"

namespace tessera::strategies {

struct Scope {
  explicit Scope(const StrategyGraph &graph) : problem(graph) {}
  explicit Scope(const Scope &outer, const Problem &whole);

  Choice lift(std::vector<int32_t> ids) const;
  /// Turns a choice of the graph into an answer of the flat problem. An option that was dropped is replaced by the
  /// cheapest.
  Answer project(const FlatProblem &flat, const Choice &choice) const;

  Problem problem;

private:
  const Scope *parent_ = nullptr;
  std::vector<int32_t> parentVariables_; // of the parent's problem, per variable here before reductions
};

struct Incumbent {
  Incumbent(const StrategyGraph &graph, const SearchOptions &options) : graph(graph), options(options), clock(options) {
    solution.lowerBound = options.bound;
  }

  /// Judges an answer; true if it became the best.
  bool offer(const Scope &scope, const FlatProblem &flat, const Answer &answer);
  bool offer(Choice choice);
  void raise(Cost bound) {
    solution.lowerBound = std::max(solution.lowerBound, std::min(bound, solution.cost));
    tell();
  }
  bool found() const { return !solution.choice.empty(); }
  /// Whether the best answer is within the options' gap.
  bool solved() const { return found() && double(solution.cost) <= double(solution.lowerBound) * (1 + options.gap); }
  bool done() const { return solved() || expired(); }
  /// Tells the options' watch.
  void tell() const;
  bool expired() const { return (options.work > 0 && work >= 1e9 * options.work) || clock.expired(); }

  const StrategyGraph &graph;
  const SearchOptions &options;
  Clock clock;
  Solution solution;
  double work = 0; // elementary steps done, about a nanosecond each; phases are scheduled by it
};

/// A bound in doubles as a proven integer one: rounding of the sums may have raised it a little.
Cost provenBound(double bound);

/// Minimises the flat problem exactly if memory cannot bind and the width allows; false if not. `least` is
/// the minimum, kFlatForbidden or more if there is no answer.
bool eliminateFlat(const FlatProblem &flat, double tableLimit, double totalLimit, Answer &answer, double &least,
                   double &work);

/// How many entries the tables of that have; infinity if it cannot be done.
double eliminationEntries(const FlatProblem &flat, double tableLimit, double totalLimit);

/// Drops options whose reduced cost shows that no answer below `cutoff` has them. Returns how many;
/// sets problem.infeasible if a variable has none left.
size_t fixOptions(Problem &problem, const FlatProblem &flat, const Dual &dual, double cutoff);

} // namespace tessera::strategies

#endif
