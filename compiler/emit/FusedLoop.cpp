#include "compiler/emit/FusedLoop.h"

#include "dialects/graph/GraphKinds.h"

#include "llvm/ADT/STLExtras.h"

#include <set>

using namespace llvm;
using namespace mlir;

namespace tessera::compiler {

using dist::Shape;

static ArrayRef<int64_t> shapeOf(Value value) { return cast<RankedTensorType>(value.getType()).getShape(); }

namespace {

/// What a loop reads and makes, whether it has a body or is one operator.
struct Body {
  SmallVector<Value> inputs, made;
  SmallVector<Operation *> operators;

  explicit Body(Operation *op) {
    if (auto fused = dyn_cast<graph::FusedOp>(op)) {
      Block &block = fused.getBody().front();
      llvm::append_range(inputs, block.getArguments());
      llvm::append_range(made, block.getTerminator()->getOperands());
      for (Operation &inner : block.without_terminator())
        operators.push_back(&inner);
    } else {
      llvm::append_range(inputs, op->getOperands());
      llvm::append_range(made, op->getResults());
      operators.push_back(op);
    }
  }
};

/// A view in a domain whose dimensions are cut. Of a dimension that is reduced `kept` ranges stay.
void appendCut(Shape &view, int64_t size, ArrayRef<int64_t> cut, int64_t kept) {
  int64_t ranges = 1;
  for (int64_t extent : cut) {
    ranges *= extent;
    view.push_back(size == 1 || (kept > 0 && ranges > kept) ? 1 : extent);
  }
}

} // namespace

Expected<FusedLoop> FusedLoop::get(Operation *op) {
  FusedLoop loop;
  const Body body(op);
  Shape domain;
  auto fail = [&](Operation *at, const Twine &why) {
    return createStringError("operator '" + graph::nameOf(op) + "': '" + at->getName().getStringRef() + "' " + why);
  };
  auto widen = [&](Value value) {
    std::optional<Shape> wider = graph::broadcastShapes(domain, shapeOf(value));
    if (wider)
      domain = *wider;
    return wider.has_value();
  };
  for (Value input : body.inputs)
    if (!widen(input))
      return fail(op, "has inputs that do not broadcast to one domain");
  for (Operation *inner : body.operators) {
    if (graph::plainReduction(inner))
      continue;
    for (Value result : inner->getResults())
      if (!widen(result))
        return fail(inner, "does not fit the domain of its loop nest");
  }
  auto padded = [&](ArrayRef<int64_t> shape) {
    Shape view(domain.size() - shape.size(), 1);
    view.append(shape.begin(), shape.end());
    return view;
  };

  std::vector<std::set<int64_t>> ranges(domain.size()); // in how many each dimension is cut
  for (Operation *inner : body.operators)
    if (auto reduction = graph::plainReduction(inner); reduction && reduction->leaves > 1)
      ranges[domain.size() - shapeOf(inner->getOperand(0)).size() + size_t(reduction->leafDim)].insert(
          reduction->leaves);
  for (auto [size, cuts] : llvm::zip_equal(domain, ranges)) {
    Shape &cut = loop.cuts.emplace_back();
    int64_t done = 1;
    for (int64_t count : cuts) { // ascending powers of two
      cut.push_back(count / done);
      done = count;
    }
    if (size > done || cut.empty())
      cut.push_back(size / done);
    llvm::append_range(loop.domain, cut);
  }
  // `kept`: of each dimension that is reduced the ranges that stay; 0: it is not reduced.
  auto viewOf = [&](ArrayRef<int64_t> shape, ArrayRef<int64_t> kept = {}) {
    Shape view;
    for (auto [d, size] : llvm::enumerate(padded(shape)))
      appendCut(view, size, loop.cuts[d], kept.empty() ? 0 : kept[d]);
    return view;
  };

  for (Value input : body.inputs)
    loop.inputViews.push_back(viewOf(shapeOf(input)));
  for (Value made : body.made) {
    Operation *producer = made.getDefiningOp();
    Result result;
    result.value = made;
    if (auto reduction = producer ? graph::plainReduction(producer) : std::nullopt) {
      result.value = producer->getOperand(0);
      result.reduction = reduction->reduction;
      if (padded(shapeOf(result.value)) != domain)
        return fail(producer, "reduces less than the domain of its loop nest");
      const size_t lead = domain.size() - shapeOf(result.value).size();
      Shape kept(domain.size(), 0);
      for (int64_t d : reduction->dims)
        kept[lead + size_t(d)] = d == reduction->leafDim ? reduction->leaves : 1;
      result.view = viewOf(shapeOf(result.value), kept);
    } else {
      result.view = viewOf(shapeOf(made));
      if (result.view != loop.domain)
        return fail(producer ? producer : op, "yields less than the domain of its loop nest");
    }
    loop.results.push_back(std::move(result));
  }
  for (const Result &result : loop.results)
    if (graph::isAccumulated(result.value))
      loop.inputViews.push_back(result.view);
  return loop;
}

} // namespace tessera::compiler
