//===- Branch.h - branch and bound over reduced problems ----------------------------------------===//
//
// Depth first: reduce, finish by elimination if possible, else bound by message passing, prices and knapsacks,
// move the messages into the costs (so that children begin where the parent's bound ended; soft arc consistency,
// Cooper et al., Artificial Intelligence 2010), drop what the bound excludes, and split the options of one
// variable. Searching below a trial cutoff under the best known cost is the way to prove bounds and to find better
// answers at once: the tighter the cutoff, the more the bound excludes.
//
// Example:
//   Branch branch(incumbent, std::move(scope), cutoff, prices);
//   while (there is budget)
//     if (branch.run(work)) { // goes on where it stopped
//       if (!branch.found())
//         incumbent.raise(cutoff); // proven: nothing below the cutoff
//       break;
//     }
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SEARCH_BRANCH_H
#define TESSERA_STRATEGIES_SEARCH_BRANCH_H

#include "strategies/search/Incumbent.h"

#include <memory>

namespace tessera::strategies {

class Branch {
public:
  /// Looks for answers of a scope below the cutoff and below the incumbent. `scope` and what it came from must
  /// not move; `pricesByPoint`: memory prices to begin with, by Problem::points.
  Branch(Incumbent &incumbent, std::unique_ptr<Scope> scope, Cost cutoff, std::vector<double> pricesByPoint)
      : incumbent(incumbent), root(std::move(scope)), cutoff(cutoff), prices(std::move(pricesByPoint)) {}

  /// Searches on for `work` elementary steps. True if the search is complete: the best answer found, or the cutoff,
  /// is then a lower bound of the scope.
  bool run(double work);
  bool found() const { return better; }
  int64_t nodes() const { return visited; }

private:
  struct Split {
    int32_t variable = -1; // of the core, or -1: none
    bool byMemory = false;
    std::vector<char> first; // per option of the problem's variable: in the half that is searched first
  };
  /// `ids` are the options per core variable before fixOptions.
  Split chooseSplit(const Problem &problem, const FlatProblem &core, const Dual &dual,
                    const std::vector<std::vector<int32_t>> &ids) const;
  bool bound(Dual &dual, int most);
  enum class Outcome { Closed, Open, Expired };
  /// Reduces and bounds a scope. Closed: nothing better is left in it. Open: `split` says how to go on; its
  /// variable is then numbered as in the scope's problem.
  Outcome narrow(Scope &scope, int depth, std::vector<double> &prices, Split &split);
  struct Node { // on the way from the root to where the search is
    std::unique_ptr<Scope> scope;
    Split split;
    std::vector<double> prices;
    int side = 0; // halves that were searched
  };
  double limit() const { return double(std::min(cutoff, incumbent.solution.cost)); }
  /// A node that was begun is finished, as nothing of it is kept; only the first may be too large for that.
  bool expired() const { return (!started && overdue()) || incumbent.expired(); }
  bool overdue() const { return incumbent.work > deadline; }
  bool offer(const Scope &scope, const FlatProblem &core, const Answer &answer) {
    bool is = incumbent.offer(scope, core, answer);
    better |= is && incumbent.solution.cost < cutoff;
    return is;
  }

  Incumbent &incumbent;
  std::unique_ptr<Scope> root; // until it is narrowed
  std::vector<Node> open;
  bool started = false;
  Cost cutoff;
  std::vector<double> prices;       // by Problem::points
  double deadline = 0, granted = 0; // of the present run
  double labelShare = 300;          // work of an elimination with labels, in passes of the bound
  bool better = false;
  int64_t visited = 0;
};

} // namespace tessera::strategies

#endif
