//===- NarrowSums.h - sums over ranks whose terms are sent in fewer bits -----------------------------===//
//
// Writes a sum with a wire (dist::Wire) as operators of a local program, docs/adr/0024-compressed-reductions.md:
//
//   pieces    [ranks, n]: row i is the part of the term that member i of the group adds up
//   narrow    pieces + what rounding left of them in the last step -> numbers of 16 or 8 bits, and what is left now
//   send      an all-to-all of the narrow numbers, which are widened, and added in the order of the ranks
//   whole     of an all-reduce: the part is narrowed in the same way, and gathered
//
// What is left is kept in states of the function, one rank's in a row:
//
//   %r: tensor<1x4x16xf32> {graph.name = "unsent/fc1.weight", graph.role = "state", graph.fill = 0.0, graph.update = 7,
//                           dist.sharding = <"[data, -, -]">, dist.global_shape = [4, 4, 16]}
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_PARTITION_NARROWSUMS_H
#define TESSERA_COMPILER_PARTITION_NARROWSUMS_H

#include "dialects/dist/Reshard.h"
#include "dialects/graph/OpWriter.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera::compiler {

class NarrowSums {
public:
  NarrowSums(mlir::func::FuncOp func, const dist::Mesh &mesh) : func_(func), mesh_(mesh), b_(func) {}

  /// The sum, built before `reader`. `term` is this rank's; it has the sharding `from`, and zeros in its padding.
  /// Sums are built in program order. `parameter` names the states.
  mlir::Value sum(mlir::Value term, const dist::Collective &step, const dist::Sharding &from, mlir::Operation *reader,
                  llvm::StringRef parameter);

  /// Returns the new values of the states. Nothing is built behind it.
  void finish();

private:
  /// Numbers as they are sent. A scale belongs to the elements of a block, the last dimension.
  struct Sent {
    mlir::Value numbers, scales; // no scales: null
  };
  struct State {
    unsigned argument;
    mlir::Value next;
  };

  mlir::Value piecesOf(mlir::Value term, const dist::Collective &step);
  mlir::Value wholeOf(mlir::Value pieces, const dist::Collective &step);
  mlir::Value partOf(mlir::Value part, const dist::Collective &step);
  Sent narrow(mlir::Value pieces, const dist::Wire &wire);
  mlir::Value widen(const Sent &sent, llvm::ArrayRef<int64_t> shape);
  Sent narrowWithState(mlir::Value pieces, const dist::Wire &wire, llvm::StringRef prefix, llvm::StringRef parameter,
                       const dist::AxisList &axes);
  mlir::Value toAll(mlir::Value value, const dist::AxisList &axes);
  mlir::Value gather(mlir::Value value, const dist::AxisList &axes);
  mlir::Value padded(mlir::Value rows, int64_t columns);
  mlir::Value cut(mlir::Value rows, int64_t columns);
  unsigned addState(llvm::ArrayRef<int64_t> shape, llvm::StringRef prefix, llvm::StringRef parameter,
                    const dist::AxisList &axes);

  mlir::func::FuncOp func_;
  const dist::Mesh &mesh_;
  graph::OpWriter b_;
  llvm::SmallVector<State> states_;
};

} // namespace tessera::compiler

#endif
