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
// In mode hybrid the program of the file is local from the start, and phase 5 follows phase 2.
//
//   CompileOptions options;
//   options.model = "resnet18.onnx";
//   options.output = "plan";
//   options.assign.mesh = "data=2,model=2";
//   options.train = true;
//   options.training.optimizer = "sgd:lr=0.1,momentum=0.9";
//   Expected<CompileResult> result = compile(options, [](const std::string &line) { puts(line.c_str()); });
//
// The output appears under its name only when it is complete.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_DRIVER_DRIVER_H
#define TESSERA_COMPILER_DRIVER_DRIVER_H

#include "compiler/emit/Emit.h"
#include "compiler/import/OnnxImport.h"
#include "compiler/pipeline/Calls.h"
#include "compiler/training/Passes.h"
#include "strategies/modes/MeshChoice.h"
#include "strategies/modes/Passes.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tessera {

/// What is asked about: other clusters, other sizes of a dimension, other limits of memory. Each is a table of its own;
/// an empty list is not asked.
struct WhatIf {
  std::vector<int64_t> nodes; // machines of the topology's kind
  /// A symbolic dimension in ImportOptions::dims that is given for one machine and multiplied by their number (weak
  /// scaling). Empty: the program is the same on every cluster (strong scaling).
  std::string grows;
  std::string dim; // a symbolic dimension, such as the batch, that has one of these sizes:
  std::vector<int64_t> sizes;
  std::vector<int64_t> limits; // bytes per rank
};

/// The prediction for a cluster of `nodes` machines of the topology's kind, or for another size or limit. On several
/// machines a given mesh gets the axis "node" before its other axes, but behind that of the stages. Where the mesh or
/// the stages are chosen, they are chosen for every line.
struct ClusterPrediction {
  int64_t nodes = 1, ranks = 1;
  int64_t size = 0, limit = 0; // what was asked about; 0: nothing
  std::string mesh, error;     // error: why there is no prediction; empty if there is one
  bool choseMesh = false;      // it was not given
  int64_t microBatches = 0;    // of stages that were chosen; 0: there are none
  strategies::Cost predicted = 0, communication = 0;
  int64_t memory = 0; // bytes of one rank's arena
  std::string recompute = "none";
  bool fits = false;
};

/// By WhatIf's lists.
struct WhatIfTables {
  std::vector<ClusterPrediction> clusters, sizes, limits;
};

/// The speed per rank relative to that of the first: of another size the samples per second, of a limit the steps.
/// Nothing where one of them has no prediction.
std::optional<double> efficiency(const WhatIf &whatIf, const ClusterPrediction &first,
                                 const ClusterPrediction &cluster);

/// What the compiler is doing. Another thread may read it at any time.
struct CompileWatch {
  std::atomic<const char *> phase{"begin"}; // import, training, simplify, mesh, stages, ...
  strategies::SearchWatch search;           // of the phases mesh, stages and strategies
};

/// Of --pipeline auto: what was found for a number of stages.
struct StagesCandidate {
  dist::Mesh mesh; // with the axis of the stages, if there are several
  int64_t stages = 1, microBatches = 1;
  std::string schedule; // empty: there is one stage
  strategies::Cost predicted = strategies::kForbidden;
  double bubble = 0;
  int64_t bytes = 0;     // of a rank, estimate
  bool estimate = false; // it was not made in full
  std::string error;     // why there is nothing; empty if there is
};

struct ComparedStages {
  std::vector<StagesCandidate> best; // the best for each number of stages, the shortest first
  size_t tried = 0;                  // combinations of stages, micro-batches and meshes that were searched
  std::vector<int64_t> leftOut;      // numbers of stages that cannot be faster, by what kernels take alone
};

/// The options of tessera-compile. Options that a user writes as text are text here. Those of passes are described in
/// Passes.td of strategies/modes and compiler/training.
/// More leaves make kernels too small to be worth computing.
inline constexpr int64_t kMostLeaves = 1024;
/// Whether a factor may have so many leaves at most: a power of two.
constexpr bool isLeafCount(int64_t leaves) {
  return leaves >= 1 && leaves <= kMostLeaves && (leaves & (leaves - 1)) == 0;
}

/// The most micro-batches of a step.
inline constexpr int64_t kMostMicroBatches = 4096;

