//===- ReportFile.h - the compiler's report, read and shown --------------------------------------===//
//
// report.json is a file like any other and may be damaged: every field is fetched with a default, so that a
// strange report prints strangely but safely; only what is no report at all is an error.
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

/// Mesh, mode, predicted times, and one line per operator; without `all`, only the model's own.
std::string toText(const Report &report, bool all);
/// The operator of that name and those whose names begin with it and "." or "/".
rt::Result<std::string> explainOperator(const Report &report, const std::string &name);
/// What the model's tensors are, as a table, and the compiler's warnings.
std::string parameterText(const Report &report);
/// Report and facts in one object.
std::string toJson(const PlanFacts &facts, const Report &report);

} // namespace tessera

#endif
