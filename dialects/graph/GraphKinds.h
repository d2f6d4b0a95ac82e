//===- GraphKinds.h - what passes may know about an operator besides its rule --------------------===//
//
// Fusion, memory planning and emission need a few facts about an operator's structure. They get them from these
// functions, so that no pass names an operator. (isElementwise is in Graph.h; constants have the trait
// mlir::OpTrait::ConstantLike.)
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_GRAPH_GRAPHKINDS_H
#define TESSERA_DIALECTS_GRAPH_GRAPHKINDS_H

#include "dialects/dist/Sharding.h"
#include "dialects/dist/wire/Wire.h"

#include "mlir/IR/Operation.h"

#include <optional>

namespace tessera::graph {

/// The result is the operand's bytes under another shape, or a part of them: it needs no step and no memory of its own.
bool isView(mlir::Operation *op);

/// A strategy may hand the result on in another sharding than the operand's, as a copy for all its readers
/// (kKeepsCopyAttr).
bool mayKeepCopy(mlir::Operation *op);

/// In what the terms are sent of which the value is the sum: what its only reader says (kSentAsAttr).
dist::Wire sentAs(mlir::Value value);

/// The result repeats the operand along some dimensions, aligned as NumPy broadcasts; nothing is computed.
bool isStretch(mlir::Operation *op);

/// The result is the operand combined along `dims` and nothing else (kept as 1 or dropped). With leaves each of
/// `leaves` equal ranges of dimension `leafDim`, one of `dims`, is combined for itself.
struct PlainReduction {
  dist::Reduction reduction;
  llvm::SmallVector<int64_t> dims;
  int64_t leafDim = -1, leaves = 1;
};
std::optional<PlainReduction> plainReduction(mlir::Operation *op);

/// The kernel is a loop, as that of graph.fused.
bool isLoop(mlir::Operation *op);

/// The result has the operand's values in a wider floating-point type, or rounded to a narrower one.
bool isWidening(mlir::Operation *op);
bool isNarrowing(mlir::Operation *op);

/// At each point the result is an operand's number, or that with another sign. So it is the same whether operands are
/// rounded to fewer digits or the result is.
bool roundsAlike(mlir::Operation *op);

/// The number of micro-batches, if the operator takes the rows of one of them, adds up over all of them, or shows each
/// of them a value anew (kAnewAttr). A loop adds up if an operator in it does.
std::optional<int64_t> microBatches(mlir::Operation *op);
/// The result is the sum of the operand over all micro-batches.
bool isAccumulation(mlir::Operation *op);
/// The result is such a sum, of the operator or of one in its region. It is there when the last micro-batch is done.
bool isAccumulated(mlir::Value result);

/// The kernel that computes the operator. It has the operator's name, but what adds up over micro-batches is an
/// addition to the sum so far.
llvm::StringRef kernelOf(mlir::Operation *op);

/// Kernels of one operator may compute at different rates by their shapes. The kind of such a kernel on these local
/// shapes: "large 3x3" for convolutions that suit Winograd's algorithm in float32, else empty.
llvm::StringRef rateKind(mlir::Operation *op, llvm::ArrayRef<dist::Shape> operands,
                         llvm::ArrayRef<dist::Shape> results);

/// An attribute of the operator, or of an operator in its region, is infinite. So its results may be infinite although
/// its operands are finite.
bool holdsInfinity(mlir::Operation *op);

/// The operand's elements are indices into dimension `dim` of `table`, another operand.
struct IndexedDim {
  mlir::Value table;
  int64_t dim;
};
std::optional<IndexedDim> indexedBy(mlir::OpOperand &indices);

/// The results hold the operand's elements unchanged: moved, repeated, partly left out, or in a wider integer type. It
/// also holds for the select that wraps negative indices (kWrapsIndicesAttr).
bool handsOn(mlir::OpOperand &operand);

/// How an operator computes in a program of mixed precision.
enum class Precision {
  Wide,       // computes in float32
  Products,   // takes 16-bit operands and sums in float32; its result is float32 if its attribute kWide is set
  Follows,    // computes in 16 bits if its operands have 16 bits
  Normalizes, // computes in float32; operands and results of the first result's shape are held in 16 bits
};
Precision precisionOf(mlir::Operation *op);
/// Whether an operator that sums products multiplies the operand. What it only adds stays in float32, such as a mask
/// with numbers that 16 bits do not hold. Nor does what dropout keeps count in attention's gradient: it is in memory
/// from attention on, in a byte each.
bool isFactor(mlir::OpOperand &operand);
/// The results of such an operator that are sums of products. Others, as statistics of rows, are float32 whatever kWide
/// says.
mlir::ResultRange sumsOf(mlir::Operation *op);
inline constexpr llvm::StringLiteral kWide = "wide";

} // namespace tessera::graph

#endif
