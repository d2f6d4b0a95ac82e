//===- ExpressionWriter.cpp - graph.fused as an expression ---------------------------------------===//
#include "compiler/emit/FusedLoop.h"
#include "compiler/emit/PlanWriter.h"

#include "dialects/graph/GraphAttributes.h"
#include "dialects/graph/GraphKinds.h"

#include "llvm/ADT/DenseMap.h"

using namespace llvm;
using namespace mlir;

namespace tessera::compiler {

Error writeExpression(graph::FusedOp op, RankFunction rank, plan::Expression *expression) {
  Expected<FusedLoop> loop = FusedLoop::get(op);
  if (!loop)
    return loop.takeError();
  auto assign = [](ArrayRef<int64_t> shape, auto *out) {
    for (int64_t d : shape)
      out->Add(d);
  };
  assign(loop->domain, expression->mutable_domain());
  for (const dist::Shape &view : loop->inputViews)
    assign(view, expression->add_input_views()->mutable_shape());

  Block &body = op.getBody().front();
  llvm::DenseMap<Value, uint32_t> number;
  for (Value argument : body.getArguments())
    number[argument] = uint32_t(number.size());
  llvm::DenseMap<Value, uint32_t> sums; // what adds up over micro-batches: the number of the sum so far
  for (const FusedLoop::Result &result : loop->results)
    if (graph::isAccumulated(result.value))
      sums[result.value] = uint32_t(body.getNumArguments() + sums.size());
  uint32_t next = uint32_t(loop->inputViews.size());
  for (Operation &inner : body.without_terminator()) {
    if (graph::plainReduction(&inner))
      continue; // a result's
    if (graph::isStretch(&inner)) {
      number[inner.getResult(0)] = number.lookup(inner.getOperand(0)); // the same at every point
      continue;
    }
    plan::Instruction *code = expression->add_code();
    code->set_type(planTypeOf(cast<RankedTensorType>(inner.getResult(0).getType()).getElementType()));
    if (auto constant = dyn_cast<graph::ConstantOp>(inner)) {
      std::optional<double> value = splatNumber(constant);
      if (!value)
        return createStringError("operator '" + graph::nameOf(op) +
                                 "' holds a constant that a loop cannot hold: no splat, or too large an integer");
      code->set_op("constant");
      code->set_immediate(*value);
    } else {
      if (!graph::isElementwise(&inner))
        return createStringError("operator '" + graph::nameOf(op) + "' holds '" + inner.getName().getStringRef() +
                                 "', which is no elementwise operator");
      code->set_op(graph::kernelOf(&inner).str());
      if (auto sum = sums.find(inner.getResult(0)); sum != sums.end())
        code->add_operands(sum->second);
      for (Value operand : inner.getOperands())
        code->add_operands(number.lookup(operand));
      if (graph::isAccumulation(&inner)) {
        number[inner.getResult(0)] = next++;
        continue; // the kernel is an addition, which has no attributes
      }
      if (Error e = writeAttributes(&inner, rank, code->mutable_attributes()))
        return e;
      if (inner.hasAttr(graph::kRoundsAttr)) { // a cast, which has no other attributes
        plan::Attribute *rounds = code->add_attributes();
        rounds->set_name("rounds");
        rounds->set_i(1);
      }
    }
    number[inner.getResult(0)] = next++;
  }
  for (const FusedLoop::Result &result : loop->results) {
    plan::Result *out = expression->add_results();
    out->set_value(number.lookup(result.value));
    out->set_reduction(result.reduction == dist::Reduction::Sum   ? plan::SUM
                       : result.reduction == dist::Reduction::Max ? plan::MAX
                       : result.reduction == dist::Reduction::Min ? plan::MIN
                                                                  : plan::NONE);
    assign(result.view, out->mutable_shape());
  }
  return Error::success();
}

} // namespace tessera::compiler