struct CompileOptions {
  std::string model, output;
  /// `training`, `microBatches` and `perRank` are set by the driver.
  compiler::ImportOptions import;
  /// The mode may also be "hybrid": the model file is one rank's program, and nothing is chosen.
  strategies::AssignStrategiesPassOptions assign;
  std::string hybridOptions; // of mode hybrid: a file (compiler/hybrid/HybridOptions.h)
  bool train = false;        // compile a training step, else inference
  /// Of a mesh with stages (compiler/pipeline/Calls.h); empty: the defaults. "auto": of a number of ranks, of which
  /// stages and the mesh of a stage are chosen. If it says the number of micro-batches, `training.accumulate` is the
  /// same.
  std::string pipeline;
  /// With the pipeline "auto", the number of micro-batches is chosen, too, of those that divide the batch.
  bool chooseMicroBatches = false;
  /// An empty loss scale is "dynamic" with precision f16. `gradientScale` and `perRank` are set by the driver.
  compiler::BuildTrainingPassOptions training;
  std::string gradientReduction = "mean"; // over the gradients of the batch's slices: mean or sum
  /// The same bits on any number of ranks (docs/adr/0021-equal-bits.md): a summed factor has at most so many leaves,
  /// isLeafCount(). 0: sums have the order that suits the mesh.
  int64_t leaves = 0;
  std::string precision = "f32"; // the operands of products: f32, bf16 or f16
  /// With 16-bit operands: wide (float32), or narrow: a product that another one depends on stores 16 bits.
  std::string products = "wide";
  /// none, cheap, full, full:0,2, or auto: of those that fit the one that is predicted to take the least time.
  std::string recompute = "none";
  bool fuse = true;          // fuse elementwise operators and reductions
  bool fuseAttention = true; // fuse two products with a softmax between into attention
  /// Initial values that follow from a rule are not stored with the plan. Every rank generates its own blocks.
  bool initAtStart = false;
  /// Before the first step, the first of the ranks that hold the same block sends it to the others.
  bool broadcastParameters = false;
  std::string saveStrategies, dumpPhases; // names of a file and of a directory
  /// Returns the text of compile.json (runtime/plan/Recipe.h), and is called last. Empty: there is no such file.
  std::function<std::string()> recipe;
  /// Predicts these as well (CompileResult::whatIf), and writes them into the report.
  std::optional<WhatIf> whatIf;
  /// Is told what the compiler is doing.
  CompileWatch *watch = nullptr;
  /// Becomes true: the search that runs ends now, with its best answer; what is searched after it is searched shortly.
  const std::atomic<bool> *stop = nullptr;
  /// Called with the folder of the complete output before the output gets its name. An error leaves nothing behind.
  std::function<llvm::Error(const std::string &folder)> finish;
};

struct CompileResult {
  std::vector<compiler::TensorRole> roles; // of the file's tensors
  std::vector<std::string> warnings;       // sentences of the importer, which were reported as progress, too
  dist::Mesh mesh;
  std::vector<strategies::MeshCandidate> meshes; // the cheapest first; empty: none were compared
  ComparedStages stages;                         // of the pipeline "auto"
  strategies::AssignReport report;
  std::optional<compiler::PipelineReport> pipeline; // of a mesh with stages
  compiler::MemoryReport memory;
  std::vector<compiler::ProgramTimes> times; // of the plan's programs
  std::string recompute = "none";            // none, cheap, full or full:0,2
  size_t numOperators = 0;                   // of the first function
  WhatIfTables whatIf;                       // of CompileOptions::whatIf
};

/// Is called with one line per phase, and with one per warning, which begins with "warning: ".
using Progress = std::function<void(const std::string &)>;

/// The modes that CompileOptions::assign accepts: those of strategies/modes, and hybrid.
const std::vector<std::string> &compileModes();

/// Fails if an option has no meaning, or if options contradict each other. Reads no file. `chooses` names a given
/// command-line option that needs a mode that chooses strategies, which mode hybrid does not; empty: there is none. The
/// functions below make the same checks.
llvm::Error checkOptions(const CompileOptions &options, llvm::StringRef chooses = "");

llvm::Expected<CompileResult> compile(const CompileOptions &options, const Progress &progress);

/// Runs phases 1 to 3 only and writes nothing. The result has the search's estimate of the memory, but no arena. Where
/// there are stages, they are cut, and the arena is known.
llvm::Expected<CompileResult> searchOnly(const CompileOptions &options, const Progress &progress);

/// Predicts the time of the training step (or of inference) on each cluster, with each size, under each limit. Writes
/// nothing. An error says that one of the lists has no prediction at all.
llvm::Expected<WhatIfTables> predictWhatIf(const CompileOptions &options, const WhatIf &whatIf,
                                           const Progress &progress);

/// The predictions as tables. Efficiency is relative to the first line.
std::string table(const WhatIf &whatIf, const WhatIfTables &tables);
/// The same as JSON, as the report has it under "what_if".
std::string whatIfJson(const WhatIf &whatIf, const WhatIfTables &tables);

/// What a compile or a search has found, as JSON: what the plan's report.json has. Without an arena there is no memory.
std::string resultJson(const CompileOptions &options, const CompileResult &result);
/// The file's tensors as JSON: a list of name, role, type, shape and reason.
std::string rolesJson(llvm::ArrayRef<compiler::TensorRole> roles, bool train);

/// The lines that tessera-compile prints at the end. After searchOnly they are about the search only.
std::string summary(const CompileOptions &options, const CompileResult &result);

} // namespace tessera

#endif
