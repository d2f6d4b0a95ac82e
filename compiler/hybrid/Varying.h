//===- Varying.h - along which axes a value differs between ranks -----------------------------------===//
//
// In a program that is one rank's, a value is equal on all ranks along an axis, or may differ there: inputs differ
// along the axes that cut them, an operator's results along those of its operands, and collectives take axes away
// (all-reduce, all-gather, broadcast) or add them (slice, reduce-scatter, all-to-all). What is found is safe: a
// value may in truth be equal where it is said to differ, never the other way round. (JAX's shard_map calls this
// the varying manual axes of a value.)
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

/// Axes of a mesh, of which there are at most 16: bit i is axis i.
using AxisSet = uint32_t;

AxisSet axisSet(llvm::ArrayRef<int> axes);
/// Ascending.
dist::AxisList axisList(AxisSet set);
/// The axes that cut a tensor.
AxisSet axesOf(const dist::Sharding &sharding);
/// All axes of more than one rank.
AxisSet longAxes(const dist::Mesh &mesh);
/// "data+model", or "-".
std::string axesText(const dist::Mesh &mesh, AxisSet set);

class Varying {
public:
  /// Every argument of the function has its sharding (dist.sharding).
  Varying(mlir::func::FuncOp func, const dist::Mesh &mesh);

  AxisSet of(mlir::Value value) const { return sets_.lookup(value); }
  /// For what is built or changed afterwards: its results, from its operands.
  void update(mlir::Operation *op);

private:
  AxisSet ofResult(mlir::Operation *op) const;

  const dist::Mesh mesh_;
  AxisSet all_;
  llvm::DenseMap<mlir::Value, AxisSet> sets_; // looked up only
};

} // namespace tessera::compiler

#endif
