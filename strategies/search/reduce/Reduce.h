//===- Reduce.h - exact reductions of a search problem ----------------------------------------===//
//
// reduce() makes a Problem smaller without losing its best answer. Whatever is taken out leaves a Record, so that an
// answer of the rest expands to an answer of the whole. These rules are applied until none changes anything:
//
//   options     An option is dropped that is forbidden everywhere, has no partner on some edge, or exceeds the room.
//   dominated   An option is dropped if another one is never worse, whatever the neighbours choose, and uses no more
//               memory at any time (Goldstein's dead-end elimination, Biophys. J. 1994).
//   constant    A variable with one option left moves its costs to its neighbours.
//   separable   An edge that is a sum of a row part and a column part moves into the costs of its ends.
//   function    If every option of one end of an edge has one allowed partner, the other end follows.
//   leaf        A variable with one neighbour is taken out if, for each option of the neighbour, one choice is best in
//               cost and memory.
//   chain       A variable with two neighbours and no memory becomes one edge between them.
//
// Example: a - b - c, where b takes no memory, becomes a - c. The Record of b tells which option of b is best for each
// pair of options of a and c.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SEARCH_REDUCE_REDUCE_H
#define TESSERA_STRATEGIES_SEARCH_REDUCE_REDUCE_H

#include "strategies/search/problem/Problem.h"

#include <functional>

namespace tessera::strategies {

/// Calls `stop` now and then; it is correct to reduce less. Sets problem.infeasible if nothing can fit.
void reduce(
    Problem &problem, const std::function<bool()> &stop = [] { return false; });

} // namespace tessera::strategies

#endif
