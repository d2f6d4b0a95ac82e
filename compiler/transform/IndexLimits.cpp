//===- IndexLimits.cpp - which values a program's inputs may hold ------------------------------------===//
//
// A token outside the vocabulary gives a row of zeros, and training fails without an error. If the values of an input
// are indices into a table, the table's size is a limit for these values:
//
//   %ids of an embedding [50257, 768]  ->  %ids {graph.id_limit = 50257 : i64}
//
// The pass follows an input through every operator that hands its elements on unchanged (handsOn), to every operator
// that uses them as indices (indexedBy). The limit is the size of the smallest of these tables.
//
//===----------------------------------------------------------------------------------------------===//
#include "compiler/transform/Passes.h"

#include "dialects/dist/DistDialect.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphAttributes.h"
#include "dialects/graph/GraphKinds.h"

#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace tessera::graph;

namespace tessera::compiler {

#define GEN_PASS_DEF_INDEXLIMITSPASS
#include "compiler/transform/Passes.h.inc"

namespace {

struct IndexLimits : impl::IndexLimitsPassBase<IndexLimits> {
  void runOnOperation() override {
    func::FuncOp func = getOperation();
    for (unsigned i = 0; i < func.getNumArguments(); ++i)
      if (argRole(func, i) == kInput || argRole(func, i) == kTarget)
        if (int64_t limit = limitOf(func, func.getArgument(i)))
          func.setArgAttr(i, kIdLimitAttr, Builder(func).getI64IntegerAttr(limit));
  }

  /// The limit of the input's values; 0: there is none.
  static int64_t limitOf(func::FuncOp func, Value input) {
    int64_t limit = 0;
    SmallVector<Value> left{input};
    DenseSet<Value> seen{input};
    while (!left.empty())
      for (OpOperand &use : left.pop_back_val().getUses()) {
        if (auto indexed = indexedBy(use)) {
          int64_t entries = extent(func, *indexed);
          limit = limit == 0 ? entries : std::min(limit, entries);
        }
        if (handsOn(use))
          for (Value result : use.getOwner()->getResults())
            if (seen.insert(result).second)
              left.push_back(result);
      }
    return limit;
  }

  /// The number of entries of the global table. In mode hybrid a rank may hold only a part of it.
  static int64_t extent(func::FuncOp func, const IndexedDim &indexed) {
    if (auto argument = dyn_cast<BlockArgument>(indexed.table))
      if (auto whole = func.getArgAttrOfType<DenseI64ArrayAttr>(argument.getArgNumber(), dist::kGlobalShapeAttr))
        return whole[indexed.dim];
    return cast<RankedTensorType>(indexed.table.getType()).getDimSize(indexed.dim);
  }
};

} // namespace

} // namespace tessera::compiler
