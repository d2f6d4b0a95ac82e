//===- Emit.h - phase 6: one plan per rank -------------------------------------------------------===//
//
// Turns a local module (phase 5: @train and @eval, or @infer) into a plan directory. A module of modules is a pipeline:
// each is a stage. It decides where each value lies
// in the arena, which operators compute in place, and where an update overwrites its parameter.
//
//   EmitOptions options{.model = "resnet50.onnx"};
//   MemoryReport memory;
//   if (Error e = emitPlan(local, sequential, options, "plan", &memory)) ...
//
// This header does not depend on plan.proto; Plans.h does.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_EMIT_EMIT_H
#define TESSERA_COMPILER_EMIT_EMIT_H

#include "compiler/import/Weights.h"
#include "dialects/dist/Mesh.h"

#include "mlir/IR/BuiltinOps.h"

#include "llvm/Support/Error.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tessera::compiler {

struct EmitOptions {
  std::string model; // file name, for messages
  std::string producer = "tessera-compile 0.1.0";
  std::string weightsFile = "weights.safetensors"; // in the plan's folder; the caller has written it before
  /// Weights whose initialisation rules go into the plan, because the weights file does not have their values.
  const WeightStore *generated = nullptr;
  /// How many neighbours of a group over some axes share a faster link than the whole group; 1: there is one link. Not
  /// set: so it is for every group.
  std::function<int64_t(const dist::Mesh &mesh, llvm::ArrayRef<int> axes)> run = nullptr;
};

/// The most ranks that a plan may have.
int64_t maxRanks();

/// How one rank uses its memory. All ranks are alike, but for stages of a pipeline: it is a rank of the stage that
/// needs most.
struct MemoryReport {
  struct Item {
    std::string name;
    std::string kind; // "parameter", "state", "constant", "activation", "input"
    uint64_t bytes = 0;
  };
  uint64_t arenaBytes = 0; // the peak: the size of the arena, which has all that follows
  uint64_t parameterBytes = 0, stateBytes = 0, constantBytes = 0;
  uint64_t activationBytes = 0;      // the region that the programs' values share
  uint64_t activationBound = 0;      // no layout of them is smaller
  std::string peakProgram, peakStep; // the program and the step in which most bytes live
  std::vector<Item> atPeak;          // everything that lives at that step, largest first
  std::vector<uint64_t> stageBytes;  // of planMemory: the arenas of all stages

  /// One line: "arena 1.21 GiB: parameters ..., activations ..., most of them at '/conv1/Conv.conv' of train; the
  /// largest there: 96.0 MiB activation '/conv1/Conv', ...".
  std::string str(size_t items = 8) const;
};

/// What one run of each step of a program is predicted to take, in ns; 0: nothing, or it is not known.
struct ProgramTimes {
  std::string program;
  size_t place = 0; // on the axis of a pipeline's stages, each of which has programs of its own
  std::vector<int64_t> steps;
  std::vector<int64_t> calls = {}; // of a pipeline's program with micro-batches: when each of its calls begins
};

/// Lays the module out without writing anything. `times`: of each program of each place.
llvm::Expected<MemoryReport> planMemory(mlir::ModuleOp local, const EmitOptions &options,
                                        std::vector<ProgramTimes> *times = nullptr);

/// Writes rank0.plan, rank1.plan, ... `sequential` is the unpartitioned module, local on a mesh of one rank; if it is
/// given, it is written to sequential.plan. A file gets its name only when it is complete.
llvm::Error emitPlan(mlir::ModuleOp local, mlir::ModuleOp sequential, const EmitOptions &options,
                     const std::string &directory, MemoryReport *report = nullptr);

} // namespace tessera::compiler

#endif
