//===- PlanChecker.h - what must hold before the first step -----------------------------------===//
//
// A plan comes from a file and is not trusted. After checkPlan (one rank) and checkPlans (all of
// them) the executor may index, copy and communicate without further checks:
//
//   - every buffer lies inside the arena, aligned, of a size that does not overflow; aliases are
//     views
//   - every read was written: programs are simulated, call by call, on intervals of the arena, where a
//     write makes every overlapping buffer undefined, its own aliases excepted
//   - sections are parts of the steps in order, and calls name them, with indices that every kernel in
//     them has rows for
//   - steps that run beside each other on a rank's resources touch nothing that they would have to take turns with
//   - constants and persistent buffers are never overwritten by something else
//   - an output shares memory with an input only where the kernel is elementwise at that operand
//   - shapes of collectives follow from their kind; boxes of bindings lie inside the global tensors
//   - all ranks call the same sections in the same order, and members of a group meet in the same order
//     with the same kind, shape, type and reduction, so that no rank waits for ever
//   - the boxes of a binding tile the global tensor, and each has one primary holder
//
// What a kernel's operands must be is the backend's to check, when it binds the kernel.
//
//   rank 1: step 7 '/fc1/MatMul' of program 'train' reads buffer 3 'x', which buffer 9 'h' overwrote
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_PLAN_PLANCHECKER_H
#define TESSERA_RUNTIME_PLAN_PLANCHECKER_H

#include "runtime/plan/plan.pb.h"
#include "runtime/support/Status.h"

#include <memory>
#include <string_view>
#include <vector>

namespace tessera::rt {

/// Checks one rank's plan by itself.
Status checkPlan(const plan::Plan &plan);

/// Checks that the plans of all ranks, each of which passed checkPlan, fit together.
Status checkPlans(const std::vector<plan::Plan> &plans);

/// checkPlan and checkPlans, fed with one plan after the other in order of ranks. Parts that are byte for byte those of
/// rank 0's plan are checked once. The caller need not keep any plan.
///
///   PlansChecker checker;
///   for (...) TESSERA_RETURN_IF_ERROR(checker.add(plan, bytes));
///   TESSERA_RETURN_IF_ERROR(checker.finish());
class PlansChecker {
public:
  PlansChecker();
  ~PlansChecker();
  /// `bytes` is what the plan was parsed from, or its serialised form.
  Status add(const plan::Plan &plan, std::string_view bytes);
  /// Called after the last plan: checks that all ranks are there and that their collectives meet.
  Status finish() const;

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace tessera::rt

#endif
