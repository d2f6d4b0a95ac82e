//===- Schedule.cpp - the order of execution ------------------------------------------------------===//
//
// dialects/graph/flow/Order.h describes the order, which needs less memory than the program's own.
//
//===----------------------------------------------------------------------------------------------===//
#include "compiler/partition/Order.h"
#include "compiler/partition/Passes.h"

#include "dialects/dist/DistDialect.h"
#include "dialects/graph/Graph.h"

using namespace mlir;

namespace tessera::compiler {

#define GEN_PASS_DEF_SCHEDULEPASS
#include "compiler/partition/Passes.h.inc"

namespace {

struct SchedulePass : impl::SchedulePassBase<SchedulePass> {
  void runOnOperation() override {
    for (func::FuncOp func : getOperation().getOps<func::FuncOp>())
      sortForExecution(func);
  }
};

} // namespace

} // namespace tessera::compiler
