//===- ReportFile.h - the compiler's report as text and JSON ---------------------------------------===//
//
// The report may be damaged: see tools/page/ReadPage.h.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TOOLS_DUMP_REPORTFILE_H
#define TESSERA_TOOLS_DUMP_REPORTFILE_H

#include "tools/dump/PlanFacts.h"
#include "tools/page/ReadPage.h"

namespace tessera {

/// Mesh, mode, predicted times, and one line per operator: all operators with `all`, else the model's own.
std::string toText(const Report &report, bool all);
/// Describes the operator of that name, and those whose names continue it with "." or "/".
rt::Result<std::string> explainOperator(const Report &report, const std::string &name);
/// The same operators as a JSON list: what the report says of each, and its "function".
rt::Result<std::string> explainAsJson(const Report &report, const std::string &name);
/// The model's tensors as a JSON list.
std::string parametersAsJson(const Report &report);
/// The table of the model's tensors, and the compiler's warnings.
std::string parameterText(const Report &report);
/// Report, facts and what the page shows, in one object.
std::string toJson(const PlanFacts &facts, const Report &report, Json page);

} // namespace tessera

#endif
