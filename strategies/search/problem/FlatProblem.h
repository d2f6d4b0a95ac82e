//===- FlatProblem.h - a reduced problem in the layout that iterated algorithms need ----------===//
//
// The live part of a Problem, renumbered and flat, in doubles (costs below 2^53 are exact): what
// message passing, elimination and local search walk over thousands of times. Matrices are kept in
// both orientations. Forbidden entries are large but finite, so that sums and differences of them
// stay numbers. An answer is a list of option positions per variable of the flat problem.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SEARCH_PROBLEM_FLATPROBLEM_H
#define TESSERA_STRATEGIES_SEARCH_PROBLEM_FLATPROBLEM_H

#include "strategies/search/problem/Problem.h"

#include <cstddef>

namespace tessera::strategies {

/// Costs at and above this are cut to it, which keeps every bound valid.
inline constexpr double kFlatForbidden = 1e18;
/// The most by which rounding may change a sum of costs in doubles: relative, and in units of cost.
inline constexpr double kRelativeRounding = 1e-9, kRoundingUnits = 1e-3;

using Answer = std::vector<int32_t>;

struct FlatLink {
  int32_t edge, other;
  size_t from;         // matrix with the other end's option as row, this end's as column
  size_t to;           // matrix with this end's option as row
  size_t mine, theirs; // places of the two ends in arrays with one entry per (edge, end, option)
};

struct FlatPiece {
  int32_t from, to;
  size_t extra; // place of option 0 in `extras`
};

struct FlatEdge {
  int32_t a, b;
  size_t to; // row-major |a| x |b|
};

struct FlatProblem {
  explicit FlatProblem(const Problem &problem);

  int32_t count() const { return int32_t(variables.size()); }
  int32_t size(int32_t v) const { return int32_t(first[v + 1] - first[v]); }
  bool hasMemory() const { return !pieces.empty(); }

  /// Cost with the problem's constant; at least kFlatForbidden if something forbidden is chosen.
  double price(const Answer &answer) const;
  /// Extra memory at every memory point.
  std::vector<double> load(const Answer &answer) const;
  /// Largest amount by which `load` exceeds the room; at most 0 if it fits.
  double excess(const std::vector<double> &load) const;
  /// Adds sign * (the extra memory of option s of v) to load.
  void addLoad(std::vector<double> &load, int32_t v, int32_t s, double sign) const {
    for (size_t k = firstPiece[v]; k < firstPiece[v + 1]; ++k) {
      double x = sign * extras[pieces[k].extra + size_t(s)];
      if (x != 0)
        for (int32_t p = pieces[k].from; p < pieces[k].to; ++p)
          load[p] += x;
    }
  }
  /// The graph's option numbers per problem variable, for Problem::expand.
  std::vector<int32_t> ids(const Problem &problem, const Answer &answer) const;

  std::vector<int32_t> variables; // in the problem
  std::vector<size_t> first;      // place of option 0 in flat arrays; one more entry at the end
  std::vector<double> costs;
  std::vector<FlatEdge> edges;
  std::vector<std::vector<FlatLink>> links; // by variable
  std::vector<double> matrices;
  size_t places = 0; // entries of an array per (edge, end, option)
  std::vector<size_t> firstPiece;
  std::vector<FlatPiece> pieces;
  std::vector<double> extras;
  std::vector<double> room;
  double constant = 0;
};

} // namespace tessera::strategies

#endif
