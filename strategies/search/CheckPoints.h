//===- CheckPoints.h - check points that cannot decide -------------------------------------------===//
//
// Memory is checked at points in time; most of them can be left out without changing which choices fit.
//
// Example: at point 4 the same variables are live as at point 5, except for one of 0 to 8 bytes more at 5, and
// both have the same room: whatever fits at 5 fits at 4, so 4 is dropped.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SEARCH_CHECKPOINTS_H
#define TESSERA_STRATEGIES_SEARCH_CHECKPOINTS_H

#include "strategies/search/Model.h"

#include <functional>

namespace tessera::strategies {

/// Drops the points at which no choice can exceed the room, and the pieces that touch none other. Sets
/// model.infeasible if a point has negative room.
void dropIdleCheckPoints(Model &model);

/// Drops points that fit whenever some other, nearby point fits.
void dropDominatedCheckPoints(Model &model, const std::function<bool()> &stop);

} // namespace tessera::strategies

#endif
