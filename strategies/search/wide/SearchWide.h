//===- SearchWide.h - a search over every option -------------------------------------------------===//
//
// On meshes of three axes a node has thousands of options, and the searchers of Search.h work on matrices over pairs
// of options. searchWide makes their problem small and leaves out nothing that could be better:
//
//   1. An option goes if another one is never worse (Undominated.h).
//   2. A dual bound over all options that are left gives each of them a reduced cost. A choice with the option costs
//      at least so much more than the bound (WideDual.h).
//   3. A search among the options of least reduced cost, and those of data parallelism, gives an answer. Where memory
//      is priced, it begins with the bound's prices, and the bound is raised once more, from the prices with which the
//      search ended.
//   4. An option whose reduced cost reaches the distance from bound to answer is in no better answer. All others are
//      searched, beginning at the answer. If they are too many, those of least reduced cost are searched. The bound
//      is then that of the options which are left out.
//
// Where an answer is known at the start (SearchOptions::start), a few passes of the bound over all options come before
// 1: most of them are in no better answer, and what is dominated among the others is found in less time. Where they
// prove that the answer is within the gap, the search ends.
//
// Each bound begins at the messages of the one before, and so does a search (Reparametrized.h).
//
// The same goes for copies that several readers of a value may share: those are offered that an answer can have that is
// better (WideDual::offers).
//
// So `lowerBound` holds over every option of the wide graph.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SEARCH_WIDE_SEARCHWIDE_H
#define TESSERA_STRATEGIES_SEARCH_WIDE_SEARCHWIDE_H

#include "strategies/search/Search.h"
#include "strategies/space/WideGraph.h"

namespace tessera::strategies {

struct WideSolution {
  DenseGraph dense;                      // of the search that found the answer; without one, of the last search
  Solution solution;                     // choice: of `dense`; the bound is over every option
  int64_t memoryPeak = 0;                // of the answer
  int64_t undominated = 0, searched = 0; // numbers of options
};

/// Limits of a search's size, set by hand. Entries are those of the matrices of all edges: pairs of options.
struct WideLimits {
  double atOnce = 2e6;  // entries of a problem that is searched as it is
  double entries = 6e6; // entries of a problem that is searched at all
  size_t perNode = 12;  // options of a node in the first search
};

/// The options of plain data parallelism, where the graph names them, are never left out.
WideSolution searchWide(const WideGraph &wide, const SearchOptions &options, const WideLimits &limits = {});

/// What these options cost, by node, with the best of what they may offer. Memory does not count.
Cost summedCost(const WideGraph &wide, const std::vector<int32_t> &options);

} // namespace tessera::strategies

#endif
