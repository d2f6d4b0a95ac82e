//===- Emit.h - phase 6: one plan per rank -------------------------------------------------------===//
//
// Turns a local module (phase 5: @train and @eval, or @infer) into a plan directory. Everything static is
// decided here: which value lies where in the arena, what is computed in place, where an update overwrites
// its parameter.
//
//   EmitOptions options{.model = "resnet50.onnx"};
//   MemoryReport memory;
//   if (Error e = emitPlan(local, sequential, options, "plan", &memory)) ...
//
// This header and its users see nothing of plan.proto; Plans.h does.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_EMIT_EMIT_H
#define TESSERA_COMPILER_EMIT_EMIT_H

#include "compiler/import/Weights.h"

#include "mlir/IR/BuiltinOps.h"

#include "llvm/Support/Error.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::compiler {

struct EmitOptions {
  std::string model; // file name, for messages
  std::string producer = "tessera-compile 0.1.0";
  std::string weightsFile = "weights.safetensors"; // beside the plan; written by the caller, before
  /// Of these the rules go into the plan: of what the weights file does not hold.
  const WeightStore *generated = nullptr;
};

/// The most ranks that a plan is written for and read of.
int64_t maxRanks();

/// What one rank's memory goes to. All ranks are alike.
struct MemoryReport {
  struct Item {
    std::string name;
    std::string kind; // "parameter", "state", "constant", "activation", "input"
    uint64_t bytes = 0;
  };
  uint64_t arenaBytes = 0; // the peak: all that follows, packed
  uint64_t parameterBytes = 0, stateBytes = 0, constantBytes = 0;
  uint64_t activationBytes = 0;      // the region that the programs' values share
  uint64_t activationBound = 0;      // no layout of them is smaller
  std::string peakProgram, peakStep; // where most of them live
  std::vector<Item> atPeak;          // everything that lives there, largest first

  /// One line: "arena 1.21 GiB: parameters ..., activations ..., most of them at '/conv1/Conv.conv' of train; the largest
  /// there: 96.0 MiB activation '/conv1/Conv', ...".
  std::string str(size_t items = 8) const;
};

/// Lays the module out without writing anything.
llvm::Expected<MemoryReport> planMemory(mlir::ModuleOp local, const EmitOptions &options);

/// Writes rank0.plan ... and, if `sequential` (the unpartitioned module, local on a mesh of one rank) is
/// given, sequential.plan. Nothing half-written: files appear under their names only when whole.
llvm::Error emitPlan(mlir::ModuleOp local, mlir::ModuleOp sequential, const EmitOptions &options,
                     const std::string &directory, MemoryReport *report = nullptr);

} // namespace tessera::compiler

#endif
