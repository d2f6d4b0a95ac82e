//===- GraphBuilder.h - graph operators that fold, with one error -----------------------------===//
//
// The builders of ONNX nodes work on `Val`: a value that is either known at import (a Constant) or computed by the
// program (an mlir::Value). An operation on known values is evaluated instead of built, so shape arithmetic folds away.
// A known value becomes a graph.constant only when an operator reads it.
//
// The first error is kept. `fail` returns a null Val, and every operation on a null Val returns a null Val. So a node's
// builder needs no checks; the importer checks once after each node. The shape of a null Val is empty, so a builder
// that indexes the shape of an intermediate result must test for null.
//
//   Val y = b.add(b.mul(x, b.scalarLike(x, 0.5), "half"), bias);   // names: NODE/half, NODE
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_IMPORT_GRAPHBUILDER_H
#define TESSERA_COMPILER_IMPORT_GRAPHBUILDER_H

#include "compiler/import/Constant.h"
#include "dialects/dist/Reshard.h"
#include "dialects/graph/Graph.h"

#include <map>
#include <memory>
#include <set>

namespace tessera::compiler {

struct Val {
  DType type = DType::F32;
  Shape shape;
  mlir::Value value;                                // computed
  std::shared_ptr<const Constant> known;            // or known
  std::string origin;                               // of a known value: its name in the model
  std::shared_ptr<const std::vector<Val>> sequence; // or a list of values, which only Sequence operators take

  explicit operator bool() const { return value || known || sequence; }
  int64_t rank() const { return int64_t(shape.size()); }
  int64_t size() const { return elementCount(shape).value_or(0); }
};

class GraphBuilder {
public:
  /// The most elements of a value that folding reads or makes.
  static constexpr int64_t kMaxFolded = 1 << 20;
  /// The most elements of a dense graph.constant. Of the larger known values, a causal mask is computed from indices;
  /// any other becomes a state whose value is among the weights.
  static constexpr int64_t kMaxDense = 1 << 16;
  /// The most elements that folding computes for one model. It bounds time and memory on hostile files.
  static constexpr int64_t kFoldBudget = int64_t(1) << 28;

  /// Appends to `block`. `bigConstant` makes an argument for a dense constant above kMaxDense.
  GraphBuilder(mlir::Block *block, std::function<mlir::Value(const Val &)> bigConstant);

  mlir::MLIRContext *context() const { return builder_.getContext(); }

  // Errors.
  Val fail(const llvm::Twine &message);
  bool failed() const { return failed_; }
  /// Replaces the error by one that says more precisely what failed.
  void rephrase(std::string message) { error_ = std::move(message); }
  const std::string &error() const { return error_; }

  /// Operators built from now on are called `node` + "/" + suffix; `node` alone for an empty
  /// suffix. A name that was given before gets "_2", "_3", ...
  void setNode(llvm::StringRef node);
  const std::string &node() const { return node_; }

  // Values.
  Val wrap(mlir::Value value) const;
  Val known(Constant constant, llvm::StringRef origin = "") const;
  Val knownInts(llvm::ArrayRef<int64_t> values) const; // 1-D, i64
  /// Whether this many result elements may be folded. It subtracts them from the budget. Builders that compute known
  /// values themselves must call it, too.
  bool mayFold(int64_t elements);
  Val scalar(DType type, double value) const { return known(Constant::splat(type, {}, value)); }
  /// A tensor without elements. It is always known, since there is nothing to compute.
  Val empty(DType type, Shape shape) const { return known(Constant::ints(type, std::move(shape), {})); }
  /// A scalar of x's element type.
  Val scalarLike(const Val &x, double value) const { return scalar(x.type, value); }
  mlir::Value materialize(const Val &x);

  // Operators. The suffix is the last parameter.
  template <typename OpTy> Val unary(const Val &x, llvm::StringRef suffix = "") {
    return unaryOp(OpTy::getOperationName(), x, suffix);
  }
  template <typename OpTy> Val binary(const Val &a, const Val &b, llvm::StringRef suffix = "") {
    return binaryOp(OpTy::getOperationName(), a, b, suffix);
  }
  Val add(const Val &a, const Val &b, llvm::StringRef suffix = "") { return binary<graph::AddOp>(a, b, suffix); }
  Val sub(const Val &a, const Val &b, llvm::StringRef suffix = "") { return binary<graph::SubOp>(a, b, suffix); }
  Val mul(const Val &a, const Val &b, llvm::StringRef suffix = "") { return binary<graph::MulOp>(a, b, suffix); }
  Val div(const Val &a, const Val &b, llvm::StringRef suffix = "") { return binary<graph::DivOp>(a, b, suffix); }
  /// x times a number; x itself if the number is 1.
  Val scale(const Val &x, double factor, llvm::StringRef suffix = "");
  Val select(const Val &cond, const Val &a, const Val &b, llvm::StringRef suffix = "");
  Val cast(const Val &x, DType type, llvm::StringRef suffix = "");
  Val iota(DType type, Shape shape, int64_t dim, llvm::StringRef suffix = "");
  Val random(mlir::Value step, DType type, Shape shape, uint64_t seed, int64_t stream, llvm::StringRef suffix = "");

