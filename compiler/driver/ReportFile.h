//===- ReportFile.h - report.json ----------------------------------------------------------------===//
//
// What tessera-dump reads of a plan's folder besides the plan: strategies and their costs, the meshes that were
// compared, memory, and what the model's tensors are ("parameters", with the importer's "warnings"). Private to the
// driver.
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
