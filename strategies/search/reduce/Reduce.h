//===- Reduce.h - exact reductions of a search problem ----------------------------------------===//
//
// Makes a Problem smaller without losing its best answer; what is taken out leaves a Record, so the
// answer of the rest expands to an answer of the whole. The rules, to a fixed point:
//
//   options    forbidden everywhere, without a partner on some edge, or larger than the room:
//   dropped dominated  another option is never worse, whatever the neighbours choose (Goldstein's
//   dead-end
//              elimination, Biophys. J. 1994), and uses no more memory at any time: dropped
//   constant   one option left: its costs move to the neighbours
//   separable  an edge that is a sum of a row part and a column part moves into the node costs
//   function   an edge on which every option of one end has one allowed partner: the other end
//   follows leaf       one neighbour, and for each of its options one choice that is best in cost
//   and in memory chain      two neighbours and no memory: replaced by one edge between them
//
// Example: a - b - c with b free of memory becomes a - c, and the Record of b tells which option of
// b is best for each pair of options of a and c.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SEARCH_REDUCE_REDUCE_H
#define TESSERA_STRATEGIES_SEARCH_REDUCE_REDUCE_H

#include "strategies/search/problem/Problem.h"

#include <functional>

namespace tessera::strategies {

/// `stop` is asked now and then; reducing less is correct too. Sets problem.infeasible if nothing can
/// fit.
void reduce(
    Problem &problem, const std::function<bool()> &stop = [] { return false; });

} // namespace tessera::strategies

#endif
