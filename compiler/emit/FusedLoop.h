//===- FusedLoop.h - graph.fused as a loop nest --------------------------------------------------===//
//
// The domain is what all values of the body broadcast to. Every input is seen with leading 1s up to its rank;
// a result is either a value at every point of the domain or a reduction of one.
//
//   inputs [8, 4], [4]; body: add, reduce_sum dims 0 -> domain [8, 4], views [8, 4], [1, 4], result sum [1, 4]
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
  std::vector<dist::Shape> inputViews;
  std::vector<Result> results;

  /// An error names the operator that does not fit.
  static llvm::Expected<FusedLoop> get(graph::FusedOp op);
};

} // namespace tessera::compiler

#endif
