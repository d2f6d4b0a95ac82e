//===- OpWriter.h - building named graph operators -----------------------------------------------===//
//
// A thin layer over OpBuilder for code that writes many graph operators: arithmetic helpers that
// fold the trivial cases (x + 0, 1 * x, constants), one constant per value, and names. Every
// operator made after setName("fc1.grad", "fc1") carries graph.name = "fc1.grad" (then
// "fc1.grad.1", ...: names stay unique in the function; reshapes and broadcasts are called
// "fc1.grad.reshape", ...) and graph.grad_of = "fc1".
//
//   OpWriter b(func);
//   b.setName("loss");
//   Value mean = b.mul(b.reduceSum(x, {0}, /*keepdims=*/false), b.constant(f32, 1.0 / 16));
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_GRAPH_OPWRITER_H
#define TESSERA_DIALECTS_GRAPH_OPWRITER_H

#include "dialects/dist/Mesh.h"
#include "dialects/graph/GraphOrigin.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"

#include <map>

namespace tessera::graph {

class OpWriter {
public:
  /// Builds before the terminator of the function's only block.
  explicit OpWriter(mlir::func::FuncOp func);

  /// Sets graph.name, and graph.grad_of unless empty, of the operators made from now on.
  void setName(const llvm::Twine &name, llvm::StringRef gradOf = "");
  /// Sets graph.name of the operators made from now on, which compute the parameter's new value.
  void setUpdateName(const llvm::Twine &name, llvm::StringRef parameter);
  /// The operators made from now on, up to the next setName, carry the origin of `op` (GraphOrigin.h).
  void setOrigin(mlir::Operation *op);
  void setLoc(mlir::Location loc) { loc_ = loc; }
  /// Builds before `op` from now on. `op` must not stand before the operators built so far, since later operators share
  /// their constants.
  void moveBefore(mlir::Operation *op);
  /// Removes the operator's graph.name, so that another operator can get it, and returns nameOf(op).
  std::string takeName(mlir::Operation *op);

  /// Creates an operator, names it and returns it.
  template <typename OpT, typename... Args> OpT make(Args &&...args) {
    OpT op = OpT::create(builder_, loc_, std::forward<Args>(args)...);
    label(op);
    return op;
  }
  /// Inserts a detached operator (a clone) and names it.
  mlir::Operation *insert(mlir::Operation *op);

  /// A splat constant. `type` is a tensor type, or an element type for a scalar.
  mlir::Value constant(mlir::Type type, double value);
  /// An i64 constant of rank 0.
  mlir::Value integer(int64_t value);

  mlir::Value neg(mlir::Value x);
  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value sub(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, mlir::Value b);
  mlir::Value div(mlir::Value a, mlir::Value b);
  mlir::Value add(mlir::Value a, double b) { return add(a, like(a, b)); }
  mlir::Value sub(mlir::Value a, double b) { return sub(a, like(a, b)); }
  mlir::Value sub(double a, mlir::Value b) { return sub(like(b, a), b); }
  mlir::Value mul(mlir::Value a, double b) { return mul(a, like(a, b)); }
  mlir::Value div(mlir::Value a, double b) { return div(a, like(a, b)); }
  template <typename OpT> mlir::Value unary(mlir::Value x) { return make<OpT>(x); }
  template <typename OpT> mlir::Value binary(mlir::Value a, mlir::Value b) { return make<OpT>(a, b); }
  mlir::Value select(mlir::Value cond, mlir::Value a, mlir::Value b);
  mlir::Value cast(mlir::Value x, mlir::Type elementType);
  mlir::Value reshape(mlir::Value x, llvm::ArrayRef<int64_t> shape);
  mlir::Value broadcast(mlir::Value x, llvm::ArrayRef<int64_t> shape);
  mlir::Value transpose(mlir::Value x, llvm::ArrayRef<int64_t> perm);
  mlir::Value reduceSum(mlir::Value x, llvm::ArrayRef<int64_t> dims, bool keepdims);
  /// Sum over every dimension: rank 0.
  mlir::Value sumAll(mlir::Value x);
  /// Reshapes a vector [n] to `rank` dimensions, of which `dim` has the extent n and the others 1.
  mlir::Value alongDim(mlir::Value vector, int64_t dim, int64_t rank);
  /// The adjoint of a broadcast from `shape` to x's shape: the sum over the repeated dimensions.
  mlir::Value unbroadcast(mlir::Value x, llvm::ArrayRef<int64_t> shape);

private:
  void label(mlir::Operation *op);
  // Names an operator that only moves values with a suffix, so that the operator that computes gets the plain name.
  mlir::Value helper(mlir::Operation *op, llvm::StringRef suffix);
  mlir::Value like(mlir::Value v, double value);

  mlir::OpBuilder builder_;
  mlir::Location loc_;
  std::string name_;
  mlir::NamedAttrList origin_;
  llvm::StringSet<> used_;
  llvm::StringMap<int> next_;
  llvm::MapVector<std::pair<mlir::Type, uint64_t>, mlir::Value> constants_;
};

/// Shape and element type of a ranked tensor value.
llvm::ArrayRef<int64_t> shapeOf(mlir::Value v);
mlir::Type elementTypeOf(mlir::Value v);
inline int64_t rankOf(mlir::Value v) { return int64_t(shapeOf(v).size()); }
bool isFloat(mlir::Value v);
/// The value of a floating-point splat constant.
std::optional<double> splatOf(mlir::Value v);

/// The sum of a value over the ranks along the axes (dist.collective).
mlir::Value sumOverRanks(OpWriter &builder, const dist::Mesh &mesh, const dist::AxisList &axes, mlir::Value value);

} // namespace tessera::graph

#endif
