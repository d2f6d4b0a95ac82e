//===- ReportFile.h - the compiler's report, read and shown --------------------------------------===//
//
// report.json may be damaged. Every field is read with a default, so that a damaged report gives odd output but no
// crash. Only a file that is no report at all is an error.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TOOLS_DUMP_REPORTFILE_H
#define TESSERA_TOOLS_DUMP_REPORTFILE_H

#include "runtime/support/Status.h"
#include "tools/dump/PlanFacts.h"

#include <nlohmann/json.hpp>

namespace tessera {

struct Report {
  nlohmann::ordered_json json; // an object with a list "functions"
};

rt::Result<Report> readReport(const std::string &path);

/// Mesh, mode, predicted times, and one line per operator: all operators with `all`, else the model's own.
std::string toText(const Report &report, bool all);
/// Describes the operator of that name, and those whose names continue it with "." or "/".
rt::Result<std::string> explainOperator(const Report &report, const std::string &name);
/// The table of the model's tensors, and the compiler's warnings.
std::string parameterText(const Report &report);
/// Report, facts and what the page shows, in one object.
std::string toJson(const PlanFacts &facts, const Report &report, nlohmann::ordered_json page);

} // namespace tessera

#endif
