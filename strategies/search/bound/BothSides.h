//===- BothSides.h - the bound's own answers on both sides of the memory limit ------------------===//
//
// The passes of a bound choose answers. Where prices of memory are near their best, equal layers all take the same
// option, now one that saves memory and then one that saves time: neither answer is good, but what fits of the second
// in the first is (local/PartialChange). So the answer that fits and the one that does not are kept which lie nearest
// to the bound: a mix of two answers costs no more above the bound than the two do.
//
//   BothSides sides(flat);
//   dual.pass();
//   sides.see(dual);
//   if (sides.known()) // merge sides.exceeding() into sides.fitting()
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SEARCH_BOUND_BOTHSIDES_H
#define TESSERA_STRATEGIES_SEARCH_BOUND_BOTHSIDES_H

#include "strategies/search/bound/Dual.h"

namespace tessera::strategies {

class BothSides {
public:
  explicit BothSides(const FlatProblem &flat) : flat_(flat) {}

  /// Looks at the answer of the last pass. Returns the elementary steps that it took.
  double see(const Dual &dual);
  /// Whether there is an answer on each side.
  bool known() const { return !fitting_.answer.empty() && !exceeding_.answer.empty(); }
  const Answer &fitting() const { return fitting_.answer; }
  const Answer &exceeding() const { return exceeding_.answer; }

private:
  struct Side {
    Answer answer;
    double cost = 0;
    std::vector<double> over; // what it takes beyond the room, by memory point
    double beside(const std::vector<double> &prices) const;
  };

  const FlatProblem &flat_;
  Side fitting_, exceeding_;
};

} // namespace tessera::strategies

#endif
