//===- MemoryPrices.h - what a byte costs at every memory point ------------------------------------===//
//
// One Lagrangian price per memory point. With prices a bound counts, beside costs, price * (memory used - room); every
// price >= 0 gives a valid bound. The prices move along the excess of the answers: a deflected subgradient with
// Polyak's step (Camerini, Fratta, Maffioli, "On improving relaxation methods by modified gradient techniques", 1975).
//
//   MemoryPrices prices(flat);
//   prices.addTo(unary);                                   // costs of options with what their memory costs
//   if (prices.step(answer, bound, bestBound, target)) ... // the prices moved
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SEARCH_BOUND_MEMORYPRICES_H
#define TESSERA_STRATEGIES_SEARCH_BOUND_MEMORYPRICES_H

#include "strategies/search/problem/FlatProblem.h"

namespace tessera::strategies {

class MemoryPrices {
public:
  explicit MemoryPrices(const FlatProblem &flat);

  const std::vector<double> &values() const { return price_; }
  void set(std::vector<double> values) { price_ = std::move(values); }
  /// By option: the flat problem's costs and what the memory that it takes costs.
  void price(std::vector<double> &unary) const;
  /// The constant part of a bound: -price * room.
  double constant() const;

  /// A step from an answer whose bound was `last` towards the cost `target`; `best` is the best bound so far.
  void step(const std::vector<int32_t> &answer, double last, double best, double target);
  /// After a pass that raised the best bound, or the number `stalled` that did not.
  void rose() { factor = std::min(1.05 * factor, 1.5); }
  void stalled(int passes);
  /// Steps shorten, and the direction is forgotten: after one that went far too far.
  void retreat();

  double factor = 0.5; // of the step

private:
  const FlatProblem &flat_;
  std::vector<double> price_, direction_;
};

} // namespace tessera::strategies

#endif
