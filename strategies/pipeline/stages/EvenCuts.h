//===- EvenCuts.h - a good plan along one order, at once --------------------------------------------===//
//
// All stages in one way, cut along the order of the units. For a given interval, a dynamic program over the places of
// the order finds the cuts of which none is longer and that move least; it looks only at places that leave enough
// work before them and behind. The interval is halved until there is no such cut. Where layers are equal this is
// nearly the best plan there is, and a search that begins with it looks only at what could be better.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_PIPELINE_STAGES_EVENCUTS_H
#define TESSERA_STRATEGIES_PIPELINE_STAGES_EVENCUTS_H

#include "strategies/pipeline/stages/Units.h"

namespace tessera::strategies {

struct EvenlyCut {
  StagePlan plan;    // empty: no cut was found that fits and is below the value
  int64_t value = 0; // of the plan, by the judge
  int64_t steps = 0; // elementary ones
};

/// A plan below `value`. As many stages as the problem asks for, else as many as the devices allow. One replica of
/// each.
EvenlyCut cutEvenly(const StageProblem &problem, const Units &units, int64_t value);

} // namespace tessera::strategies

#endif
