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
  /// Looks for answers of a scope below the cutoff and below the incumbent. `scope`, and the scopes that it came from,
  /// must not move. `pricesByPoint` are the memory prices to begin with, by Problem::points.
  Branch(Incumbent &incumbent, std::unique_ptr<Scope> scope, Cost cutoff, std::vector<double> pricesByPoint);

  /// Searches on for `work` elementary steps. True if the search is complete: the best answer found, or the cutoff,
  /// is then a lower bound of the scope.
  bool run(double work);
  bool found() const { return better_; }
  int64_t nodes() const { return visited_; }

private:
  struct Split {
    int32_t variable = -1; // of the flat problem, or -1: none
    bool byMemory = false;
    std::vector<char> first; // per option of the problem's variable: in the half that is searched first
  };
  /// `ids` are the options per variable of the flat problem before fixOptions.
  Split chooseSplit(const Problem &problem, const FlatProblem &flat, const Dual &dual,
                    const std::vector<std::vector<int32_t>> &ids) const;
  bool bound(Dual &dual, int most);
  enum class Outcome { Closed, Open, Expired };
  /// Reduces and bounds a scope. Closed: nothing better is left in it. Open: `split` says how to go on; its
  /// variable is then numbered as in the scope's problem.
  Outcome narrow(Scope &scope, int depth, std::vector<double> &prices, Split &split);
  struct Node { // A node on the path from the root to the present position.
    std::unique_ptr<Scope> scope;
    Split split;
    std::vector<double> prices;
    int side = 0; // number of halves that were searched
  };
  double limit() const { return double(std::min(cutoff_, incumbent_.solution.cost)); }
  /// A node that was begun is always finished, since its state is not kept. Only the root may stop in between, since it
  /// may be too large.
  bool expired() const { return (!started_ && overdue()) || incumbent_.expired(); }
  bool overdue() const { return incumbent_.work > deadline_; }
  bool offer(const Scope &scope, const FlatProblem &flat, const Answer &answer) {
    bool is = incumbent_.offer(scope, flat, answer);
    better_ |= is && incumbent_.solution.cost < cutoff_;
    return is;
  }

  Incumbent &incumbent_;
  std::unique_ptr<Scope> root_; // until it is narrowed
  std::vector<Node> open_;
  bool started_ = false;
  Cost cutoff_;
  std::vector<double> prices_;        // by Problem::points
  double deadline_ = 0, granted_ = 0; // both of the present run
  double labelShare_;                 // work of an elimination with labels, in passes of the bound
  bool better_ = false;
  int64_t visited_ = 0;
};

} // namespace tessera::strategies

#endif
