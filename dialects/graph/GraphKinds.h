//===- GraphKinds.h - what passes may know about an operator besides its rule --------------------===//
//
// Fusion, memory planning and emission need a few structural facts. They ask here, so that no pass names an
// operator. (Elementwise operators: isElementwise in Graph.h; constants: mlir::OpTrait::ConstantLike.)
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_GRAPH_GRAPHKINDS_H
#define TESSERA_DIALECTS_GRAPH_GRAPHKINDS_H

#include "dialects/dist/Sharding.h"

#include "mlir/IR/Operation.h"

#include <optional>

namespace tessera::graph {

/// The result is the operand's bytes under another shape: it needs no step and no memory of its own.
bool isView(mlir::Operation *op);

/// The result repeats the operand along some dimensions, aligned as NumPy broadcasts; nothing is computed.
bool isStretch(mlir::Operation *op);

/// The result is the operand combined along `dims` and nothing else (kept as 1 or dropped).
struct PlainReduction {
  dist::Reduction reduction;
  llvm::SmallVector<int64_t> dims;
};
std::optional<PlainReduction> plainReduction(mlir::Operation *op);

/// The result is the operand in a wider floating-point type: the same numbers in more bytes.
bool isWidening(mlir::Operation *op);

/// One of the operator's attributes, or of those inside it, is infinite: its results may be, of finite operands.
bool holdsInfinity(mlir::Operation *op);

/// The operand's elements are positions along a dimension of another operand.
struct IndexedDim {
  mlir::Value table;
  int64_t dim;
};
std::optional<IndexedDim> indexedBy(mlir::OpOperand &indices);

/// The results hold elements of the operand as they are: moved, repeated, left out or in a wider integer type; or
/// indices that no longer count from the end (kWrapsIndicesAttr).
bool handsOn(mlir::OpOperand &operand);

/// What an operator makes of 16-bit floating-point numbers where a program may use them.
enum class Precision {
  Wide,       // computes in float32
  Products,   // takes 16-bit operands, sums in float32 and hands that on if its attribute kWide is set
  Follows,    // computes in 16 bits where its operands are
  Normalizes, // computes in float32; operands and results of the first result's shape are held in 16 bits
};
Precision precisionOf(mlir::Operation *op);
inline constexpr llvm::StringLiteral kWide = "wide";

} // namespace tessera::graph

#endif
