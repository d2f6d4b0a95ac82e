//===- Overlap.h - which collectives run beside kernels, and when ---------------------------------===//
//
// A rank's program becomes a TaskGraph: kernels hold the rank's processor, and collectives hold a link and the thread
// that communicates beside kernels. From the start times of its tasks follows the order of execution: a collective
// stands where it starts, and what reads it as late as that pays.
//
//   OverlapRule rule;
//   rule.times = {{1000}, {5000, /*link=*/0}, {1000}};       // by step of the flow: a kernel, a collective, a kernel
//   if (std::optional<Overlap> found = overlap(flow, rule))
//     found->order, found->predicted                         // the steps, and what they take
//
// Sections come one after the other, and a collective ends in the section in which it begins. Sends and receives
// between stages are steps that take no time.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_OVERLAP_OVERLAP_H
#define TESSERA_STRATEGIES_OVERLAP_OVERLAP_H

#include "dialects/graph/flow/DataFlow.h"
#include "strategies/time/TaskGraph.h"

#include <limits>
#include <optional>

namespace tessera::strategies {

/// A step on the time line.
struct StepTime {
  int64_t ns = 0;  // of one run
  int link = -1;   // of a collective: the kind of link that it loads; -1: a kernel
  double work = 0; // of a collective beside kernels: the part of its time by which it delays them, from 0 to 1
};

struct OverlapRule {
  std::vector<StepTime> times; // by step
  int64_t runs = 1;            // of each section of the body
  int64_t room = -1;           // bytes that may live at once, without values that are kept; negative: any number
};

/// A section of a program that runs beside its collectives.
struct SectionTime {
  graph::Section section;
  int64_t ns = 0; // of one run
};

struct Overlap {
  std::vector<int> order;            // of execution
  std::vector<bool> beside;          // by step: a collective that runs beside kernels
  int64_t predicted = 0;             // ns of the whole program
  int64_t exposed = 0;               // of it: what no kernel hides
  int64_t peakBytes = 0;             // the most that lives at once, without values that are kept
  std::vector<SectionTime> sections; // in order; all their runs take `predicted`, to the rounding
};

/// What takes the least time of a few schedules, with some collectives beside kernels: all of them, or all but those of
/// some links where the program is faster so. Nothing if there are no collectives, or if no schedule fits `room` and
/// takes less than `than`. The steps of the flow are in dependence order. A rank of a pipeline has several sections in
/// its body, whose calls take turns; as in graph::lifetimes, what one leaves for another counts as if they ran one
/// after the other.
std::optional<Overlap> overlap(const graph::DataFlow &flow, const OverlapRule &rule,
                               int64_t than = std::numeric_limits<int64_t>::max());

/// The time of the program if no collective runs beside kernels, in ns.
int64_t inLine(const graph::DataFlow &flow, const OverlapRule &rule);

} // namespace tessera::strategies

#endif
