//===- Driver.h - from a model file to a plan directory ------------------------------------------===//
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
// In mode hybrid the file's program is local from the start: after phase 2 comes 5.
//
//   CompileOptions options; options.model = "resnet18.onnx"; options.output = "plan"; ...
//   Expected<CompileResult> result = compile(options, [](const std::string &line) { puts(line.c_str()); });
//
// Nothing appears under the output's name before all of it is written.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_DRIVER_DRIVER_H
#define TESSERA_COMPILER_DRIVER_DRIVER_H

#include "compiler/emit/Emit.h"
#include "compiler/hybrid/HybridOptions.h"
#include "compiler/import/OnnxImport.h"
#include "compiler/training/Training.h"
#include "strategies/modes/MeshChoice.h"

#include <functional>
#include <optional>
#include <vector>

namespace tessera {

struct CompileOptions {
  std::string model, output;
  compiler::ImportOptions import;
  std::optional<compiler::TrainingOptions> training;
  strategies::AssignOptions assign;
  std::string saveStrategies, dumpPhases;
  std::string precision = "f32"; // or bf16, f16: what products compute with
  /// Or cheap, full, full:0,2, or auto: what fits and is predicted to take least.
  std::string recompute = "none";
  bool fuse = true;          // elementwise operators
  bool fuseAttention = true; // products with a softmax between
  /// The model file is one rank's program (mode hybrid): nothing is chosen, assign only names the mode.
  std::optional<compiler::HybridOptions> hybrid;
  /// Values by rule are not stored with the plan: every rank makes what it holds.
  bool initAtStart = false;
  /// What several ranks hold is sent by the first of them at the start.
  bool broadcastParameters = false;
  bool sumGradients = false; // over the slices of the batch, instead of their mean
  /// The mesh is a number of ranks: the search chooses how they are arranged.
  bool chooseMesh = false;
  /// What compile.json says (runtime/plan/Recipe.h), asked for last; empty: there is none.
  std::function<std::string()> recipe;
};

struct CompileResult {
  dist::Mesh mesh;
  std::vector<strategies::MeshCandidate> meshes; // the cheapest first; empty: none were compared
  strategies::AssignReport report;
  compiler::MemoryReport memory;
  std::string recompute = "none"; // or cheap, full
  size_t numOperators = 0;        // of the first function
};

llvm::Expected<CompileResult> compile(const CompileOptions &options,
                                      const std::function<void(const std::string &)> &progress);

/// Phases 1 to 3 alone: nothing is written, and the result knows no memory but the search's estimate.
llvm::Expected<CompileResult> searchOnly(const CompileOptions &options,
                                         const std::function<void(const std::string &)> &progress);

/// A cluster of so many machines of the topology's kind, under the same mesh with one axis "node" outside.
struct ClusterPrediction {
  int64_t nodes = 1;
  std::string mesh, error; // error: nothing was found, for this reason
  strategies::Cost predicted = 0, communication = 0;
  int64_t memory = 0; // bytes of one rank's arena
  std::string recompute = "none";
  bool fits = false;
};

/// What the training step (or inference) would take on each; nothing is written.
llvm::Expected<std::vector<ClusterPrediction>>
predictClusters(const CompileOptions &options, llvm::ArrayRef<int64_t> nodes,
                const std::function<void(const std::string &)> &progress);

/// A table of them. Efficiency: how much of the first line's speed per rank is left.
std::string table(llvm::ArrayRef<ClusterPrediction> clusters, int64_t ranksPerNode);

/// The lines that tessera-compile prints at the end; of a search alone those about it.
std::string summary(const CompileOptions &options, const CompileResult &result);

} // namespace tessera

#endif
