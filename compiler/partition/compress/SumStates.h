//===- SumStates.h - the states of sums over ranks that send less than their terms -------------------===//
//
// What is not sent of a term in one step is sent in a later one, so it is kept in a state of the function
// (runtime/support/UnsentNames.h). A rank's is one row of it:
//
//   %r: tensor<1x4x16xf32> {graph.name = "unsent/fc1.weight", graph.role = "state", graph.fill = 0.0, graph.update = 7,
//                           dist.sharding = <"[data, -, -]">, dist.global_shape = [4, 4, 16]}
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_PARTITION_COMPRESS_SUMSTATES_H
#define TESSERA_COMPILER_PARTITION_COMPRESS_SUMSTATES_H

#include "dialects/dist/Reshard.h"
#include "dialects/graph/OpWriter.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

class SumStates {
public:
  SumStates(mlir::func::FuncOp func, const dist::Mesh &mesh) : func_(func), mesh_(mesh) {}

  struct State {
    unsigned argument;
    mlir::Value before; // what the last step left, in the shape that was asked for
  };
  /// A state of zeros in float32 that is one along no axis of `axes`. `kind` and `parameter` name it.
  State add(graph::OpWriter &b, llvm::ArrayRef<int64_t> shape, llvm::StringRef kind, llvm::StringRef parameter,
            const dist::AxisList &axes);
  /// Keeps `next` for the next step, and where it is no number `otherwise`: a step that is skipped for an infinity or a
  /// NaN must not spoil the next one.
  void keep(graph::OpWriter &b, const State &state, mlir::Value next, mlir::Value otherwise);

  /// Returns the new values of the states. Nothing is built behind it.
  void finish();

private:
  mlir::func::FuncOp func_;
  const dist::Mesh &mesh_;
  llvm::SmallVector<std::pair<unsigned, mlir::Value>> next_; // by argument
};

/// The axes along which ranks have different terms, or terms of different blocks.
dist::AxisList axesOfTerms(const dist::Mesh &mesh, const dist::Sharding &of);

} // namespace tessera::compiler

#endif
