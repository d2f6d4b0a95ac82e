//===- Passes.cpp --------------------------------------------------------------------------------===//
#include "compiler/autodiff/Passes.h"

#include "compiler/autodiff/Gradient.h"

using namespace mlir;
using namespace tessera::graph;

namespace tessera::compiler {

#define GEN_PASS_DEF_GRADIENTPASS
#include "compiler/autodiff/Passes.h.inc"

namespace {

struct GradientPass : impl::GradientPassBase<GradientPass> {
  using Base::Base;

  void runOnOperation() override {
    auto func = getOperation().lookupSymbol<func::FuncOp>(function);
    if (!func || !func.getBody().hasOneBlock() || func.getNumResults() == 0) {
      getOperation().emitError("graph-gradient: no function @") << function << " of one block with a result";
      return signalPassFailure();
    }
    Operation *terminator = func.getBody().front().getTerminator();
    Value loss = terminator->getOperand(0);
    auto type = dyn_cast<RankedTensorType>(loss.getType());
    if (!type || type.getRank() != 0 || !isa<FloatType>(type.getElementType())) {
      func.emitError("graph-gradient: the first result must be a floating-point tensor of rank 0");
      return signalPassFailure();
    }
    SmallVector<Value> arguments;
    if (wrt.empty()) {
      for (Value v : func.getArguments())
        if (isFloat(v))
          arguments.push_back(v);
    } else {
      for (unsigned i : wrt) {
        if (i >= func.getNumArguments()) {
          func.emitError("graph-gradient: there is no argument ") << i;
          return signalPassFailure();
        }
        arguments.push_back(func.getArgument(i));
      }
    }
    OpWriter b(func);
    auto gradients = differentiate(b, Seed{loss, b.constant(type, 1.0)}, arguments);
    if (!gradients) {
      func.emitError(llvm::toString(gradients.takeError()));
      return signalPassFailure();
    }
    SmallVector<Value> results(terminator->getOperands());
    SmallVector<Type> types(func.getResultTypes());
    b.setName("");
    for (auto [argument, gradient] : llvm::zip(arguments, *gradients)) {
      if (!gradient)
        gradient = b.constant(argument.getType(), 0.0);
      results.push_back(gradient);
      types.push_back(gradient.getType());
    }
    terminator->setOperands(results);
    func.setFunctionType(FunctionType::get(&getContext(), func.getArgumentTypes(), types));
  }
};

} // namespace

} // namespace tessera::compiler
