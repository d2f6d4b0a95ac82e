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
//   CompileOptions options;
//   options.model = "resnet18.onnx";
//   options.output = "plan";
//   options.assign.mesh = "data=2,model=2";
//   options.train = true;
//   options.training.optimizer = "sgd:lr=0.1,momentum=0.9";
//   Expected<CompileResult> result = compile(options, [](const std::string &line) { puts(line.c_str()); });
//
// Nothing appears under the output's name before all of it is written.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_DRIVER_DRIVER_H
#define TESSERA_COMPILER_DRIVER_DRIVER_H

#include "compiler/emit/Emit.h"
#include "compiler/import/OnnxImport.h"
#include "compiler/training/Passes.h"
#include "strategies/modes/MeshChoice.h"
#include "strategies/modes/Passes.h"

#include <functional>
#include <string>
#include <vector>

namespace tessera {

/// The options of tessera-compile, as text where a user writes text. Passes.td of strategies/modes and
/// compiler/training describes those of their passes.
struct CompileOptions {
  std::string model, output;
  /// `training`, `microBatches` and `perRank` are set by the driver.
  compiler::ImportOptions import;
  /// The mode may also be "hybrid": the model file is one rank's program, and nothing is chosen.
  strategies::AssignStrategiesPassOptions assign;
  std::string hybridOptions; // of mode hybrid: a file (compiler/hybrid/HybridOptions.h)
  bool train = false;        // a training step, else inference
  /// An empty loss scale is "dynamic" with precision f16. `gradientScale` and `perRank` are set by the driver.
  compiler::BuildTrainingPassOptions training;
  std::string gradientReduction = "mean"; // of those of the batch's slices; or sum
  std::string precision = "f32";          // or bf16, f16: what products compute with
  /// Or cheap, full, full:0,2, or auto: what fits and is predicted to take least.
  std::string recompute = "none";
  bool fuse = true;          // elementwise operators
  bool fuseAttention = true; // products with a softmax between
  /// Values by rule are not stored with the plan: every rank makes what it holds.
  bool initAtStart = false;
  /// What several ranks hold is sent by the first of them at the start.
  bool broadcastParameters = false;
  std::string saveStrategies, dumpPhases; // a file, a directory
  /// What compile.json says (runtime/plan/Recipe.h), asked for last; empty: there is none.
  std::function<std::string()> recipe;
};

struct CompileResult {
  std::vector<compiler::TensorRole> roles; // of the file's tensors
  std::vector<std::string> warnings;       // of the importer, sentences; they were told as progress, too
  dist::Mesh mesh;
  std::vector<strategies::MeshCandidate> meshes; // the cheapest first; empty: none were compared
  strategies::AssignReport report;
  compiler::MemoryReport memory;
  std::string recompute = "none"; // or cheap, full, full:0,2
  size_t numOperators = 0;        // of the first function
};

/// Takes one line per phase, and one per warning, which begins with "warning: ".
using Progress = std::function<void(const std::string &)>;

/// What CompileOptions::assign may have as mode: the modes of assignment, and hybrid.
const std::vector<std::string> &compileModes();

/// What is wrong with the options by themselves: texts that mean nothing, and options that mean nothing together. No
/// file is read. `chooses` names the command-line option that makes no sense where nothing is chosen, as in mode
/// hybrid; empty: there is none. The functions below check the same.
llvm::Error checkOptions(const CompileOptions &options, llvm::StringRef chooses = "");

llvm::Expected<CompileResult> compile(const CompileOptions &options, const Progress &progress);

/// Phases 1 to 3 alone: nothing is written, and the result knows no memory but the search's estimate.
llvm::Expected<CompileResult> searchOnly(const CompileOptions &options, const Progress &progress);

/// A cluster of so many machines of the topology's kind, under the same mesh with one axis "node" outside.
struct ClusterPrediction {
  int64_t nodes = 1, ranks = 1;
  std::string mesh, error; // error: nothing was found, for this reason
  strategies::Cost predicted = 0, communication = 0;
  int64_t memory = 0; // bytes of one rank's arena
  std::string recompute = "none";
  bool fits = false;
};

/// What the training step (or inference) would take on each; nothing is written.
llvm::Expected<std::vector<ClusterPrediction>> predictClusters(const CompileOptions &options,
                                                               llvm::ArrayRef<int64_t> nodes, const Progress &progress);

/// A table of them. Efficiency: how much of the first line's speed per rank is left.
std::string table(llvm::ArrayRef<ClusterPrediction> clusters);

/// The lines that tessera-compile prints at the end; of a search alone those about it.
std::string summary(const CompileOptions &options, const CompileResult &result);

} // namespace tessera

#endif
