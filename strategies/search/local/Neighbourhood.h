//===- Neighbourhood.h - large neighbourhood search with exact subproblems --------------------===//
//
// Improves an answer of a FlatProblem: frees a set of variables of small elimination width (a ball in the
// graph, a forest that spans much of it, a stretch of the program, or what is live at one memory point), and minimises
// over it exactly while the rest is fixed. Memory enters a subproblem through Lagrangian prices with Polyak
// steps: the prices also bound the subproblem, so a neighbourhood without a better answer is left
// as soon as that is proven. While memory is exceeded, weights on the exceeded points grow until an
// answer fits (breakout; Morris, AAAI 1993).
//
// Example:
//   Neighbourhood search(flat, dual.answer(), dual.prices(), seed);
//   while (time is left)
//     search.step();
//   if (search.fits())
//     use(search.best(), search.bestCost());
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SEARCH_LOCAL_NEIGHBOURHOOD_H
#define TESSERA_STRATEGIES_SEARCH_LOCAL_NEIGHBOURHOOD_H

#include "strategies/search/local/PartialChange.h"
#include "strategies/search/problem/FlatProblem.h"
#include "strategies/search/reduce/Eliminate.h"

#include <random>

namespace tessera::strategies {

class Neighbourhood {
public:
  Neighbourhood(const FlatProblem &flat, Answer start, const std::vector<double> &prices, uint64_t seed);

  /// Tries one neighbourhood; true if the answer changed for the better. Adds its elementary steps.
  bool step(double &work);
  /// Continues from another answer (if it is no worse, it should also be the best).
  void restart(Answer answer);
  /// Takes the parts of another answer that make the best one better; true if there are some.
  bool merge(const Answer &other, double &work);
  /// Continues from the best if the present answer costs more than (1 + distance) times as much.
  void returnToBest(double distance) {
    if (fits() && cost_ > bestPrice_ + distance * std::abs(bestPrice_))
      restart(Answer(bestAnswer_));
  }
  bool fits() const { return !bestAnswer_.empty(); }
  const Answer &best() const { return bestAnswer_; }
  double bestCost() const { return bestPrice_; }
  const Answer &current() const { return x_; }
  double currentExcess() const { return flat_.excess(load_); }
  void setPrices(const std::vector<double> &newPrices);
  /// Share of the prices that counts as cost while memory fits. With 1 the search gives memory up where that
  /// is cheap, with 0 it spends memory where that pays: taking turns trades it between distant variables.
  void setGuidance(double share) { guidance_ = share; }

private:
  struct Sub { // the freed variables and their problem given the rest
    std::vector<int32_t> members;
    std::vector<std::vector<double>> own; // costs given the fixed neighbours
    std::vector<EliminationEdge> edges;
    int32_t from = 0, to = 0; // memory points that the members touch
    double work = 0;          // elementary steps of one solution
  };
  void chooseBall(size_t target);
  void chooseForest(size_t target);
  void chooseWindow(size_t target);
  void choosePoint(size_t target);
  void chooseBallsAt(size_t target);
  void growBall(int32_t start, size_t target);
  int32_t tightPoint();
  void build();
  double priceOf(const Answer &y) const; // guidance included
  void loadOf(const Answer &y, std::vector<double> &out) const;
  double stepWork_ = 0, guidance_ = 0;
  double solve(EliminationPlan &plan, const std::vector<double> &rates, Answer &y);
  bool improveFitting(EliminationPlan &plan);
  bool improveExceeding(EliminationPlan &plan);
  void accept(const Answer &y, double change);
  void noteIfBest();
  size_t draw(size_t n) { return size_t(random_() % n); }

  const FlatProblem &flat_;
  PartialChange parts_;
  std::mt19937_64 random_;
  Answer x_, bestAnswer_;
  double cost_, bestPrice_;
  std::vector<double> load_, prices_, weights_;
  std::vector<int32_t> place_; // position among the members, or -1
  Sub sub_;
  std::vector<double> fixedLoad_, subLoad_, rates_, cumulated_;
  std::vector<std::vector<double>> priced_; // by member: own costs with priced memory
  std::vector<const double *> unary_;       // into it
  size_t failures_ = 0;
  // Per kind of neighbourhood: relative gain and work, decaying, and all work.
  static constexpr int kWindow = 4, kKinds = 5;
  double gained_[kKinds], spent_[kKinds], used_[kKinds] = {};
  uint64_t draws_ = 0;
};

} // namespace tessera::strategies

#endif
