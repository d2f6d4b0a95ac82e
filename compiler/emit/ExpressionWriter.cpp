//===- ExpressionWriter.cpp - a loop as an expression --------------------------------------------===//
#include "compiler/emit/FusedLoop.h"
#include "compiler/emit/PlanWriter.h"

#include "dialects/graph/GraphAttributes.h"
#include "dialects/graph/GraphKinds.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;
using namespace mlir;

namespace tessera::compiler {

namespace {

using dist::Shape;

void assign(ArrayRef<int64_t> shape, google::protobuf::RepeatedField<int64_t> *out) {
  out->Clear();
  for (int64_t d : shape)
    out->Add(d);
}

plan::Attribute *find(plan::Instruction &code, StringRef name) {
  for (plan::Attribute &attribute : *code.mutable_attributes())
    if (attribute.name() == name.str())
      return &attribute;
  return nullptr;
}

/// The extents of a cut dimension behind its outermost one, multiplied.
int64_t inner(ArrayRef<int64_t> cut) {
  int64_t product = 1;
  for (int64_t extent : cut.drop_front())
    product *= extent;
  return product;
}

class ExpressionWriter {
public:
  ExpressionWriter(Operation *op, const FusedLoop &loop, RankFunction rank, plan::Expression *out)
      : op_(op), loop_(loop), rank_(rank), out_(out) {}

  Error write() {
    assign(loop_.domain, out_->mutable_domain());
    for (const Shape &view : loop_.inputViews)
      assign(view, out_->add_input_views()->mutable_shape());
    auto fused = dyn_cast<graph::FusedOp>(op_);
    if (Error e = fused ? body(fused.getBody().front()) : Error::success())
      return e;
    for (const FusedLoop::Result &result : loop_.results) {
      plan::Result *out = out_->add_results();
      out->set_value(number_.lookup(result.value)); // of an operator that is a loop by itself: its only operand
      out->set_reduction(result.reduction == dist::Reduction::Sum   ? plan::SUM
                         : result.reduction == dist::Reduction::Max ? plan::MAX
                         : result.reduction == dist::Reduction::Min ? plan::MIN
                                                                    : plan::NONE);
      assign(result.view, out->mutable_shape());
    }
    return Error::success();
  }

private:
  Error body(Block &body) {
    for (Value argument : body.getArguments())
      number_[argument] = uint32_t(number_.size());
    for (const FusedLoop::Result &result : loop_.results)
      if (graph::isAccumulated(result.value))
        sums_[result.value] = uint32_t(body.getNumArguments() + sums_.size());
    for (Operation &inner : body.without_terminator()) {
      if (graph::plainReduction(&inner))
        continue; // a result's
      if (graph::isStretch(&inner))
        number_[inner.getResult(0)] = number_.lookup(inner.getOperand(0)); // the same at every point
      else if (Error e = instruction(&inner))
        return e;
    }
    return Error::success();
  }

  Error instruction(Operation *inner) {
    plan::Instruction *code = out_->add_code();
    code->set_type(planTypeOf(cast<RankedTensorType>(inner->getResult(0).getType()).getElementType()));
    if (auto constant = dyn_cast<graph::ConstantOp>(inner)) {
      std::optional<double> value = splatNumber(constant);
      if (!value)
        return createStringError("operator '" + graph::nameOf(op_) +
                                 "' holds a constant that a loop cannot hold: no splat, or too large an integer");
      code->set_op("constant");
      code->set_immediate(*value);
    } else {
      if (!graph::isElementwise(inner))
        return createStringError("operator '" + graph::nameOf(op_) + "' holds '" + inner->getName().getStringRef() +
                                 "', which is no elementwise operator");
      code->set_op(graph::kernelOf(inner).str());
      if (auto sum = sums_.find(inner->getResult(0)); sum != sums_.end())
        code->add_operands(sum->second);
      for (Value operand : inner->getOperands())
        code->add_operands(number_.lookup(operand));
      if (!graph::isAccumulation(inner)) // the kernel is an addition, which has no attributes
        if (Error e = writeAttributes(inner, rank_, code->mutable_attributes()))
          return e;
      if (inner->hasAttr(graph::kRoundsAttr)) { // a cast, which has no other attributes
        plan::Attribute *rounds = code->add_attributes();
        rounds->set_name("rounds");
        rounds->set_i(1);
      }
      if (loop_.isCut())
        if (Error e = cutPlaces(*code, tensorRank(inner)))
          return e;
    }
    number_[inner->getResult(0)] = uint32_t(out_->input_views_size() + out_->code_size() - 1);
    return Error::success();
  }

