//===- TimeLine.h - when a plan without stages does what --------------------------------------------===//
//
// A row for the rank's kernels, one for each group that collectives go over, and one for the communication that no
// kernel hides. All ranks run the same steps, so rank 0 stands for all of them.
//
//   timeLineText(plan, number, predicted, report)
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TOOLS_DUMP_TIMELINE_H
#define TESSERA_TOOLS_DUMP_TIMELINE_H

#include "runtime/telemetry/Prediction.h"
#include "tools/dump/ReportFields.h"

namespace tessera {

/// `predicted` is of the program, and `report` is the plan's report.json.
std::string timeLineText(const plan::Plan &plan, int program, const rt::Prediction &predicted, const Json &report);

} // namespace tessera

#endif
