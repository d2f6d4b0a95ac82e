//===- SearchWide.h - a search over every option -------------------------------------------------===//
//
// Options of a node run into thousands on meshes of three axes, and the searchers of Search.h work on matrices over
// pairs of options. Here their problem is made small without forgetting anything:
//
//   1. Options that others are never worse than go (Undominated.h).
//   2. A dual bound over all that are left gives each option a reduced cost: a bound on what a choice with it costs
//      beyond that (WideDual.h).
//   3. The options of least reduced cost, and the seeds, are searched: an answer. Where memory is priced, the bound is
//      raised once more from the prices that this search ended with.
//   4. An option whose reduced cost reaches the distance from bound to answer is in no better answer. All others are
//      searched, from that answer on. Where they are too many, the least are, and the bound says so: it is that of the
//      ones left out.
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
  Kept kept;                             // what the last search saw
  Solution solution;                     // choice: positions in `kept`; the bound is over every option
  int64_t undominated = 0, searched = 0; // numbers of options
};

/// Entries of matrices are pairs of options, over all edges.
struct WideLimits {
  double atOnce = 2e6;  // a problem of so many entries is searched as it is
  double entries = 6e6; // that a search gets at most
  size_t perNode = 12;  // options in a first search
};

/// The options of plain data parallelism, where the graph names them, are never left out.
WideSolution searchWide(const WideGraph &wide, const SearchOptions &options, const WideLimits &limits = {});

} // namespace tessera::strategies

#endif
