//===- NarrowProducts.cpp - products that store in 16 bits what is rounded before it is read -----------===//
//
//   %s = conv %x, %w {wide}         float32         %y = conv %x, %w     bfloat16
//   %y = cast %s {graph.rounds}     bfloat16   ->
//
// Where ranks add their sums before the conversion, a collective reads the sum, and the product stays as it is.
//
//===----------------------------------------------------------------------------------------------===//
#include "compiler/partition/Passes.h"

#include "dialects/dist/DistDialect.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphAttributes.h"
#include "dialects/graph/GraphKinds.h"

#include "mlir/IR/TypeUtilities.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;
using namespace mlir;

namespace tessera::compiler {

#define GEN_PASS_DEF_NARROWPRODUCTSPASS
#include "compiler/partition/Passes.h.inc"

namespace {

Type narrowElement(Operation *product) { return getElementTypeOrSelf(product->getOperand(0)); }

bool isReadNarrow(Operation &op) {
  if (!op.hasAttr(graph::kWide))
    return false;
  ResultRange sums = graph::sumsOf(&op);
  return !sums.use_empty() && all_of(sums.getUsers(), [&](Operation *reader) {
    return reader->hasAttr(graph::kRoundsAttr) && getElementTypeOrSelf(reader->getResult(0)) == narrowElement(&op);
  });
}

void narrow(Operation *product) {
  product->removeAttr(graph::kWide);
  for (Value sum : graph::sumsOf(product)) {
    const SmallVector<Operation *> conversions(sum.getUsers());
    sum.setType(cast<RankedTensorType>(sum.getType()).clone(narrowElement(product)));
    for (Operation *conversion : conversions) {
      conversion->getResult(0).replaceAllUsesWith(sum);
      conversion->erase();
    }
  }
}

struct NarrowProductsPass : impl::NarrowProductsPassBase<NarrowProductsPass> {
  void runOnOperation() override {
    for (func::FuncOp func : getOperation().getOps<func::FuncOp>()) {
      SmallVector<Operation *> products;
      for (Operation &op : func.getBody().getOps())
        if (isReadNarrow(op))
          products.push_back(&op);
      for_each(products, narrow);
    }
  }
};

} // namespace

} // namespace tessera::compiler
