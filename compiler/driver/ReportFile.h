//===- ReportFile.h - report.json ----------------------------------------------------------------===//
//
// tessera-dump reads this file of a plan's folder besides the plan. It has the strategies and their costs, the meshes
// that were compared, the memory, the roles of the model's tensors ("parameters") and the importer's "warnings". This
// header is private to the driver.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_DRIVER_REPORTFILE_H
#define TESSERA_COMPILER_DRIVER_REPORTFILE_H

#include "compiler/driver/Driver.h"

namespace tessera {

/// The file's text.
std::string reportText(const CompileOptions &options, const CompileResult &result, const compiler::EmitOptions &emit);

} // namespace tessera

#endif
