#include "compiler/partition/Order.h"

#include "dialects/graph/Messages.h"
#include "dialects/graph/Order.h"

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

void sortForExecution(func::FuncOp func) {
  const graph::FunctionFlow program(func);
  const graph::MessageFlow sent(program.flow, graph::markedMessages(program));
  std::vector<int64_t> turns = turnsOf(program, sent);
  Operation *end = func.getBody().front().getTerminator();
  for (int step : turns.empty() ? graph::executionOrder(sent.flow) : graph::orderByTurns(sent.flow, std::move(turns)))
    for (int member : sent.members[step])
      program.operators[member]->moveBefore(end);
  func.walk([](Operation *op) { op->removeAttr(graph::kTurnAttr); });
}

} // namespace tessera::compiler
