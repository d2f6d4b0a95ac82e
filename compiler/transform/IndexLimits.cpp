//===- IndexLimits.cpp - which values a program's inputs may hold ------------------------------------===//
//
// A token outside the vocabulary gives a row of zeros, and a run that learns nothing does not say why. What a program
// takes from a table by the values of an input bounds these values:
//
//   %ids of an embedding [50257, 768]  ->  %ids {graph.id_limit = 50257 : i64}
//
// The pass follows an input through every operator that hands its elements on as they are (handsOn), to every operator
// for which they are positions (indexedBy). Of several tables the smallest counts.
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

  /// 0: nothing is known.
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

  /// Of the whole table: a program that is one rank's from the start may hold a part of it.
  static int64_t extent(func::FuncOp func, const IndexedDim &indexed) {
    if (auto argument = dyn_cast<BlockArgument>(indexed.table))
      if (auto whole = func.getArgAttrOfType<DenseI64ArrayAttr>(argument.getArgNumber(), dist::kGlobalShapeAttr))
        return whole[indexed.dim];
    return cast<RankedTensorType>(indexed.table.getType()).getDimSize(indexed.dim);
  }
};

} // namespace

} // namespace tessera::compiler
