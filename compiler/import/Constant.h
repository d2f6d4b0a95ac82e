//===- Constant.h - tensor values known at import ---------------------------------------------===//
//
// Every value that depends on no input and no weight is computed at import. So the shape arithmetic of a model file
// (Shape, Gather, Concat, Reshape, ... on small integer tensors) leaves no operators.
//
// A constant has an element type of the graph dialect, a shape, and elements in row-major order. If all elements are
// equal it stores only one (a splat). Integers and booleans are stored as int64_t, floating point numbers as double.
// Every operation rounds its result to the element type. So folding + - * / and sqrt gives the same bits as a kernel.
// A splat of F32 that is made of a double also keeps the double, for runs in float64.
//
//   Constant shape = Constant::ints(DType::I64, {4}, {16, 8, 4, 4});
//   foldGather(shape, Constant::scalar(DType::I64, 0), 0)      // the scalar 16
//
// The operations are those of dialects/graph/GraphOps.td. The caller (GraphBuilder) has checked the operands. A folder
// returns nullopt if it has no rule for the operation, or for a division by zero.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_IMPORT_CONSTANT_H
#define TESSERA_COMPILER_IMPORT_CONSTANT_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tessera::compiler {

using Shape = llvm::SmallVector<int64_t>;

/// Element types that the graph dialect has.
enum class DType { F32, F64, F16, BF16, I64, I32, I8, UI8, I1 };

bool isFloat(DType type);
unsigned byteSize(DType type); // i1 takes one byte in files
llvm::StringRef dtypeName(DType type);
/// The type for an MLIR element type. nullopt: the graph dialect does not have it.
std::optional<DType> dtypeOf(mlir::Type elementType);
mlir::Type elementType(mlir::MLIRContext *context, DType type);

/// Product of the extents; nullopt if it exceeds 2^40 or an extent is negative.
std::optional<int64_t> elementCount(llvm::ArrayRef<int64_t> shape);
std::string shapeText(llvm::ArrayRef<int64_t> shape); // "2x3x4", "scalar"

class Constant {
public:
  static Constant ints(DType type, Shape shape, std::vector<int64_t> elements);
  static Constant floats(DType type, Shape shape, std::vector<double> elements);
  /// `value` is rounded to the type (truncated for integers).
  static Constant splat(DType type, Shape shape, double value);
  static Constant splatInt(DType type, Shape shape, int64_t value);
  static Constant scalar(DType type, int64_t value) { return splatInt(type, {}, value); }
  /// Reads little-endian bytes, as a file has them. The caller has checked their number.
  static Constant fromBytes(DType type, Shape shape, llvm::ArrayRef<char> bytes);

  DType type() const { return type_; }
  const Shape &shape() const { return shape_; }
  int64_t size() const { return size_; }
  bool isSplat() const { return splat_; }
  /// The number of stored elements: 1 for a splat.
  int64_t stored() const { return splat_ ? 1 : size_; }

  int64_t intAt(int64_t i) const; // truncates a floating point element
  double floatAt(int64_t i) const;
  std::vector<int64_t> asInts() const;

  std::vector<char> toBytes() const;
  mlir::DenseElementsAttr toAttr(mlir::MLIRContext *context) const;
  /// The number that a splat of F32 was rounded from (graph.constant's `exact`). Null: rounding changed nothing.
  mlir::FloatAttr exactAttr(mlir::MLIRContext *context) const;

  /// The same elements under another shape of as many elements.
  Constant withShape(Shape shape) const;
  /// Element i of the result is element index(i) of this one.
  template <typename Fn> Constant remap(Shape shape, Fn index) const;

private:
  Constant(DType type, Shape shape);
  void canonicalize(); // all elements equal: keep one

  DType type_;
  Shape shape_;
  int64_t size_;
  bool splat_ = false;
  std::vector<int64_t> ints_;
  std::vector<double> floats_;
  std::optional<double> exact_; // splats of F32: the number that was rounded
};

/// Rounds to the precision of a floating point type.
double roundTo(DType type, double value);

// Folders. `op` is the mnemonic in the graph dialect ("graph.add").
std::optional<Constant> foldUnary(llvm::StringRef op, const Constant &x);
std::optional<Constant> foldBinary(llvm::StringRef op, const Constant &a, const Constant &b);
Constant foldSelect(const Constant &cond, const Constant &a, const Constant &b);
std::optional<Constant> foldCast(const Constant &x, DType type);
Constant foldBroadcast(const Constant &x, llvm::ArrayRef<int64_t> shape);
Constant foldTranspose(const Constant &x, llvm::ArrayRef<int64_t> perm);
Constant foldSlice(const Constant &x, llvm::ArrayRef<int64_t> starts, llvm::ArrayRef<int64_t> strides, Shape shape);
Constant foldPad(const Constant &x, llvm::ArrayRef<int64_t> lo, double value, Shape shape);
Constant foldConcat(llvm::ArrayRef<const Constant *> xs, int64_t dim, Shape shape);
Constant foldGather(const Constant &table, const Constant &indices, int64_t axis);
std::optional<Constant> foldReduce(llvm::StringRef op, const Constant &x, llvm::ArrayRef<int64_t> dims, Shape shape);
Constant foldIota(DType type, Shape shape, int64_t dim);

} // namespace tessera::compiler

#endif
