#include "dialects/graph/flow/DataFlow.h"

#include "dialects/dist/DistOps.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphAttributes.h"
#include "dialects/graph/GraphKinds.h"
#include "dialects/graph/flow/Fusion.h"
#include "dialects/graph/flow/Sections.h"

#include <array>

using namespace mlir;

namespace tessera::graph {

int DataFlow::addValue(dist::Shape shape, int64_t bytes, bool kept) {
  values.push_back({std::move(shape), bytes, -1, -1, kept});
  return int(values.size()) - 1;
}

Half halfOf(Operation *op) {
  return op->hasAttr(kAgainAttr) ? Half::Again : op->hasAttr(kGradOfAttr) ? Half::Backward : Half::Forward;
}

int DataFlow::addStep(LoopPart part, llvm::ArrayRef<int> reads, llvm::ArrayRef<int> makes, Section section, Half half) {
  const int step = int(steps.size());
  for (int value : makes)
    values[value].maker = step;
  steps.push_back({part, {reads.begin(), reads.end()}, {makes.begin(), makes.end()}, section, half});
  return step;
}

int DataFlow::root(int value) const {
  while (values[value].viewOf >= 0)
    value = values[value].viewOf;
  return value;
}

std::vector<llvm::SmallVector<int, 2>> DataFlow::readers() const {
  std::vector<llvm::SmallVector<int, 2>> readers(values.size());
  for (size_t s = 0; s < steps.size(); ++s)
    for (int value : steps[s].reads)
      readers[value].push_back(int(s));
  for (int value : results)
    readers[value].push_back(int(steps.size()));
  return readers;
}

bool DataFlow::variesInBody(int value) const {
  const Value &v = values[size_t(value)];
  if (v.maker >= 0)
    return !v.sum && inBody(steps[size_t(v.maker)].section);
  return llvm::any_of(updates, [&](auto update) {
    return update.first == value && values[size_t(update.second)].maker >= 0 && variesInBody(update.second);
  });
}

FunctionFlow::FunctionFlow(func::FuncOp func) {
  Block &block = func.getBody().front();
  auto add = [&](Value value) {
    auto type = cast<RankedTensorType>(value.getType());
    int id = flow.addValue(dist::Shape(type.getShape().begin(), type.getShape().end()),
                           type.getNumElements() * int64_t((type.getElementTypeBitWidth() + 7) / 8));
    tensors.push_back(value);
    index[value] = id;
    return id;
  };
  for (BlockArgument arg : block.getArguments()) {
    llvm::StringRef role = argRole(func, arg.getArgNumber());
    flow.values[add(arg)].kept = role == kParameter || role == kState;
  }
  // All results get numbers before any operand is looked up, since an operator may stand before a producer of its
  // operands.
  for (Operation &op : block.without_terminator())
    for (Value v : op.getResults())
      add(v);
  // A stage of a pipeline sees only a part of the data flow, so its operators carry their sections.
  auto staged = func->getAttrOfType<IntegerAttr>(kMicroBatchesAttr);
  std::array<int, kSections> exchanged; // what the last send or receive of a section makes
  exchanged.fill(-1);
  for (Operation &op : block.without_terminator()) {
    llvm::SmallVector<int> reads, makes;
    for (Value v : op.getOperands())
      reads.push_back(index.lookup(v));
    for (Value v : op.getResults()) {
      makes.push_back(index.lookup(v));
      flow.values[makes.back()].sum = isAccumulated(v);
    }
    if (isView(&op))
      flow.values[makes.front()].viewOf = reads.front();
    Section section = Section::Begin;
    if (std::optional<int64_t> batches = microBatches(&op)) {
      parts = *batches;
      section = Section::Body;
    }
    if (staged)
      section = sectionOf(&op);
    if (isa<dist::SendOp, dist::ReceiveOp>(op)) {
      if (int &last = exchanged[size_t(section)]; last >= 0)
        reads.push_back(last);
      makes.push_back(exchanged[size_t(section)] = flow.addValue({}, 0));
      tensors.push_back(Value());
    }
    flow.addStep(loopPart(&op), reads, makes, section, halfOf(&op));
    operators.push_back(&op);
  }
  for (Value v : block.getTerminator()->getOperands())
    flow.results.push_back(index.lookup(v));
  for (BlockArgument arg : block.getArguments())
    if (std::optional<unsigned> result = updateOf(func, arg.getArgNumber()); result && *result < flow.results.size()) {
      flow.values[flow.results[*result]].kept = true;
      flow.updates.push_back({index.lookup(arg), flow.results[*result]});
    }
  if (staged)
    parts = staged.getInt();
  else
    findSections(flow);
}

} // namespace tessera::graph
