//===- Pipeline.h - from a model file to a plan directory ----------------------------------------===//
//
// The phases of the compiler in order, each with its name, its time and, if asked for, its dump:
//
//   1 imported     1-imported.mlir     importOnnx
//   2 training     2-training.mlir     gradients and update (with --train), norms decomposed
//   3 annotated    3-annotated.mlir    a strategy on every operator
//   4 resharded    4-resharded.mlir    explicit reshards
//   5 local        5-local.mlir        one rank's types, collectives
//   6 plan         the output directory
//
//   CompileOptions options; options.model = "resnet18.onnx"; options.output = "plan"; ...
//   Expected<CompileResult> result = compile(options, [](const std::string &line) { puts(line.c_str()); });
//
// Nothing appears under the output's name before all of it is written.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TOOLS_COMPILE_PIPELINE_H
#define TESSERA_TOOLS_COMPILE_PIPELINE_H

#include "compiler/autodiff/Training.h"
#include "compiler/emit/Emit.h"
#include "compiler/import/OnnxImport.h"
#include "strategies/assign/Assign.h"

#include <optional>

namespace tessera {

struct CompileOptions {
  std::string model, output;
  compiler::ImportOptions import;
  std::optional<compiler::TrainingOptions> training;
  strategies::AssignOptions assign;
  std::string saveStrategies, dumpPhases;
  bool fuse = true;
};

struct CompileResult {
  strategies::AssignReport report;
  compiler::MemoryReport memory;
  size_t numOperators = 0; // of the first function
};

llvm::Expected<CompileResult> compile(const CompileOptions &options,
                                      const std::function<void(const std::string &)> &progress);

/// The lines that tessera-compile prints at the end.
std::string summary(const CompileOptions &options, const CompileResult &result);

} // namespace tessera

#endif
