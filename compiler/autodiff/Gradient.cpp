//===- Gradient.cpp ------------------------------------------------------------------------------===//
//
// A forward sweep marks the values that depend on `wrt` as active. A backward sweep over the block calls the rule of
// every active operator whose result has an adjoint. The order of the block is a topological order, so the adjoints of
// an operator's results are complete when the sweep reaches it.
//
//===----------------------------------------------------------------------------------------------===//
#include "compiler/autodiff/Gradient.h"
#include "compiler/autodiff/GradientRules.h"
#include "dialects/graph/GraphAttributes.h"

using namespace mlir;
using namespace tessera::graph;

namespace tessera::compiler {

void GradientContext::give(unsigned operand, Value adjoint) {
  if (!needs(operand))
    return;
  give_(operand, b.unbroadcast(adjoint, shapeOf(op_->getOperand(operand))));
}

void GradientContext::name(StringRef suffix) {
  std::string forward = nameOf(op_);
  b.setName(forward + "." + suffix, forward);
}

bool GradientContext::derived(unsigned operand) {
  if (!isElementwise(op_) || op_->getNumResults() != 1 || !isFloat(op_->getOperand(operand)))
    return false;
  auto declared = dyn_cast<dist::ShardingRuleOpInterface>(op_);
  if (!declared)
    return false;
  llvm::Expected<dist::ShardingRule> rule = declared.getShardingRule();
  if (!rule) {
    llvm::consumeError(rule.takeError());
    return false;
  }
  for (const auto &group : rule->linear) {
    if (!llvm::is_contained(group, int(operand)))
      continue;
    if (!needs(operand))
      return true;
    // The adjoint is the operator itself with dy for this operand and 0 for the other operands of its group.
    SmallVector<Value> operands(op_->getOperands());
    for (int other : group)
      operands[other] = b.constant(elementTypeOf(operands[other]), 0.0);
    operands[operand] = dy();
    Value adjoint;
    if (isa<AddOp>(op_))
      adjoint = b.add(operands[0], operands[1]); // folds the addition of 0
    else if (isa<SubOp>(op_))
      adjoint = b.sub(operands[0], operands[1]);
    else if (isa<MulOp>(op_))
      adjoint = b.mul(operands[0], operands[1]);
    else if (isa<NegOp>(op_))
      adjoint = b.neg(operands[0]);
    else {
      Operation *clone = op_->clone();
      clone->setOperands(operands);
      clone->removeAttr(kNameAttr);
      clone->getResult(0).setType(cast<RankedTensorType>(dy().getType()));
      adjoint = b.insert(clone)->getResult(0);
    }
    give(operand, adjoint);
    return true;
  }
  return false;
}

GradientRules::GradientRules() {
  addCollectiveRules(*this);
  addElementwiseRules(*this);
  addStructuralRules(*this);
  addNetworkRules(*this);
}

const GradientRules &GradientRules::get() {
  static const GradientRules rules;
  return rules;
}

const GradientRule *GradientRules::find(Operation *op) const {
  auto it = rules_.find(op->getName().getTypeID());
  return it == rules_.end() ? nullptr : &it->second;
}

namespace {

class Differentiator {
public:
  Differentiator(OpWriter &b, ArrayRef<Value> wrt) : b_(b) {
    for (Value v : wrt)
      if (isFloat(v))
        active_.insert(v);
  }

  llvm::Error run(ArrayRef<Seed> seeds) {
    Block *block = nullptr;
    for (Seed seed : seeds) {
      block = seed.value.getParentBlock();
      accumulate(seed.value, seed.adjoint);
    }
    if (!block)
      return llvm::Error::success();
    SmallVector<Operation *> order;
    for (Operation &op : block->without_terminator())
      order.push_back(&op); // the sweep does not visit the operators that it appends
    for (Operation *op : order)
      activate(op);
    for (Operation *op : llvm::reverse(order))
      if (llvm::Error error = visit(op))
        return error;
    return llvm::Error::success();
  }

  Value adjointOf(Value v) const { return adjoints_.lookup(v); }

private:
  void activate(Operation *op) {
    if (op->hasAttr(kStopsGradientAttr))
      return;
    if (GradientRules::get().isConstant(op->getName()) && !op->hasAttr(kStraightThroughAttr))
      return;
    if (llvm::any_of(op->getOperands(), [&](Value v) { return active_.contains(v); }))
      for (Value result : op->getResults())
        if (isFloat(result))
          active_.insert(result);
  }

  void accumulate(Value value, Value adjoint) {
    Value &sum = adjoints_[value];
    sum = sum ? b_.add(sum, adjoint) : adjoint;
  }

  llvm::Error visit(Operation *op) {
    SmallVector<bool> needed;
    for (Value v : op->getOperands())
      needed.push_back(active_.contains(v));
    SmallVector<Value> adjoints;
    for (Value v : op->getResults())
      adjoints.push_back(active_.contains(v) ? adjointOf(v) : Value());
    if (!llvm::is_contained(needed, true) || llvm::all_of(adjoints, [](Value v) { return !v; }))
      return llvm::Error::success();

    auto give = [&](unsigned operand, Value adjoint) { accumulate(op->getOperand(operand), adjoint); };
    GradientContext context(b_, op, adjoints, needed, give);
    b_.setLoc(op->getLoc());
    context.name("grad");
    if (op->hasAttr(kStraightThroughAttr)) {
      context.give(0, context.dy());
    } else if (const GradientRule *rule = GradientRules::get().find(op)) {
      (*rule)(op, context);
    } else {
      context.fail("there is no gradient rule for this operator");
    }
    if (context.error().empty())
      return llvm::Error::success();
    return llvm::createStringError("cannot differentiate '%s' (%s): %s", nameOf(op).c_str(),
                                   op->getName().getStringRef().str().c_str(), context.error().str().c_str());
  }

  OpWriter &b_;
  llvm::DenseSet<Value> active_;
  llvm::DenseMap<Value, Value> adjoints_; // looked up only
};

} // namespace

llvm::Expected<SmallVector<Value>> differentiate(OpWriter &builder, ArrayRef<Seed> seeds, ArrayRef<Value> wrt) {
  Differentiator d(builder, wrt);
  if (llvm::Error error = d.run(seeds))
    return error;
  SmallVector<Value> result;
  for (Value v : wrt)
    result.push_back(d.adjointOf(v));
  return result;
}

} // namespace tessera::compiler
