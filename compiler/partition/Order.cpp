#include "compiler/partition/Order.h"

#include "dialects/graph/flow/Messages.h"
#include "dialects/graph/flow/Order.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

#include <iterator>

using namespace llvm;
using namespace mlir;

namespace tessera::compiler {

void sortByDependence(func::FuncOp func) {
  const graph::FunctionFlow program(func);
  Operation *end = func.getBody().front().getTerminator();
  for (int step : graph::dependenceOrder(program.flow))
    program.operators[step]->moveBefore(end);
}

/// By step of `sent`; empty: no operator has a turn.
static std::vector<int64_t> turnsOf(const graph::FunctionFlow &program, const graph::MessageFlow &sent) {
  std::vector<int64_t> turns;
  for (const std::vector<int> &members : sent.members) {
    auto turn = program.operators[size_t(members.front())]->getAttrOfType<IntegerAttr>(graph::kTurnAttr);
    turns.push_back(turn ? turn.getInt() : -1);
  }
  if (llvm::all_of(turns, [](int64_t turn) { return turn < 0; }))
    turns.clear();
  return turns;
}

/// The steps that make conversions of kept values to fewer bytes, and the views that those read, in this order.
static std::vector<int> narrowCopies(const graph::DataFlow &flow, ArrayRef<int> order) {
  std::vector<int> copies;
  std::vector<bool> there; // by value: kept from the start, or a view of such a value
  for (const graph::DataFlow::Value &value : flow.values)
    there.push_back(value.maker < 0 && value.kept);
  for (int s : order) {
    const graph::DataFlow::Step &step = flow.steps[size_t(s)];
    auto isThere = [&](int value) { return there[size_t(value)]; };
    if (step.section != graph::Section::Begin || step.reads.empty() || step.makes.size() != 1 ||
        !all_of(step.reads, isThere))
      continue;
    const graph::DataFlow::Value &made = flow.values[size_t(step.makes.front())];
    if (made.viewOf >= 0) {
      there[size_t(step.makes.front())] = true;
      copies.push_back(s);
    } else if (step.part == graph::LoopPart::Points && step.reads.size() == 1 && !made.kept &&
               made.bytes < flow.values[size_t(step.reads.front())].bytes) {
      copies.push_back(s);
    }
  }
  return copies;
}

/// graph::executionOrder, but with conversions of kept values to fewer bytes first if no more lives at once then: a
/// device runs neighbouring conversions as one kernel. What is made behind the peak, such as a copy that only the
/// backward half reads, stays there.
static std::vector<int> orderOf(const graph::DataFlow &flow) {
  const std::vector<int> order = graph::executionOrder(flow);
  const graph::MemoryLoad::Peak peak = graph::peak(flow, order);
  std::vector<int> copiesFirst = narrowCopies(flow, ArrayRef(order).take_front(size_t(peak.time) + 1));
  const llvm::DenseSet<int> copies(copiesFirst.begin(), copiesFirst.end()); // looked up only
  copy_if(order, std::back_inserter(copiesFirst), [&](int s) { return !copies.contains(s); });
  return graph::peak(flow, copiesFirst).bytes <= peak.bytes ? copiesFirst : order;
}

void sortForExecution(func::FuncOp func) {
  const graph::FunctionFlow program(func);
  const graph::MessageFlow sent(program.flow, graph::markedMessages(program));
  std::vector<int64_t> turns = turnsOf(program, sent);
  Operation *end = func.getBody().front().getTerminator();
  for (int step : turns.empty() ? orderOf(sent.flow) : graph::orderByTurns(sent.flow, std::move(turns)))
    for (int member : sent.members[step])
      program.operators[member]->moveBefore(end);
  func.walk([](Operation *op) { op->removeAttr(graph::kTurnAttr); });
}

} // namespace tessera::compiler
