//===- PartialChange.h - which parts of a change to make ----------------------------------------===//
//
// A better answer that exceeds the memory is seldom useless: where it differs from an answer that fits, it does so in
// parts that no edge joins, and each part can be taken alone. An edge joins two variables only if what the change of
// one costs depends on that of the other. Parts are left out, those first that free most of what is exceeded for the
// least loss; then what fits after all is taken again, and what only saves memory that nobody needs is given up.
//
// Example: two parts save 5 each and need 3 bytes each, a third costs 2 and frees 1 byte; 2 bytes are free. The first
// and the third are taken: 3 saved, where all or nothing would be nothing.
//
//   PartialChange parts(flat);
//   double change = parts.choose(members, from, to, x, load, prices, 0); // `to`: what fits of it
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SEARCH_LOCAL_PARTIALCHANGE_H
#define TESSERA_STRATEGIES_SEARCH_LOCAL_PARTIALCHANGE_H

#include "strategies/search/problem/FlatProblem.h"

namespace tessera::strategies {

class PartialChange {
public:
  explicit PartialChange(const FlatProblem &flat) : flat_(flat), place_(size_t(flat.count()), -1) {}

  /// The variables `members` have the options `from` in x, whose memory `load` fits, and are to get the options `to`.
  /// Sets the parts of `to` that do not fit back to `from`, and returns the change of the cost. `rates` is the value of
  /// a byte at each memory point where memory is short; `guidance` * `guide` is what a byte costs in any case.
  double choose(const std::vector<int32_t> &members, const Answer &from, Answer &to, const Answer &x,
                const std::vector<double> &load, const std::vector<double> &rates, const std::vector<double> &guide,
                double guidance);
  /// Elementary steps since the last call.
  double takeWork() {
    double done = work_;
    work_ = 0;
    return done;
  }

private:
  struct Span {
    int32_t from, to;
    double amount;
  };
  struct Part {
    std::vector<int32_t> members; // positions
    std::vector<Span> spans;      // memory that it adds, in order of points
    double change = 0;            // of the cost, guidance included
    double priced = 0;            // the change with the value of its memory
    bool taken = true;
  };
  void split(const std::vector<int32_t> &members, const Answer &from, const Answer &to);
  bool joins(const FlatLink &link, size_t columns, int32_t i, int32_t j, const Answer &from, const Answer &to) const;
  void measure(Part &part, const std::vector<int32_t> &members, const Answer &from, const Answer &to, const Answer &x);
  bool fits(const Part &part, double sign) const;
  void move(Part &part, bool take);
  bool leaveOut();

  const FlatProblem &flat_;
  std::vector<int32_t> place_; // of a changed variable among the members, else -1
  std::vector<int32_t> part_;  // by member
  std::vector<Part> parts_;
  std::vector<double> now_; // memory with what is taken
  std::vector<std::pair<int32_t, double>> events_;
  std::vector<double> rateSums_, guideSums_;
  double work_ = 0;
};

} // namespace tessera::strategies

#endif
