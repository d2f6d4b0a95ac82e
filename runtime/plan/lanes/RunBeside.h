//===- RunBeside.h - which collectives of a plan run beside kernels -----------------------------===//
//
//   runBeside(plan, [](const plan::Program &program, int step) { return true; });      // all of them
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_PLAN_LANES_RUNBESIDE_H
#define TESSERA_RUNTIME_PLAN_LANES_RUNBESIDE_H

#include "runtime/plan/plan.pb.h"

#include <functional>

namespace tessera::rt {

/// Gives the collectives that `beside` chooses to the communication resource, and every step the waits that it needs.
/// What is sent as one message goes with its first step. The order of steps and their memory stay as they are, so ranks
/// of a stage must be asked alike. Of a plan that passed the checker, which then passes it again.
void runBeside(plan::Plan &plan, const std::function<bool(const plan::Program &program, int step)> &beside);

} // namespace tessera::rt

#endif
