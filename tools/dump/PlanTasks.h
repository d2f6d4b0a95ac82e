//===- PlanTasks.h - a plan's schedule as a task graph ----------------------------------------------===//
//
// What tessera-solve --schedule reads. Tasks stand in the order in which the plan runs them. In the file's order they
// end when the plan is predicted to:
//
//   TaskGraph graph = planTasks(plan, findProgram(plan, "train"), predicted);
//   toJson(graph)
//
// A task needs what makes its inputs, and what still uses the memory that it writes to. In any other order that keeps
// these, the plan computes the same in the same places.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TOOLS_DUMP_PLANTASKS_H
#define TESSERA_TOOLS_DUMP_PLANTASKS_H

#include "runtime/telemetry/Prediction.h"
#include "strategies/time/TaskGraph.h"
#include "tools/dump/ScheduleText.h"

namespace tessera {

/// The steps of a program of one rank, in ns: a task for each run of a step, on its resource, and one without duration
/// behind each call of a section. The plan passed the checker.
strategies::TaskGraph planTasks(const plan::Plan &plan, int program, const rt::Prediction &predicted);

/// The actions of a pipeline on its devices, in ns, then what each device does once.
strategies::TaskGraph stageTasks(const PlannedSchedule &planned);

} // namespace tessera

#endif
