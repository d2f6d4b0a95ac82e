//===- ProgramParts.h - what of a local program is forward, and what every stage may have ----------===//
//
// Read off data flow alone:
//
//   forward   what the loss, the metrics, the outputs and the states depend on that micro-batches carry on; of a
//             program with micro-batches only what is in the body
//   averages  of the forward steps those on which new states alone depend, such as a running mean
//   free      what every stage that reads it may compute for itself: it depends on constants and the number of the step
//             alone, or it is elementwise, or moves nothing, and depends on the model's inputs as well, or it shows in
//             the body what is the same for all micro-batches
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_PIPELINE_PROGRAMPARTS_H
#define TESSERA_COMPILER_PIPELINE_PROGRAMPARTS_H

#include "dialects/graph/flow/DataFlow.h"

namespace tessera::compiler {

struct ProgramParts {
  explicit ProgramParts(mlir::func::FuncOp func);

  /// The step that makes the value; -1: an argument.
  int makerOf(mlir::Value value) const { return program.flow.values[size_t(program.index.lookup(value))].maker; }
  bool inBody(int step) const { return graph::inBody(program.flow.steps[size_t(step)].section); }
  bool inBackwardBody(int step) const { return inBody(step) && !forward[size_t(step)]; }
  int64_t bytesOf(mlir::Value value) const { return program.flow.values[size_t(program.index.lookup(value))].bytes; }

  graph::FunctionFlow program;
  bool hasBody = false;
  std::vector<int> order;                    // of the steps: by sections, and what is read before what reads it
  std::vector<bool> forward, averages, free; // by step

private:
  void findForward(mlir::func::FuncOp func);
  void findFree(mlir::func::FuncOp func);
};

/// The stage that the operator, or what has the value, was given (dist.stage); kNoStage: none.
inline constexpr int kNoStage = -1;
int stageIn(mlir::Operation *op);
int stageIn(mlir::Value value);

/// The function that decides how a module is cut: the training step, else the first one.
mlir::func::FuncOp mainFunction(mlir::ModuleOp module);
/// Whether the argument is a parameter or a state, which one stage has.
bool isOwned(mlir::func::FuncOp func, unsigned argument);
/// Whether the result is one of the few numbers about a step that all ranks tell: loss, metrics, learning rate.
bool isTold(mlir::func::FuncOp func, unsigned result);

} // namespace tessera::compiler

#endif
