//===- Interpreter.cpp ---------------------------------------------------------------------------===//
#include "test/support/Interpreter.h"
#include "test/support/InterpreterDetail.h"

#include "dialects/graph/GraphKinds.h"
#include "dialects/graph/flow/DataFlow.h"

#include "llvm/ADT/DenseMap.h"

using namespace mlir;
using namespace tessera::test::detail;

namespace tessera::test {

Tensor Tensor::of(ArrayRef<int64_t> shape, std::vector<double> data) { return {dist::Shape(shape), std::move(data)}; }

Tensor Tensor::zeros(ArrayRef<int64_t> shape, double fill) {
  size_t n = 1;
  for (int64_t extent : shape)
    n *= size_t(extent);
  return {dist::Shape(shape), std::vector<double>(n, fill)};
}

int64_t Call::integer(StringRef name, int64_t otherwise) const {
  auto attr = attributes.getAs<IntegerAttr>(name);
  return attr ? attr.getInt() : otherwise;
}
double Call::real(StringRef name) const { return attributes.getAs<FloatAttr>(name).getValueAsDouble(); }
bool Call::flag(StringRef name) const {
  auto attr = attributes.getAs<BoolAttr>(name);
  return attr && attr.getValue();
}
SmallVector<int64_t> Call::list(StringRef name) const {
  auto attr = attributes.getAs<DenseI64ArrayAttr>(name);
  return attr ? SmallVector<int64_t>(attr.asArrayRef()) : SmallVector<int64_t>();
}
bool Call::integerOperand(unsigned i) const {
  return isa<IntegerType>(cast<RankedTensorType>(op->getOperand(i).getType()).getElementType());
}
Type Call::resultElement(unsigned i) const {
  return cast<RankedTensorType>(op->getResult(i).getType()).getElementType();
}

static const Table &table() {
  static const Table result = [] {
    Table t;
    addElementwise(t);
    addData(t);
    addNetwork(t);
    return t;
  }();
  return result;
}

// A fused operator is interpreted by its body.
static llvm::Expected<std::vector<Tensor>> interpretBody(graph::FusedOp fused, ArrayRef<const Tensor *> operands) {
  llvm::DenseMap<Value, Tensor> values;
  Block &body = fused.getBody().front();
  for (auto [argument, tensor] : llvm::zip(body.getArguments(), operands))
    values[argument] = *tensor;
  for (Operation &op : body.without_terminator()) {
    SmallVector<const Tensor *> in;
    for (Value v : op.getOperands())
      in.push_back(&values[v]);
    auto out = interpretOp(&op, op.getAttrDictionary(), in);
    if (!out)
      return out.takeError();
    for (auto [result, tensor] : llvm::zip(op.getResults(), *out))
      values[result] = std::move(tensor);
  }
  std::vector<Tensor> results;
  for (Value v : body.getTerminator()->getOperands())
    results.push_back(values[v]);
  return results;
}

llvm::Expected<std::vector<Tensor>> interpretOp(Operation *op, DictionaryAttr attributes,
                                                ArrayRef<const Tensor *> operands) {
  for (auto [i, operand] : llvm::enumerate(operands)) {
    auto type = dyn_cast<RankedTensorType>(op->getOperand(unsigned(i)).getType());
    if (!type || type.getShape() != ArrayRef<int64_t>(operand->shape))
      return llvm::createStringError("interpreter: operand %zu of '%s' has another shape than its type", i,
                                     graph::nameOf(op).c_str());
  }
  if (auto fused = dyn_cast<graph::FusedOp>(op))
    return interpretBody(fused, operands);
  if (isa<dist::ReshardOp>(op))
    return std::vector<Tensor>{*operands[0]};
  auto it = table().find(op->getName().stripDialect().str());
  if (!isa_and_nonnull<graph::GraphDialect>(op->getDialect()) || it == table().end())
    return llvm::createStringError("interpreter: no definition of '%s'", op->getName().getStringRef().str().c_str());
  Call call{op, attributes, operands, {}};
  for (Type type : op->getResultTypes())
    call.out.push_back(Tensor::zeros(cast<RankedTensorType>(type).getShape()));
  it->second(call);
  return std::move(call.out);
}

llvm::Expected<std::vector<std::vector<Tensor>>>
interpretRanks(func::FuncOp func, ArrayRef<std::vector<Tensor>> arguments, const RankAttributes &rankAttributes) {
  size_t ranks = arguments.size();
  Block &block = func.getBody().front();
  std::vector<llvm::DenseMap<Value, Tensor>> values(ranks);
  for (size_t rank = 0; rank < ranks; ++rank) {
    if (arguments[rank].size() != block.getNumArguments())
      return llvm::createStringError("interpreter: @%s takes %u arguments, not %zu", func.getName().str().c_str(),
                                     block.getNumArguments(), arguments[rank].size());
    for (auto [argument, tensor] : llvm::zip(block.getArguments(), arguments[rank])) {
      if (cast<RankedTensorType>(argument.getType()).getShape() != ArrayRef<int64_t>(tensor.shape))
        return llvm::createStringError("interpreter: argument %u of @%s has another shape", argument.getArgNumber(),
                                       func.getName().str().c_str());
      values[rank][argument] = tensor;
    }
  }
  const graph::FunctionFlow flow(func);
  llvm::DenseMap<Operation *, graph::Section> section;
  bool hasBody = false;
  for (auto [i, op] : llvm::enumerate(flow.operators)) {
    section[op] = flow.flow.steps[i].section;
    hasBody |= section[op] == graph::Section::Body;
  }
  // A value is freed after its last use, so that whole networks can be interpreted.
  llvm::DenseMap<Value, Operation *> lastUse;
  if (!hasBody)
    for (Operation &op : block)
      for (Value v : op.getOperands())
        lastUse[v] = &op;

  auto evaluate = [&](Operation &op, int64_t microBatch) -> llvm::Error {
    std::vector<std::vector<Tensor>> results(ranks);
    if (auto collective = dyn_cast<dist::CollectiveOp>(op)) {
      SmallVector<const Tensor *> in;
      for (size_t rank = 0; rank < ranks; ++rank)
        in.push_back(&values[rank][collective.getX()]);
      auto out = interpretCollective(collective, in);
      if (!out)
        return out.takeError();
      for (size_t rank = 0; rank < ranks; ++rank)
        results[rank].push_back(std::move((*out)[rank]));
    } else {
      for (size_t rank = 0; rank < ranks; ++rank) {
        SmallVector<const Tensor *> in;
        for (Value v : op.getOperands())
          in.push_back(&values[rank][v]);
        NamedAttrList list(op.getAttrDictionary());
        if (rankAttributes)
          rankAttributes(&op, int64_t(rank), list);
        if (graph::microBatches(&op))
          list.set("index", IntegerAttr::get(IntegerType::get(op.getContext(), 64), microBatch));
        auto out = interpretOp(&op, list.getDictionary(op.getContext()), in);
        if (!out)
          return out.takeError();
        results[rank] = std::move(*out);
      }
    }
    for (size_t rank = 0; rank < ranks; ++rank) {
      for (auto [result, tensor] : llvm::zip(op.getResults(), results[rank])) {
        if (cast<RankedTensorType>(result.getType()).getShape() != ArrayRef<int64_t>(tensor.shape))
          return llvm::createStringError("interpreter: '%s' made another shape than its type says",
                                         graph::nameOf(&op).c_str());
        if (microBatch > 0 && graph::isAccumulated(result))
          for (auto [sum, more] : llvm::zip(values[rank][result].data, tensor.data))
            sum += more;
        else if (!result.use_empty() || hasBody)
          values[rank][result] = std::move(tensor);
      }
      for (Value v : op.getOperands())
        if (auto last = lastUse.find(v); last != lastUse.end() && last->second == &op)
          values[rank].erase(v);
    }
    return llvm::Error::success();
  };
  auto run = [&](graph::Section which, int64_t microBatch) -> llvm::Error {
    for (Operation &op : block.without_terminator())
      if (section[&op] == which)
        if (llvm::Error e = evaluate(op, microBatch))
          return e;
    return llvm::Error::success();
  };
  auto carry = [&] {
    for (auto &own : values) {
      llvm::DenseMap<Value, Tensor> next;
      for (auto [old, made] : flow.flow.updates)
        if (flow.flow.variesInBody(made))
          next[flow.tensors[size_t(old)]] = own[flow.tensors[size_t(made)]];
      for (auto &[argument, tensor] : next)
        own[argument] = tensor;
    }
  };
  if (llvm::Error e = run(graph::Section::Begin, 0))
    return e;
  for (int64_t i = 0; hasBody && i < flow.parts; ++i) {
    if (i > 0)
      carry();
    if (llvm::Error e = run(graph::Section::Body, i))
      return e;
  }
  if (llvm::Error e = run(graph::Section::End, 0))
    return e;
  std::vector<std::vector<Tensor>> results(ranks);
  for (size_t rank = 0; rank < ranks; ++rank)
    for (Value v : block.getTerminator()->getOperands())
      results[rank].push_back(values[rank][v]);
  return results;
}

llvm::Expected<std::vector<Tensor>> interpret(func::FuncOp func, ArrayRef<Tensor> arguments) {
  auto results = interpretRanks(func, std::vector<Tensor>(arguments.begin(), arguments.end()));
  if (!results)
    return results.takeError();
  return std::move(results->front());
}

} // namespace tessera::test