  Val reshape(const Val &x, Shape shape, llvm::StringRef suffix = "");
  /// x, as a constant of training: no gradient reaches what it was made of.
  Val stopGradient(const Val &x, llvm::StringRef suffix = "");
  Val broadcast(const Val &x, Shape shape, llvm::StringRef suffix = "");
  Val transpose(const Val &x, llvm::ArrayRef<int64_t> perm, llvm::StringRef suffix = "");
  Val slice(const Val &x, Shape starts, Shape limits, Shape strides, llvm::StringRef suffix = "");
  Val pad(const Val &x, Shape lo, Shape hi, double value, llvm::StringRef suffix = "");
  Val concat(llvm::ArrayRef<Val> xs, int64_t dim, llvm::StringRef suffix = "");
  /// Known indices have been wrapped and are checked here.
  Val gather(const Val &table, const Val &indices, int64_t axis, llvm::StringRef suffix = "", int64_t batchDims = 0);
  Val scatterAdd(const Val &indices, const Val &updates, int64_t axis, int64_t size, llvm::StringRef suffix = "",
                 int64_t batchDims = 0);

  template <typename OpTy>
  Val reduce(const Val &x, llvm::ArrayRef<int64_t> dims, bool keepdims, llvm::StringRef suffix = "") {
    return reduceOp(OpTy::getOperationName(), x, dims, keepdims, suffix);
  }
  /// Sum times 1/N; the sum is called `suffix`, the product suffix + "scale".
  Val mean(const Val &x, llvm::ArrayRef<int64_t> dims, bool keepdims, llvm::StringRef suffix = "");
  Val matmul(const Val &a, const Val &b, bool transposeA = false, bool transposeB = false, llvm::StringRef suffix = "");

  /// Builds a collective on x (docs/hybrid.md). Its local shapes follow from x; the other fields of `collective` must
  /// be set. Fails if it cuts an extent that it does not divide.
  Val collective(const dist::Mesh &mesh, dist::Collective collective, const Val &x, llvm::StringRef suffix = "");
  /// x, marked with the number of a stage (dialects/graph/GivenStages.h).
  Val border(const Val &x, llvm::StringRef attribute, int64_t stage);
  /// An i64 scalar: numbers[r] on rank r.
  Val perRank(llvm::ArrayRef<int64_t> numbers, llvm::StringRef suffix = "");

  /// Any operator whose result types are inferred; attributes must be complete.
  template <typename OpTy>
  llvm::SmallVector<Val> create(llvm::ArrayRef<Val> operands, llvm::ArrayRef<mlir::NamedAttribute> attributes,
                                llvm::StringRef suffix = "") {
    return createInferred(OpTy::getOperationName(), operands, attributes, suffix);
  }
  mlir::NamedAttribute attr(llvm::StringRef name, int64_t value);
  mlir::NamedAttribute attr(llvm::StringRef name, llvm::ArrayRef<int64_t> values);
  mlir::NamedAttribute attrBool(llvm::StringRef name, bool value);
  mlir::NamedAttribute attrF64(llvm::StringRef name, double value);

private:
  Val unaryOp(llvm::StringRef op, const Val &x, llvm::StringRef suffix);
  Val binaryOp(llvm::StringRef op, const Val &a, const Val &b, llvm::StringRef suffix);
  Val reduceOp(llvm::StringRef op, const Val &x, llvm::ArrayRef<int64_t> dims, bool keepdims, llvm::StringRef suffix);
  llvm::SmallVector<Val> createInferred(llvm::StringRef op, llvm::ArrayRef<Val> operands,
                                        llvm::ArrayRef<mlir::NamedAttribute> attributes, llvm::StringRef suffix);
  Val createTyped(llvm::StringRef op, llvm::ArrayRef<Val> operands, llvm::ArrayRef<mlir::NamedAttribute> attributes,
                  DType type, Shape shape, llvm::StringRef suffix);
  std::string opName(llvm::StringRef suffix);
  mlir::RankedTensorType tensorType(DType type, llvm::ArrayRef<int64_t> shape) const;

  mutable mlir::OpBuilder builder_;
  /// A big known value that a diagonal divides into two numbers, as operators on its indices: they shard and take no
  /// memory. Null: it is no such value.
  mlir::Value computed(const Val &x);
  std::function<mlir::Value(const Val &)> bigConstant_;
  std::map<std::pair<const Constant *, Shape>, mlir::Value> dense_;
  std::vector<std::shared_ptr<const Constant>> keep_; // keys of dense_ stay alive
  std::string node_, error_;
  std::map<std::string, int> names_;
  int64_t budget_ = kFoldBudget;
  bool failed_ = false;
};

} // namespace tessera::compiler

#endif
