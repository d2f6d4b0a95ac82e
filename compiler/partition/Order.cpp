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

void sortForExecution(func::FuncOp func) {
  const graph::FunctionFlow program(func);
  const graph::MessageFlow sent(program.flow, graph::markedMessages(program));
  Operation *end = func.getBody().front().getTerminator();
  for (int step : graph::executionOrder(sent.flow))
    for (int member : sent.members[step])
      program.operators[member]->moveBefore(end);
}

} // namespace tessera::compiler
