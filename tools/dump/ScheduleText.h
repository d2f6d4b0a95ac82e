//===- ScheduleText.h - what the stages of a plan do when -----------------------------------------===//
//
// The order is that of the plans' calls, which are what runs. Times are those that the compiler left in report.json
// ("pipeline"), and a run of the order with them (strategies/pipeline) says when each action begins.
//
//   PlannedSchedule planned;
//   visitPlanDirectory("plan", [&](const plan::Plan &plan) { planned.add(plan); });
//   if (rt::Status status = planned.read(report); !status) ...
//   scheduleText(planned), toCsv(planned.order)
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TOOLS_DUMP_SCHEDULETEXT_H
#define TESSERA_TOOLS_DUMP_SCHEDULETEXT_H

#include "runtime/plan/TimeOrder.h"
#include "runtime/plan/stages/Stages.h"
#include "runtime/support/Status.h"
#include "strategies/pipeline/Pipeline.h"
#include "tools/dump/ReportFields.h"

namespace tessera {

struct PlannedSchedule {
  /// Takes the next rank's plan. Each passed the checker.
  void add(const plan::Plan &plan);
  /// Reads the report. An error if the plan is no pipeline with micro-batches, or if the report does not fit to it.
  rt::Status read(const Json &report);

  std::string name; // of the schedule: "1f1b"
  strategies::Pipeline pipeline;
  strategies::PipelineOrder order; // by device: place on the axis of the stages
  strategies::PipelineRun run;
  strategies::PipelineStep step;

  /// Of the first rank of a device.
  struct Device {
    std::vector<rt::SectionCall> calls; // of the first program with sections
    std::string program;
    size_t sections = 0; // of the program
    uint64_t frameBytes = 0, arenaBytes = 0;
    int64_t once = 0; // what it does before and behind all micro-batches, ns
  };
  std::vector<Device> devices;
  rt::Stages stages;
};

/// A table of the stages, a time line, and the order of each device.
std::string scheduleText(const PlannedSchedule &planned);

} // namespace tessera

#endif
