#include "dialects/graph/Sections.h"

#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphAttributes.h"
#include "dialects/graph/GraphKinds.h"

#include "llvm/ADT/DenseSet.h"

#include <array>

using namespace mlir;

namespace tessera::graph {

namespace {

/// Which steps depend on a sum over all micro-batches.
std::vector<bool> findBehindSums(const DataFlow &flow, llvm::ArrayRef<llvm::SmallVector<int, 2>> readers) {
  std::vector<bool> behind(flow.steps.size(), false);
  llvm::SmallVector<int> work;
  auto visit = [&](int value) {
    for (int reader : readers[size_t(value)])
      if (size_t(reader) < behind.size() && !behind[size_t(reader)]) {
        behind[size_t(reader)] = true;
        work.push_back(reader);
      }
  };
  for (size_t v = 0; v < flow.values.size(); ++v)
    if (flow.values[v].sum)
      visit(int(v));
  while (!work.empty())
    for (int value : flow.steps[size_t(work.pop_back_val())].makes)
      visit(value);
  return behind;
}

} // namespace

static constexpr std::array<llvm::StringLiteral, kSections> kNames = {"begin", "forward", "input", "weight", "end"};

Section sectionOf(Operation *op) {
  auto name = op->getAttrOfType<StringAttr>(kSectionAttr);
  const auto *it = name ? llvm::find(kNames, name.getValue()) : kNames.begin();
  return it == kNames.end() ? Section::Begin : Section(it - kNames.begin());
}

void setSection(Operation *op, Section section) {
  op->setAttr(kSectionAttr, StringAttr::get(op->getContext(), kNames[size_t(section)]));
}

void findSections(DataFlow &flow) {
  llvm::SmallVector<int> work;
  for (size_t s = 0; s < flow.steps.size(); ++s)
    if (flow.steps[s].section == Section::Body)
      work.push_back(int(s));
  if (work.empty())
    return;
  const std::vector<llvm::SmallVector<int, 2>> readers = flow.readers();
  llvm::DenseMap<int, llvm::SmallVector<int, 1>> olds; // by new value
  for (auto [old, next] : flow.updates)
    olds[next].push_back(old);
  auto enter = [&](int value) {
    for (int reader : readers[size_t(value)])
      if (size_t(reader) < flow.steps.size() && flow.steps[size_t(reader)].section != Section::Body) {
        flow.steps[size_t(reader)].section = Section::Body;
        work.push_back(reader);
      }
  };
  for (size_t w = 0; w < work.size(); ++w)
    for (int value : flow.steps[size_t(work[w])].makes) {
      if (flow.values[size_t(value)].sum)
        continue;
      enter(value);
      if (auto it = olds.find(value); it != olds.end())
        for (int old : it->second)
          enter(old);
    }
  const std::vector<bool> behind = findBehindSums(flow, readers);
  for (size_t s = 0; s < flow.steps.size(); ++s)
    if (flow.steps[s].section != Section::Body)
      flow.steps[s].section = Section::End;
  // What the body needs, from its steps upwards.
  for (size_t w = 0; w < work.size(); ++w)
    for (int value : flow.steps[size_t(work[w])].reads)
      if (int maker = flow.values[size_t(value)].maker;
          maker >= 0 && flow.steps[size_t(maker)].section == Section::End && !behind[size_t(maker)]) {
        flow.steps[size_t(maker)].section = Section::Begin;
        work.push_back(maker);
      }
}

LogicalResult verifySections(func::FuncOp func) {
  const FunctionFlow program(func);
  const DataFlow &flow = program.flow;
  Operation *first = nullptr;
  for (Operation *op : program.operators)
    if (std::optional<int64_t> parts = microBatches(op)) {
      if (first && *parts != *microBatches(first))
        return op->emitError() << "operator '" << nameOf(op) << "' is for " << *parts << " micro-batches, but '"
                               << nameOf(first) << "' for " << *microBatches(first);
      first = first ? first : op;
    }
  if (!first)
    return success();
  const std::vector<bool> behind = findBehindSums(flow, flow.readers());
  for (auto [s, op] : llvm::enumerate(program.operators))
    if (behind[s] && flow.steps[s].section == Section::Body)
      return op->emitError() << "operator '" << nameOf(op)
                             << "' runs for each micro-batch, but depends on a sum over all of them";
  llvm::DenseSet<unsigned> updates; // results that are new values of arguments
  for (unsigned arg = 0; arg < func.getNumArguments(); ++arg)
    if (std::optional<unsigned> result = updateOf(func, arg))
      updates.insert(*result);
  Operation *end = func.getBody().front().getTerminator();
  for (OpOperand &operand : end->getOpOperands()) {
    const int value = flow.results[operand.getOperandNumber()];
    if (!updates.contains(operand.getOperandNumber()) && flow.variesInBody(value))
      return func.emitError() << "result " << operand.getOperandNumber() << " ('"
                              << resultName(func, operand.getOperandNumber())
                              << "') belongs to one micro-batch: return a sum over all of them";
  }
  return success();
}

} // namespace tessera::graph
