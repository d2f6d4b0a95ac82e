#include "compiler/partition/Order.h"

#include "dialects/graph/Order.h"

using namespace mlir;

namespace tessera::compiler {

static void arrange(func::FuncOp func, llvm::function_ref<std::vector<int>(const graph::DataFlow &)> orderOf) {
  const graph::FunctionFlow program(func);
  Operation *end = func.getBody().front().getTerminator();
  for (int step : orderOf(program.flow))
    program.operators[step]->moveBefore(end);
}

void sortByDependence(func::FuncOp func) { arrange(func, graph::dependenceOrder); }

void sortForExecution(func::FuncOp func) { arrange(func, graph::executionOrder); }

} // namespace tessera::compiler
