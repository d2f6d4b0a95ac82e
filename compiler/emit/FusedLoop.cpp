#include "compiler/emit/FusedLoop.h"

#include "dialects/graph/GraphKinds.h"

using namespace llvm;
using namespace mlir;

namespace tessera::compiler {

using dist::Shape;

static ArrayRef<int64_t> shapeOf(Value value) { return cast<RankedTensorType>(value.getType()).getShape(); }

Expected<FusedLoop> FusedLoop::get(graph::FusedOp op) {
  FusedLoop loop;
  Block &body = op.getBody().front();
  auto fail = [&](Operation *at, const Twine &why) {
    return createStringError("operator '" + graph::nameOf(op) + "': '" + at->getName().getStringRef() + "' " + why);
  };
  auto widen = [&](Value value) {
    std::optional<Shape> wider = graph::broadcastShapes(loop.domain, shapeOf(value));
    if (wider)
      loop.domain = *wider;
    return wider.has_value();
  };
  for (Value argument : body.getArguments())
    if (!widen(argument))
      return fail(op, "has inputs that do not broadcast to one domain");
  for (Operation &inner : body.without_terminator()) {
    if (graph::plainReduction(&inner))
      continue;
    for (Value result : inner.getResults())
      if (!widen(result))
        return fail(&inner, "does not fit the domain of its loop nest");
  }
  auto padded = [&](ArrayRef<int64_t> shape) {
    Shape view(loop.domain.size() - shape.size(), 1);
    view.append(shape.begin(), shape.end());
    return view;
  };
  for (Value argument : body.getArguments())
    loop.inputViews.push_back(padded(shapeOf(argument)));
  for (Value yielded : body.getTerminator()->getOperands()) {
    Operation *producer = yielded.getDefiningOp();
    Result result;
    result.value = yielded;
    if (auto reduction = producer ? graph::plainReduction(producer) : std::nullopt) {
      result.value = producer->getOperand(0);
      result.reduction = reduction->reduction;
      result.view = padded(shapeOf(result.value));
      if (result.view != loop.domain)
        return fail(producer, "reduces less than the domain of its loop nest");
      int64_t lead = int64_t(loop.domain.size() - shapeOf(result.value).size());
      for (int64_t d : reduction->dims)
        result.view[lead + d] = 1;
    } else {
      result.view = padded(shapeOf(yielded));
      if (result.view != loop.domain)
        return fail(producer ? producer : op.getOperation(), "yields less than the domain of its loop nest");
    }
    loop.results.push_back(std::move(result));
  }
  for (const Result &result : loop.results)
    if (graph::isAccumulated(result.value))
      loop.inputViews.push_back(result.view);
  return loop;
}

} // namespace tessera::compiler
