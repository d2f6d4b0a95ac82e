//===- FusedLoop.h - a loop nest over many operators ------------------------------------------===//
//
// graph.fused, or an operator that is a loop by itself (graph::isLoop). All values of the body broadcast to the domain.
// Every input is viewed with leading dimensions of extent 1 up to the rank of the domain. A result is either a value at
// every point of the domain or a reduction of such a value.
//
// What adds up over micro-batches reads the sum so far: one more input for each such result, behind the operator's own.
//
//   inputs [8, 4], [4]; body: add, reduce_sum dims 0 -> domain [8, 4], views [8, 4], [1, 4], result sum [1, 4]
//
// A sum with leaves keeps a part of a dimension, so the dimension is cut: it becomes several of the domain.
//
//   the same with leaf_sums dims 0, 2 leaves -> domain [2, 4, 4], views [2, 4, 4], [1, 1, 4], result sum [2, 1, 4]
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_EMIT_FUSEDLOOP_H
#define TESSERA_COMPILER_EMIT_FUSEDLOOP_H

#include "dialects/graph/Graph.h"

#include "llvm/Support/Error.h"

namespace tessera::compiler {

struct FusedLoop {
  struct Result {
    mlir::Value value; // in the body, before the reduction
    dist::Reduction reduction = dist::Reduction::None;
    dist::Shape view;
  };
  dist::Shape domain;
  std::vector<dist::Shape> inputViews; // those of the sums so far come last, in the order of the results
  std::vector<Result> results;
  /// For each dimension of the body's values its dimensions in `domain`: extents whose product is its own.
  std::vector<dist::Shape> cuts;

  bool isCut() const { return cuts.size() != domain.size(); }

  /// Reads the loop nest of the operator. An error names the operator of the body that does not fit the domain.
  static llvm::Expected<FusedLoop> get(mlir::Operation *op);
};

} // namespace tessera::compiler

#endif