  static size_t tensorRank(Operation *inner) {
    return size_t(cast<RankedTensorType>(inner->getResult(0).getType()).getRank());
  }

  /// What an instruction says of places is said of the body's dimensions, and is to be of the domain's. plan.proto lists
  /// these attributes.
  Error cutPlaces(plan::Instruction &code, size_t rank) {
    const size_t lead = loop_.cuts.size() - rank;
    for (StringRef name : {StringRef("global_shape"), StringRef("offset")})
      if (plan::Attribute *attribute = find(code, name); attribute && attribute->ints().values_size() > 0) {
        Shape places;
        for (auto [d, value] : llvm::enumerate(attribute->ints().values())) {
          const Shape &cut = loop_.cuts[lead + d];
          if (value % inner(cut) != 0) // the factor is never padded, and a rank has whole leaves
            return createStringError("operator '" + graph::nameOf(op_) + "': " + name + " " + Twine(value) +
                                     " is cut inside a leaf");
          places.push_back(value / inner(cut));
          for (int64_t extent : ArrayRef(cut).drop_front())
            places.push_back(name == "offset" ? 0 : extent);
        }
        assign(places, attribute->mutable_ints()->mutable_values());
      }
    if (plan::Attribute *dim = find(code, "dim")) {
      const size_t of = lead + size_t(dim->i());
      int64_t first = 0;
      for (const Shape &cut : ArrayRef(loop_.cuts).take_front(of))
        first += int64_t(cut.size());
      dim->set_i(first);
      if (loop_.cuts[of].size() > 1)
        addInner(code, first, loop_.cuts[of]);
    }
    return Error::success();
  }

  /// Makes the index along the outermost of several dimensions the index along all of them, start + (i * extent + j).
  void addInner(plan::Instruction &code, int64_t first, ArrayRef<int64_t> cut) {
    auto last = [&] { return uint32_t(out_->input_views_size() + out_->code_size() - 1); };
    auto add = [&](StringRef op, std::initializer_list<uint32_t> operands) {
      plan::Instruction *made = out_->add_code();
      made->set_op(op.str());
      made->set_type(plan::I64);
      for (uint32_t operand : operands)
        made->add_operands(operand);
      return made;
    };
    const plan::DType type = code.type();
    code.set_type(plan::I64);
    plan::Attribute *from = find(code, "start");
    const int64_t start = from ? from->i() : 0;
    if (from)
      from->set_i(0);
    uint32_t index = last();
    for (size_t i = 1; i < cut.size(); ++i) {
      add("constant", {})->set_immediate(double(cut[i]));
      add("mul", {index, last()});
      const uint32_t scaled = last();
      plan::Instruction *next = add(code.op(), {});
      for (auto [name, value] : {std::pair("dim", first + int64_t(i)), std::pair("start", int64_t(0))}) {
        plan::Attribute *attribute = next->add_attributes();
        attribute->set_name(name);
        attribute->set_i(value);
      }
      add("add", {scaled, last()});
      index = last();
    }
    if (start != 0) {
      add("constant", {})->set_immediate(double(start));
      add("add", {index, last()});
      index = last();
    }
    if (type != plan::I64)
      add("cast", {index})->set_type(type);
  }

  Operation *op_;
  const FusedLoop &loop_;
  RankFunction rank_;
  plan::Expression *out_;
  llvm::DenseMap<Value, uint32_t> number_;
  llvm::DenseMap<Value, uint32_t> sums_; // what adds up over micro-batches: the number of the sum so far
};

} // namespace

Error writeExpression(Operation *op, RankFunction rank, plan::Expression *expression) {
  Expected<FusedLoop> loop = FusedLoop::get(op);
  return loop ? ExpressionWriter(op, *loop, rank, expression).write() : loop.takeError();
}

} // namespace tessera::compiler
