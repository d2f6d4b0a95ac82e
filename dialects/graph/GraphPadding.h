//===- GraphPadding.h - overwriting the padding of a block ---------------------------------------===//
//
// A rank's own elements come first in its block (dialects/dist/Sharding.h); what lies behind them is padding.
// A mask says per row of a dimension whether it is the rank's own:
//
//   3 rows of a block of 4:  counter = iota from -3 = [-3 -2 -1 0],  mask = counter < 0 = [1 1 1 0]
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_GRAPH_GRAPHPADDING_H
#define TESSERA_DIALECTS_GRAPH_GRAPHPADDING_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/Operation.h"

namespace tessera::graph {

/// The mask along `dim` for a tensor of `rank` dimensions whose blocks have `rows` rows in that dimension, of the shape
/// [1, .., rows, .., 1]. Rank r of the mesh holds held[r] rows of its own. The operator whose attributes depend on it
/// carries dist::kPerRankAttr.
mlir::Value makeRowMask(mlir::OpBuilder &builder, mlir::Location loc, int64_t rank, int64_t dim, int64_t rows,
                        llvm::ArrayRef<int64_t> held);

/// x where the mask is true, `value` elsewhere. The mask is broadcast.
mlir::Value keepRows(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value mask, mlir::Value x, double value);

} // namespace tessera::graph

#endif
