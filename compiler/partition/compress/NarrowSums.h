//===- NarrowSums.h - sums over ranks whose terms are sent in fewer bits -----------------------------===//
//
// Writes a sum with a wire (dist::Wire) as operators of a local program, docs/adr/0024-compressed-reductions.md:
//
//   pieces    [ranks, n]: row i is the part of the term that member i of the group adds up
//   narrow    pieces + what rounding left of them in the last step -> numbers of 16 or 8 bits, and what is left now
//   send      an all-to-all of the narrow numbers, which are widened, and added in the order of the ranks
//   whole     of an all-reduce: the part is narrowed in the same way, and gathered
//
// What is left is kept in states of the function (SumStates.h).
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_PARTITION_COMPRESS_NARROWSUMS_H
#define TESSERA_COMPILER_PARTITION_COMPRESS_NARROWSUMS_H

#include "compiler/partition/compress/SumStates.h"

namespace tessera::compiler {

class NarrowSums {
public:
  NarrowSums(mlir::func::FuncOp func, const dist::Mesh &mesh)
      : func_(func), mesh_(mesh), b_(func), states_(func, mesh) {}

  /// The sum, built before `reader`. `term` is this rank's; it has the sharding `from`, and zeros in its padding.
  /// Sums are built in program order. `parameter` names the states.
  mlir::Value sum(mlir::Value term, const dist::Collective &step, const dist::Sharding &from, mlir::Operation *reader,
                  llvm::StringRef parameter);

  /// Returns the new values of the states. Nothing is built behind it.
  void finish() { states_.finish(); }

private:
  /// Numbers as they are sent. A scale belongs to the elements of a block, the last dimension.
  struct Sent {
    mlir::Value numbers, scales; // no scales: null
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

  mlir::func::FuncOp func_;
  const dist::Mesh &mesh_;
  graph::OpWriter b_;
  SumStates states_;
};

} // namespace tessera::compiler

#endif
