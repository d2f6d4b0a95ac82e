#include "strategies/space/Program.h"

#include "strategies/space/Units.h"

#include "dialects/dist/DistInterfaces.h"
#include "dialects/dist/leaves/Leaves.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphAttributes.h"
#include "dialects/graph/GraphKinds.h"
#include "dialects/graph/Repeats.h"
#include "dialects/graph/flow/Fusion.h"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

using namespace mlir;

namespace tessera::strategies {

Shape shapeOf(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return Shape(type.getShape().begin(), type.getShape().end());
}

int64_t elementBytes(Type type) {
  if (auto shaped = dyn_cast<ShapedType>(type))
    type = shaped.getElementType();
  // A truth value takes one byte.
  return std::max<int64_t>(1, int64_t(type.getIntOrFloatBitWidth()) / 8);
}

int64_t numElements(llvm::ArrayRef<int64_t> shape) {
  int64_t n = 1;
  for (int64_t d : shape)
    n *= d;
  return n;
}

namespace {

llvm::Error checkType(Operation *op, Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (type && type.hasStaticShape() && type.getElementType().isIntOrFloat())
    return llvm::Error::success();
  return llvm::createStringError("operator '%s': every tensor must be ranked and of static shape",
                                 graph::nameOf(op).c_str());
}

} // namespace

llvm::Expected<std::unique_ptr<OperatorClass>> OperatorClass::of(Operation *op) {
  auto cls = std::make_unique<OperatorClass>();
  llvm::Expected<ShardingRule> rule = dist::boundRule(op);
  if (!rule)
    return llvm::createStringError("operator '%s': %s", graph::nameOf(op).c_str(),
                                   llvm::toString(rule.takeError()).c_str());
  cls->rule = std::move(*rule);
  cls->sample = op;
  cls->part = graph::loopPart(op);
  cls->addsUp = graph::isAccumulation(op);
  // Of the widest floating-point operand; the results' below, if no operand is floating-point. Beside products in 16 bits
  // statistics of rows and masks may have 32, which are only added.
  int floatBits = 0;
  const bool products = graph::precisionOf(op) == graph::Precision::Products;
  auto note = [&](Value value, auto &shapes, auto &bytes, int &floatBits) {
    shapes.push_back(shapeOf(value));
    bytes.push_back(elementBytes(value.getType()));
    Type element = cast<RankedTensorType>(value.getType()).getElementType();
    if (isa<FloatType>(element))
      floatBits = std::max(floatBits, int(element.getIntOrFloatBitWidth()));
  };
  int resultBits = 0, addedBits = 0;
  for (OpOperand &operand : op->getOpOperands())
    note(operand.get(), cls->operandShapes, cls->operandBytes,
         products && !graph::isFactor(operand) ? addedBits : floatBits);
  for (Value v : op->getResults()) {
    note(v, cls->resultShapes, cls->resultBytes, resultBits);
    cls->resultWires.push_back(graph::sentAs(v));
  }
  if (!floatBits)
    floatBits = resultBits;
  if (floatBits)
    cls->elementBits = floatBits;
  return cls;
}

OperatorKey keyOf(Operation *op) {
  OperatorKey key = {op->getName().getAsOpaquePointer(), op->getPropertiesAsAttribute().getAsOpaquePointer()};
  for (Type type : op->getOperandTypes())
    key.push_back(type.getAsOpaquePointer());
  key.push_back(op->getAttr(graph::kRepeatsAttr).getAsOpaquePointer());
  key.push_back(op->getAttr(graph::kSentAsAttr).getAsOpaquePointer());
  for (Value result : op->getResults()) {
    key.push_back(result.getType().getAsOpaquePointer());
    key.push_back(graph::sentAs(result) ? result.getUsers().begin()->getAttr(graph::kSentAsAttr).getAsOpaquePointer()
                                        : nullptr);
  }
  return key;
}

llvm::Expected<Program> Program::analyse(func::FuncOp func) {
  if (!func.getBody().hasOneBlock())
    return llvm::createStringError("function '%s' must have exactly one block", func.getName().str().c_str());
  Program program;
  program.func = func;
  std::map<OperatorKey, OperatorClass *> known;
  std::vector<OperatorClass *> classes;
  for (Operation &op : func.getBody().front().without_terminator()) {
    if (!isa<dist::ShardingRuleOpInterface>(op))
      return llvm::createStringError("operator '%s' (%s) has no sharding rule", graph::nameOf(&op).c_str(),
                                     op.getName().getStringRef().str().c_str());
    for (ValueRange values : {ValueRange(op.getOperands()), ValueRange(op.getResults())})
      for (Value v : values)
        if (llvm::Error e = checkType(&op, v))
          return e;
    OperatorClass *&cls = known[keyOf(&op)];
    if (!cls) {
      auto made = OperatorClass::of(&op);
      if (!made)
        return made.takeError();
      (*made)->id = int(program.classes.size());
      cls = made->get();
      classes.push_back(cls);
      program.classes.emplace_back(std::move(*made));
    }
    program.index[&op] = int(program.operators.size());
    program.operators.push_back({&op, graph::nameOf(&op), cls});
    program.operators.back().mayKeepCopy = graph::mayKeepCopy(&op);
  }
  findUnits(program, [&](int cls) -> OperatorClass & { return *classes[size_t(cls)]; });
  const graph::FunctionFlow own(func);
  program.parts = own.parts;
  for (auto [i, loop] : llvm::enumerate(graph::formLoops(own.flow))) {
    program.operators[i].loop = loop;
    program.operators[i].section = own.flow.steps[i].section;
    program.operators[i].times = own.times(int(i));
  }
  for (auto [v, value] : llvm::enumerate(own.tensors))
    if (own.parts > 1 && own.flow.variesInBody(int(v)))
      program.perMicroBatch.insert(value);
  return program;
}

BatchDependence::BatchDependence(const Program &program) : operators(program.operators.size(), false) {
  llvm::DenseMap<Value, uint64_t> dims; // bit per dimension
  func::FuncOp func = program.func;
  for (unsigned a = 0; a < func.getNumArguments(); ++a) {
    llvm::StringRef role = graph::argRole(func, a);
    if ((role == graph::kInput || role == graph::kTarget) && !shapeOf(func.getArgument(a)).empty())
      dims[func.getArgument(a)] = 1;
  }
  for (auto [i, info] : llvm::enumerate(program.operators)) {
    const ShardingRule &rule = info.cls->rule;
    llvm::SmallVector<bool> grows(rule.factors.size(), false);
    for (size_t o = 0; o < rule.operands.size(); ++o) {
      uint64_t of = dims.lookup(info.op->getOperand(unsigned(o)));
      for (size_t d = 0; of >> d && d < rule.operands[o].size(); ++d)
        if (of >> d & 1 && !rule.operands[o][d].empty()) {
          grows[rule.operands[o][d].front()] = true; // the major one
          operators[i] = true;
        }
    }
    for (size_t r = 0; r < rule.results.size() && operators[i]; ++r) {
      uint64_t of = 0;
      for (size_t d = 0; d < rule.results[r].size() && d < 64; ++d)
        for (int f : rule.results[r][d])
          of |= uint64_t(grows[f]) << d;
      if (of)
        dims[info.op->getResult(unsigned(r))] = of;
    }
  }
  for (auto [value, of] : dims)
    values.insert(value);
}

bool Program::staysInLoop(Value value, llvm::function_ref<bool(OpOperand &)> alike) const {
  using graph::LoopPart;
  const int made = producer(value);
  if (made < 0 || (operators[made].cls->part != LoopPart::Points && operators[made].cls->part != LoopPart::Free))
    return false;
  const int loop = operators[made].loop;
  // A Free reader is computed in the loops of its own readers: these read the value.
  std::function<bool(Value)> inLoop = [&](Value v) {
    return llvm::all_of(v.getUses(), [&](OpOperand &use) {
      auto it = index.find(use.getOwner());
      if (it == index.end() || !alike(use))
        return false;
      const OperatorInfo &reader = operators[it->second];
      if (reader.cls->part == LoopPart::Free)
        return llvm::all_of(reader.op->getResults(), inLoop);
      return loop < 0 ? reader.cls->part != LoopPart::None : reader.loop == loop;
    });
  };
  return inLoop(value);
}

Operation *Program::returnOp() const { return const_cast<func::FuncOp &>(func).getBody().front().getTerminator(); }

int Program::producer(Value value) const {
  Operation *op = value.getDefiningOp();
  return op ? index.lookup(op) : -1;
}

llvm::SmallVector<ValueUse> Program::uses(Value value) const {
  llvm::SmallVector<ValueUse> result;
  for (OpOperand &use : value.getUses()) {
    auto it = index.find(use.getOwner());
    if (it != index.end())
      result.push_back({it->second, int(use.getOperandNumber())});
  }
  llvm::sort(result, [](const ValueUse &a, const ValueUse &b) {
    return std::tie(a.op, a.operand) < std::tie(b.op, b.operand);
  });
  return result;
}

} // namespace tessera::strategies
