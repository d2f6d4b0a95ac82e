//===- RandomGraph.h - random small networks from the whole operator set -------------------------===//
//
// randomGraph(context, seed) writes a module with @infer and, where it is to be trained, @forward: a dozen
// operators on tensors of up to four dimensions (five for convolutions), with extents of 1 to 8 that mostly no
// mesh divides. Everything that is made is used: what is left over at the end is summed into the first output,
// so that every value reaches the loss. Magnitudes are kept near 1, and arguments of functions with poles away
// from them. What jumps (rounding, comparisons, maxima) reads values without structure, so that the order of a
// sum decides nothing.
//
//   RandomGraph graph = randomGraph(context, 17);    // graph.module, graph.training: how to train it
//
// A new operator gets a function in RandomOperators.cpp and a row in RandomGraph.cpp: random_graphs_test fails while
// none of the graphs has it.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TEST_E2E_RANDOMGRAPH_H
#define TESSERA_TEST_E2E_RANDOMGRAPH_H

#include "compiler/training/TrainingOptions.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <optional>

namespace tessera::test {

struct RandomGraph {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::optional<compiler::TrainingOptions> training; // nullopt: the module has @infer only
  int64_t classes = 2;                               // of the loss' targets
  bool hasRows = false;                              // it can be trained in micro-batches
};

/// Integer inputs of the graph take values below this.
inline constexpr int64_t kIds = 8;

RandomGraph randomGraph(mlir::MLIRContext &context, unsigned seed);

} // namespace tessera::test

#endif
