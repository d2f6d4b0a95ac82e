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
// Where such a conversion is only added to 16-bit numbers from memory, and memory would hold that rounded, the addition
// is what is rounded, once, and the sum keeps its digits until then. A backend can make such a product add to what it
// finds.
//
//   %y = cast %s              bfloat16      %w = cast %z               float32
//   %a = add %y, %z           bfloat16  ->  %t = add %s, %w            float32
//                                           %a = cast %t {graph.rounds}
//
// The loops are those of the whole program. On a mesh loops may be others, and ranks may have to add their sums before
// the conversion, but it rounds there, too.
//
//===----------------------------------------------------------------------------------------------===//
#include "compiler/transform/Passes.h"

#include "dialects/graph/GraphAttributes.h"
#include "dialects/graph/GraphKinds.h"
#include "dialects/graph/OpWriter.h"
#include "dialects/graph/flow/Fusion.h"

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
  explicit ProductRounding(func::FuncOp func)
      : func_(func), program_(func), looped_(program_.flow, formLoops(program_.flow)) {}

  void run() const {
    std::vector<Operation *> additions; // in the order of the program
    for (Operation *op : program_.operators)
      if (isStoredNarrow(op)) {
        for (Operation *conversion : sumsOf(op).getUsers())
          conversion->setAttr(kRoundsAttr, UnitAttr::get(op->getContext()));
      } else if (isNarrowAddition(op)) {
        additions.push_back(op);
      }
    OpWriter writer(func_);
    for (Operation *addition : additions)
      addWide(addition, writer);
  }

private:
  /// Whether `value` is the conversion of a product's sum that keeps its digits, and neither has another reader.
  static bool isOnlyConverted(Value value) {
    Operation *conversion = value.getDefiningOp();
    if (!conversion || !isNarrowing(conversion) || conversion->hasAttr(kRoundsAttr) || !value.hasOneUse())
      return false;
    const Value sum = conversion->getOperand(0);
    Operation *product = sum.getDefiningOp();
    return product && product->hasAttr(kWide) && sum.hasOneUse() &&
           getElementTypeOrSelf(product->getOperand(0)) == getElementTypeOrSelf(value);
  }

  bool isNarrowAddition(Operation *op) const {
    auto addition = llvm::dyn_cast<AddOp>(op);
    if (!addition || !isStored(addition.getResult()))
      return false;
    auto adds = [&](Value sum, Value other) {
      return isOnlyConverted(sum) && sum.getType() == other.getType() && isInMemory(other);
    };
    const Value a = op->getOperand(0), b = op->getOperand(1);
    return adds(a, b) || adds(b, a);
  }

  static void addWide(Operation *addition, OpWriter &writer) {
    const std::string name = nameOf(addition);
    writer.moveBefore(addition);
    writer.setLoc(addition->getLoc());
    // The name begins with "NAME/", so that a user's strategies for NAME apply to the conversions, too.
    auto beginName = [&](const std::string &as) {
      writer.setName(as);
      writer.setOrigin(addition);
    };
    Value operands[2];
    for (unsigned i : {0, 1}) {
      const Value v = addition->getOperand(i);
      Operation *conversion = isOnlyConverted(v) ? v.getDefiningOp() : nullptr;
      beginName(name + "/cast");
      operands[i] = conversion ? conversion->getOperand(0) : writer.cast(v, Float32Type::get(v.getContext()));
    }
    beginName(writer.takeName(addition));
    const Value wide = writer.add(operands[0], operands[1]);
    beginName(name + "/cast");
    const Value narrow = writer.cast(wide, getElementTypeOrSelf(addition->getResult(0)));
    narrow.getDefiningOp()->setAttr(kRoundsAttr, UnitAttr::get(addition->getContext()));
    const SmallVector<Value> old(addition->getOperands());
    addition->getResult(0).replaceAllUsesWith(narrow);
    addition->erase();
    for (Value v : old)
      if (v.use_empty() && v.getDefiningOp() && isNarrowing(v.getDefiningOp()))
        v.getDefiningOp()->erase();
  }

  bool isStoredNarrow(Operation *op) const {
    if (!op->hasAttr(kWide) || sumsOf(op).use_empty())
      return false;
    const Type narrow = getElementTypeOrSelf(op->getOperand(0));
    return llvm::all_of(sumsOf(op).getUsers(), [&](Operation *reader) {
      return isNarrowing(reader) && getElementTypeOrSelf(reader->getResult(0)) == narrow &&
             isStored(reader->getResult(0));
    });
  }

  bool isInMemory(Value value) const { return looped_.inMemory[size_t(program_.index.lookup(value))]; }

  /// Whether memory holds the value, or what rounding it first does not change.
  bool isStored(Value value) const {
    return isInMemory(value) || llvm::any_of(value.getUsers(), [&](Operation *reader) {
             return roundsAlike(reader) && reader->getResult(0).getType() == value.getType() &&
                    isStored(reader->getResult(0));
           });
  }

  const func::FuncOp func_;
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
