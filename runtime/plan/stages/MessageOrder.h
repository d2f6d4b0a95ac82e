//===- MessageOrder.h - when messages between stages leave their senders ------------------------===//
//
// A Send of a plan does not wait for its receiver (plan.proto). On devices it does: both ends of a message take part in
// it, one operation behind the other. In the order of the plans, ranks could wait for each other for ever:
//
//   rank 0:  send a0 · send a1 · receive g0          rank 1:  receive a0 · send g0 · receive a1
//
// So ranks agree on one order of everything that they do with each other. Each step stays where it is, and a message
// leaves when its receiver takes it, or later than its Send:
//
//   rank 0:  send a0 · (a1 is kept) · receive g0 · a1 leaves
//
// The order is that of a run in which sends wait for nobody, and everything takes equally long. In it whatever a rank
// waits for comes before what waits for it. So it ends on devices, too.
//
//   const std::vector<int64_t> mine = meetingsOf(plan, program);      // as numbers, for all ranks
//   Result<std::vector<Departure>> leaving = departures(meetingsOfAllRanks, me);
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_PLAN_STAGES_MESSAGEORDER_H
#define TESSERA_RUNTIME_PLAN_STAGES_MESSAGEORDER_H

#include "runtime/plan/TimeOrder.h"
#include "runtime/support/Status.h"

#include <cstdint>
#include <vector>

namespace tessera::rt {

/// A message of a Send that leaves behind a step: the Send itself, or a later one that other ranks have a part in.
struct Departure {
  StepInTime after, send;
  uint32_t message = 0; // of the Send: which of its messages (peerMessages)
  bool operator==(const Departure &) const = default;
};

/// What a program does with other ranks, and how many kernels it runs in between.
std::vector<int64_t> meetingsOf(const plan::Plan &plan, const plan::Program &program);

/// The messages of rank `me` in the order in which they leave. `meetings`: of every rank, of equal programs. An error
/// if ranks would wait for each other for ever whatever the order.
Result<std::vector<Departure>> departures(const std::vector<std::vector<int64_t>> &meetings, int me);

} // namespace tessera::rt

#endif
