//===- Knapsack.h - the memory of one memory point as a factor of message passing -----------------===//
//
// With a price on memory, the relaxation may keep half of a large tensor; with a knapsack it may not. This factor
// holds, for one check point, a cost per option of each large user of memory there, and its value is the least sum over
// choices that fit the room: a multiple-choice knapsack, minimised exactly by dynamic programming over the memory used
// (Kellerer, Pferschy and Pisinger, "Knapsack Problems", 2004), which as a chain of sums takes part in sequential
// message passing like the edges. Options that look alike under the price, but of which no combination fills the room,
// raise its value above that of the price.
//
// Memory is counted in bins; what rounding down loses and what small users take is left to the price, as one
// continuous amount. With the costs it begins with, the value is therefore at least -price * room.
//
// Example: two users of 0 or 6 bytes at a room of 9 and a price of 1: the price alone is worth -9, the factor -6.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SEARCH_BOUND_KNAPSACK_H
#define TESSERA_STRATEGIES_SEARCH_BOUND_KNAPSACK_H

#include "strategies/search/problem/FlatProblem.h"

namespace tessera::strategies {

class Knapsack {
public:
  Knapsack(const FlatProblem &flat, int32_t point, double price);

  size_t count() const { return members_.size(); }
  /// The large users, ascending.
  int32_t variable(size_t k) const { return members_[k].variable; }
  double passWork() const { return work_; }

  /// A pass visits the members in ascending (forward) or descending order; it must alternate.
  void begin(bool forward);
  /// Moves to the variable what each option of the next member costs here beyond the best option. Adds to `total`
  /// everything that was ever moved there.
  void pull(double *total);
  /// Adds share * total to the next member's cost, and goes on to the member after it.
  void push(const double *total, double share);
  /// The least sum, after a pass.
  double value() const { return least_; }
  /// Adds for each option of each member what it costs here beyond the best option. `first` is that of the flat
  /// problem. Ends a pass.
  void addReduced(std::vector<double> &reduced, const std::vector<size_t> &first);

private:
  struct Member {
    int32_t variable;
    std::vector<int32_t> level; // per option: place in `bins`
    std::vector<int32_t> bins;  // per distinct use of memory
    std::vector<double> costs;  // per option
    std::vector<double> base;   // the costs at the start; what they have lost since was moved to the variable
    std::vector<double> least;  // per level, while visited
  };
  void advance(const Member &m, const double *from, double *to) const;
  void marginals(const Member &m, const double *before, const double *after, std::vector<double> &out) const;
  double *before(size_t k) { return &heads_[k * stride_]; }
  double *after(size_t k) { return &tails_[k * stride_]; } // reversed: by memory that is taken before it

  std::vector<Member> members_;
  size_t stride_; // bins of the room, both ends included
  // Least sums by memory: of the first k members within l bins; of the members from k on within the room less l.
  std::vector<double> heads_, tails_;
  std::vector<double> marginal_;
  size_t position_ = 0;
  bool forward_ = true;
  double least_ = 0, work_ = 0;
};

} // namespace tessera::strategies

#endif
