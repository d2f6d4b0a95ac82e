//===- Schedule.cpp - an order that needs less memory --------------------------------------------===//
//
// dialects/graph/Order.h says which one.
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
