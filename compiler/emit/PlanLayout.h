//===- PlanLayout.h - a plan without what depends on the rank ------------------------------------===//
//
// The layout has the buffers, steps and bindings of all programs of a module, with offsets in the arena. PlanWriter
// turns it into one rank's plan without further decisions.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_EMIT_PLANLAYOUT_H
#define TESSERA_COMPILER_EMIT_PLANLAYOUT_H

#include "compiler/emit/Emit.h"

#include "dialects/dist/Mesh.h"
#include "dialects/dist/ShardingRule.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

#include <numeric>

namespace tessera::compiler {

struct LayoutBuffer {
  std::string name;
  mlir::RankedTensorType type;
  int alias = -1;     // the buffer whose bytes it shares, which is no alias itself; -1: none
  uint64_t shift = 0; // an alias: how many bytes of that buffer lie before it
  bool persistent = false;
  mlir::DenseElementsAttr constant; // null: no constant; constants are persistent
  std::string kind = "activation";  // for the report
  uint64_t offset = 0;
  int frame = -1; // the frame in which it lies; -1: none

  uint64_t bytes() const;
};

struct LayoutStep {
  enum Kind {
    Kernel,     // of `op`
    Collective, // of `op`
    Copy,       // outputs[0] = inputs[0]
    Fill,       // outputs[0] = the splat of the constant `op`; without it, zeros from which a sum starts
    Send,       // of `op`: inputs[0] to another stage
    Receive,    // of `op`: outputs[0] from another stage
  };
  Kind kind = Kernel;
  std::string name;
  mlir::Operation *op = nullptr;
  llvm::SmallVector<int, 4> inputs, outputs;
  int message = -1; // steps behind each other with the same number are sent as one message; -1: this one is sent alone
  int joined = 0;   // how many steps behind this one are sent with it
  bool beside = false;   // a collective that runs beside kernels
  int64_t predicted = 0; // ns of one run (graph::kPredictedAttr); 0: not known
};

struct LayoutBinding {
  std::string role, name, program; // program empty: all programs share it
  unsigned ordinal = 0;
  int buffer = 0;
  dist::Sharding sharding;
  dist::Shape globalShape;
  double fill = 0;
  int64_t idLimit = 0;    // of an input's values; 0: not known
  std::string logAs = {}; // of a state; empty: it is not logged
  bool again = false;     // a stage before this one has it as well, in the same blocks
  /// Of stages with meshes of their own: the blocks that ranks of earlier stages hold, offsets and extents.
  std::vector<dist::Shape> before = {};
};

/// A program with micro-batches has sections: steps that end before those numbers, and calls of them, each with the
/// number of its micro-batch (plan.proto). All but the first and the last are the body.
struct LayoutProgram {
  std::string name;
  std::vector<LayoutStep> steps;
  std::vector<uint32_t> sectionEnds = {}; // empty: all steps run once
  std::vector<std::pair<uint32_t, uint32_t>> calls = {};
  std::vector<int64_t> callTimes = {}; // of a pipeline's rank: when the calls are predicted to begin, in ns

  /// Of a pipeline's rank: how many stages it has. Its sections are those of dialects/graph/flow/Sections.h.
  int chunks = 0;

  bool hasSections() const { return !sectionEnds.empty(); }
  /// The steps [bodyBegin, bodyEnd) run for every micro-batch. Requires sections.
  uint32_t bodyBegin() const { return sectionEnds.front(); }
  uint32_t bodyEnd() const { return sectionEnds[sectionEnds.size() - 2]; }
  /// The section of a step; 0 without sections.
  size_t sectionOf(size_t step) const;
};

/// Places of the arena that hold what one section of a program leaves for later ones, for each of the micro-batches
/// that are between them.
struct LayoutFrame {
  std::string program;
  size_t first = 0;         // section
  std::vector<size_t> last; // sections, of which none surely runs before another
  uint64_t offset = 0;
  uint64_t bytes = 0; // of one place
  uint32_t slots = 1;
};

struct PlanLayout {
  dist::Mesh mesh;
  int64_t leaves = 0; // dialects/dist/leaves/Leaves.h
  std::vector<LayoutBuffer> buffers;
  std::vector<LayoutProgram> programs;
  std::vector<LayoutBinding> bindings;
  std::vector<LayoutFrame> frames;
  int64_t stage = 0, stages = 1;      // of a pipeline; the mesh is that of one stage
  std::vector<int64_t> stageRanks;    // of a pipeline whose stages have meshes of their own; empty: they have one
  std::vector<dist::AxisList> groups; // of a pipeline: those of the collectives of all stages, or of its own mesh
  size_t numGroups = 0;               // of every rank, at least: those that are missing have the rank alone
  uint64_t arenaBytes = 0;
  uint64_t globalBatch = 0;
  MemoryReport report;

  /// The first rank of a stage, among the ranks of all stages.
  int64_t firstRank(int64_t of) const {
    return stageRanks.empty() ? of * mesh.numRanks()
                              : std::accumulate(stageRanks.begin(), stageRanks.begin() + of, int64_t(0));
  }

  int root(int buffer) const { return buffers[buffer].alias < 0 ? buffer : buffers[buffer].alias; }
};

/// Bytes of one element as the plan stores it; 0 for a type that plans do not have.
uint64_t elementBytes(mlir::Type element);

/// Of a module whose functions are programs.
llvm::Expected<PlanLayout> buildPlanLayout(mlir::ModuleOp local);
/// Of all stages of a pipeline, in their order, if the module has their modules; else of itself.
llvm::Expected<std::vector<PlanLayout>> buildPlanLayouts(mlir::ModuleOp local);

/// Whether output `o` of the step may take the place of input `i`, given equal byte sizes.
bool mayShare(const PlanLayout &layout, const LayoutStep &step, int i, int o);

/// Sets the offsets of all buffers, arenaBytes and the report, and what is sent as one message (PlaceBuffers.cpp).
void placeBuffers(PlanLayout &layout);

} // namespace tessera::compiler

#endif
