//===- RoundProducts.cpp - which sums of products are rounded before a loop reads them -----------------===//
//
//   %s = conv %x, %w {wide}   float32             %y = cast %s {graph.rounds}
//   %y = cast %s              bfloat16, stored ->
//
// A value stays in float32 inside of a loop (docs/adr/0008-mixed-precision.md). So a sum that a loop only converts on
// its way stays as it is. What is rounded here is what memory would hold rounded in any case: the conversion, or what
// follows from it through operators that rounding may pass (graph::roundsAlike). Where nothing but such conversions
// reads a sum, the product then stores 16 bits (graph-narrow-products).
//
// The loops are those of the whole program. On a mesh loops may be others, and ranks may have to add their sums before
// the conversion, but it rounds there, too.
//
//===----------------------------------------------------------------------------------------------===//
#include "compiler/transform/Passes.h"

#include "dialects/graph/Fusion.h"
#include "dialects/graph/GraphAttributes.h"
#include "dialects/graph/GraphKinds.h"

#include "mlir/IR/TypeUtilities.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace tessera::graph;

namespace tessera::compiler {

#define GEN_PASS_DEF_ROUNDPRODUCTSPASS
#include "compiler/transform/Passes.h.inc"

namespace {

class ProductRounding {
public:
  explicit ProductRounding(func::FuncOp func) : program_(func), looped_(program_.flow, formLoops(program_.flow)) {}

  void run() const {
    for (Operation *op : program_.operators)
      if (isStoredNarrow(op))
        for (Operation *conversion : op->getUsers())
          conversion->setAttr(kRoundsAttr, UnitAttr::get(op->getContext()));
  }

private:
  bool isStoredNarrow(Operation *op) const {
    if (!op->hasAttr(kWide) || op->use_empty())
      return false;
    const Type narrow = getElementTypeOrSelf(op->getOperand(0));
    return llvm::all_of(op->getUsers(), [&](Operation *reader) {
      return isNarrowing(reader) && getElementTypeOrSelf(reader->getResult(0)) == narrow &&
             isStored(reader->getResult(0));
    });
  }

  /// Whether memory holds the value, or what rounding it first does not change.
  bool isStored(Value value) const {
    return looped_.inMemory[size_t(program_.index.lookup(value))] ||
           llvm::any_of(value.getUsers(), [&](Operation *reader) {
             return roundsAlike(reader) && reader->getResult(0).getType() == value.getType() &&
                    isStored(reader->getResult(0));
           });
  }

  const FunctionFlow program_;
  const LoopedFlow looped_;
};

struct RoundProducts : impl::RoundProductsPassBase<RoundProducts> {
  void runOnOperation() override {
    if (!getOperation().isExternal())
      ProductRounding(getOperation()).run();
  }
};

} // namespace

} // namespace tessera::compiler
