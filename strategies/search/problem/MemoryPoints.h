//===- MemoryPoints.h - memory points that cannot decide ------------------------------------------===//
//
// Memory is checked at points in time; most of them can be left out without changing which choices fit.
//
// Example: at point 4 the same variables are live as at point 5, except for one of 0 to 8 bytes more at 5, and
// both have the same room: whatever fits at 5 fits at 4, so 4 is dropped.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SEARCH_PROBLEM_MEMORYPOINTS_H
#define TESSERA_STRATEGIES_SEARCH_PROBLEM_MEMORYPOINTS_H

#include "strategies/search/problem/Problem.h"

#include <functional>

namespace tessera::strategies {

/// Drops the points at which no choice can exceed the room, and the pieces that touch only such points. Sets
/// problem.infeasible if a point has negative room.
void dropIdleMemoryPoints(Problem &problem);

/// Drops points that fit whenever some other, nearby point fits.
void dropDominatedMemoryPoints(Problem &problem, const std::function<bool()> &stop);

/// Prices of memory by point in time, where only `points` are left, ascending. Points are dropped since nearby ones
/// need no less, so prices go to the nearest that is left, of two the later one. With no point left they stay.
std::vector<double> gatherPrices(const std::vector<double> &prices, const std::vector<int32_t> &points);

} // namespace tessera::strategies

#endif
