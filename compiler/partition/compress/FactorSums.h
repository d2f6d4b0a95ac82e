//===- FactorSums.h - sums over ranks that are sent as two thin factors ------------------------------===//
//
// Writes a sum with a wire of factors (dist::Wire) as operators of a local program,
// docs/adr/0024-compressed-reductions.md (PowerSGD; Vogels, Karimireddy and Jaggi 2019). With the term M as a matrix
// [n, m], what was left of it E, and r columns:
//
//   M' = M + E
//   P  = all-reduce(M' orthonormalize(Q of the last step))       [n, r]
//   P  = orthonormalize(P)                                       the same bits on all ranks
//   T  = M'^T P,  Q = all-reduce(T)                              [m, r]
//   the sum is P Q^T;  E = M' - P T^T, what this rank's term has beyond its share in it;  Q is kept
//
// So the errors of all ranks add up to what the sum lacks. Both Q and E begin as zeros: an orthonormalised matrix of
// zeros is a fixed basis.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_PARTITION_COMPRESS_FACTORSUMS_H
#define TESSERA_COMPILER_PARTITION_COMPRESS_FACTORSUMS_H

#include "compiler/partition/compress/SumStates.h"

namespace tessera::compiler {

class FactorSums {
public:
  FactorSums(mlir::func::FuncOp func, const dist::Mesh &mesh) : mesh_(mesh), b_(func), states_(func, mesh) {}

  /// The sum, built before `reader`. `term` is this rank's; it has the sharding `from`, and zeros in its padding. The
  /// result's padding has any contents. Sums are built in program order. `parameter` names the states.
  mlir::Value sum(mlir::Value term, const dist::Collective &step, const dist::Sharding &from, mlir::Operation *reader,
                  llvm::StringRef parameter);

  /// Returns the new values of the states. Nothing is built behind it.
  void finish() { states_.finish(); }

private:
  mlir::Value product(mlir::Value a, mlir::Value b, bool transposeA, bool transposeB);

  const dist::Mesh &mesh_;
  graph::OpWriter b_;
  SumStates states_;
};

} // namespace tessera::compiler

#endif
