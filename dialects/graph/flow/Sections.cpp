#include "dialects/graph/flow/Sections.h"

#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphAttributes.h"
#include "dialects/graph/GraphKinds.h"

#include "llvm/ADT/DenseSet.h"

#include <algorithm>
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

bool surelyBefore(Section first, Section then) {
  if (first == then || !inBody(first) || !inBody(then))
    return first < then;
  if (isForward(first))
    return !isForward(then) || first < then;
  return !isForward(then) && !isWeight(first) && chunkOf(then) <= chunkOf(first);
}

int chunksOf(func::FuncOp func) {
  auto chunks = func->getAttrOfType<IntegerAttr>(kChunksAttr);
  return chunks ? int(std::clamp<int64_t>(chunks.getInt(), 1, kMostChunks)) : 1;
}

size_t placeOf(Section section, int chunks) {
  if (section == Section::Begin || isForward(section))
    return size_t(section);
  return sectionsOf(chunks) - 1 - (size_t(Section::End) - size_t(section));
}

Section sectionAt(size_t place, int chunks) {
  return place <= size_t(chunks) ? Section(place) : Section(size_t(Section::End) - (sectionsOf(chunks) - 1 - place));
}

static constexpr std::array<llvm::StringLiteral, 5> kNames = {"begin", "forward", "input", "weight", "end"};

/// The section of chunk 0 with this name; Begin: there is none.
static Section sectionNamed(llvm::StringRef name) {
  constexpr std::array<Section, 5> sections = {Section::Begin, Section::Body, Section::Input, Section::Weight,
                                               Section::End};
  const auto *it = llvm::find(kNames, name);
  return it == kNames.end() ? Section::Begin : sections[size_t(it - kNames.begin())];
}

/// "forward", or "forward 2" of chunk 2.
Section sectionOf(Operation *op) {
  auto attribute = op->getAttrOfType<StringAttr>(kSectionAttr);
  if (!attribute)
    return Section::Begin;
  auto [name, number] = attribute.getValue().split(' ');
  const Section section = sectionNamed(name);
  int chunk = 0;
  if (!inBody(section) || number.getAsInteger(10, chunk) || chunk < 0 || chunk >= kMostChunks)
    return section;
  return isForward(section) ? forwardOf(chunk) : isWeight(section) ? weightOf(chunk) : inputOf(chunk);
}

void setSection(Operation *op, Section section) {
  std::string name = kNames[!inBody(section)     ? (section == Section::Begin ? 0 : 4)
                            : isForward(section) ? 1
                            : isWeight(section)  ? 3
                                                 : 2]
                         .str();
  if (inBody(section) && chunkOf(section) > 0)
    name += " " + std::to_string(chunkOf(section));
  op->setAttr(kSectionAttr, StringAttr::get(op->getContext(), name));
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
