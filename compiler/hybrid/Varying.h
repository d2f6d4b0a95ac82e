//===- Varying.h - along which axes a value differs between ranks -----------------------------------===//
//
// In a program of one rank, a value is either equal on all ranks along an axis, or may differ. Inputs differ along the
// axes that cut them, and results of an operator along the axes of its operands. Collectives remove axes (all-reduce,
// all-gather, broadcast) or add them (slice, reduce-scatter, all-to-all, halo). The analysis is conservative: a value
// that it calls differing may be equal, but never the other way round. (JAX's shard_map calls these axes the varying
// manual axes of a value.)
//
//   %h = matmul %x, %w                        x differs along data, w (a slice) along model: h along both
//   %y = collective "all-reduce" %h {model}   along data only
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_HYBRID_VARYING_H
#define TESSERA_COMPILER_HYBRID_VARYING_H

#include "dialects/dist/Sharding.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/DenseMap.h"

namespace tessera::compiler {

/// A set of mesh axes: bit i is axis i. A mesh has at most 16 axes.
using AxisSet = uint32_t;

AxisSet axisSet(llvm::ArrayRef<int> axes);
/// The axes of the set, ascending.
dist::AxisList axisList(AxisSet set);
/// The axes that cut a tensor.
AxisSet axesOf(const dist::Sharding &sharding);
/// All axes whose size is above 1.
AxisSet longAxes(const dist::Mesh &mesh);
/// "data+model", or "-".
std::string axesText(const dist::Mesh &mesh, AxisSet set);

class Varying {
public:
  /// Analyses the function. Every argument must have its sharding (dist.sharding).
  Varying(mlir::func::FuncOp func, const dist::Mesh &mesh);

  AxisSet of(mlir::Value value) const { return sets_.lookup(value); }
  /// Computes the sets of an operator's results again from its operands. Call it for every operator that was built or
  /// changed after the analysis.
  void update(mlir::Operation *op);

private:
  AxisSet ofResult(mlir::Operation *op) const;

  const dist::Mesh mesh_;
  AxisSet all_;
  llvm::DenseMap<mlir::Value, AxisSet> sets_; // looked up only
};

} // namespace tessera::compiler

#endif
