//===- Units.h - nodes that share a stage, from the last to the first -----------------------------===//
//
// A graph is cut from its end, since what a stage holds depends on the stages behind it. Units are the nodes that wait
// for one another; they are numbered so that a unit comes after everything that reads it.
//
// Nodes that take no time can be pulled to others. A constant is best in the stage of its first reader: its own stage
// no longer sends it, and the reader's stage sends what it received before. So is a node in that of its only neighbour.
// Nothing is lost unless memory is short: `pulled` tells, and a search without their memory gives a bound even then.
// Nodes are not pulled if a number of stages is asked for, since they could be one.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_PIPELINE_STAGES_UNITS_H
#define TESSERA_STRATEGIES_PIPELINE_STAGES_UNITS_H

#include "strategies/pipeline/stages/StageProblem.h"

#include <limits>

namespace tessera::strategies {

/// Sums over the nodes of a unit in one way.
struct UnitWay {
  bool possible = true;
  bool varies = false;                               // a node has several variants
  int64_t time = 0, fixed = 0, held = 0, synced = 0; // of the fastest variants
  int64_t least = 0;                                 // bytes of the smallest variants, with one micro-batch in flight
};

/// The stages in which a unit may be: those to which its nodes are bound, and none before or behind what it waits for.
struct UnitPlaces {
  int first = 0, last = std::numeric_limits<int>::max();
};

struct UnitValue {
  int from = 0;
  std::vector<int> to; // other units, each once
  int64_t bytes = 0;
  const StageValue *source = nullptr; // for bytes that depend on the way
};

struct Units {
  std::vector<std::vector<int>> nodes;    // by unit
  std::vector<std::vector<UnitWay>> ways; // by unit and way
  std::vector<UnitPlaces> places;         // by unit
  std::vector<UnitValue> values;
  std::vector<std::vector<int>> valuesOf;   // by unit: places in `values`
  std::vector<std::vector<int>> after;      // by unit: those that can only be taken once it is
  std::vector<std::vector<uint64_t>> reach; // by unit, a bit for each unit that comes after it by any way
  std::vector<bool> pulled;                 // by node: its unit was pulled to another
  bool anyPulled = false;                   // a node with memory was

  int count() const { return int(nodes.size()); }
  bool reaches(int from, int to) const { return reach[size_t(from)][size_t(to) >> 6] >> (to & 63) & 1; }
};

/// Requires a problem that passes checkStageProblem and outlives the units. Nodes are only pulled if `pull` says so.
Units makeUnits(const StageProblem &problem, bool pull = true);

/// The same with unit order[i] as unit i. Requires an order in which a unit comes after everything that reads it.
Units reorderUnits(const StageProblem &problem, const Units &units, const std::vector<int> &order);

/// The sums again; without the memory of the nodes that were pulled, if `freePulled`.
void sumUnits(const StageProblem &problem, Units &units, bool freePulled);

} // namespace tessera::strategies

#endif
