//===- Annealing.h - raises a bound beyond what coordinate ascent reaches ------------------------------===//
//
// Passes of minima (Dual) stop at a bound that no single message and no step along one answer's memory can raise. With
// memory that is often far below what prices and messages can reach together. A soft minimum instead of the minimum
// makes the bound smooth. Then the ascent does not stop early, and the derivative by a price is exact: the memory that
// is expected, less the room. The temperature falls until the smooth bound is the bound (Savchynskyy, Schmidt, Kappes,
// Schnoerr, "Efficient MRF energy minimization via adaptive diminishing smoothing", UAI 2012).
//
// Prices move by their derivative over its recent size, with momentum (Kingma and Ba, "Adam", ICLR 2015): points in
// time differ by orders of magnitude in how much a price matters.
//
// Example:
//   Annealing annealing;
//   while (work < end && annealing.hot())
//     work += annealing.round(dual, target); // dual.best() rises, not in every round
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SEARCH_BOUND_ANNEALING_H
#define TESSERA_STRATEGIES_SEARCH_BOUND_ANNEALING_H

#include "strategies/search/bound/Dual.h"

namespace tessera::strategies {

class Annealing {
public:
  /// Some soft passes with steps of the prices, then a few hard ones, which raise dual.best() where they can. Ends with
  /// a hard pass. The next round goes on from the soft passes, wherever the dual has been taken since. The first round
  /// of a course chooses the temperature by the distance of dual.best() from `target`. Returns the elementary steps
  /// taken.
  double round(Dual &dual, double target);
  /// The steps of a round.
  static double roundWork(const Dual &dual);
  /// There has been a round.
  bool begun() const { return coldest_ > 0; }
  /// Has not cooled down yet. Once cold, `reheat` begins the next course, which is less hot and cools more slowly.
  bool hot() const { return temperature_ != 0; }
  void reheat();
  /// The dual has become another one: the next round begins where it stands. The temperature stays.
  void renumber() {
    mean_.clear();
    here_ = {};
  }

private:
  void stepPrices(Dual &dual);

  double temperature_ = -1;              // below 0: the next round chooses it
  double heat_ = 1, impatience_ = 1;     // of this course: factors of the first temperature and of the least rise
  double coldest_ = 0, distance_ = 0;    // of the course; of the bound from the target
  double step_ = 0, last_ = 0;           // of prices, relative to their mean; the bound of the round before
  std::vector<double> mean_, square_;    // of the derivatives by prices, by point
  double meanLeft_ = 1, squareLeft_ = 1; // what the zeros that they began with still weigh
  std::vector<double> excess_;
  Dual::Position here_; // after the last soft pass
};

} // namespace tessera::strategies

#endif
