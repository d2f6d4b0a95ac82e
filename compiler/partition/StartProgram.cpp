//===- StartProgram.cpp - equal copies before the first step --------------------------------------===//
//
// Every rank reads its parameters and states from files that it opens itself. @start runs once after that. It sends
// each block that several ranks hold from the first of them to the others, so that the copies are equal even if the
// files were not.
//
//===----------------------------------------------------------------------------------------------===//
#include "compiler/partition/Passes.h"
#include "compiler/partition/ShardedOp.h"

#include "dialects/dist/DistDialect.h"
#include "dialects/dist/DistOps.h"
#include "dialects/graph/Graph.h"

#include "mlir/IR/Builders.h"

#include <map>

using namespace llvm;
using namespace mlir;

namespace tessera::compiler {

#define GEN_PASS_DEF_ADDSTARTPROGRAMPASS
#include "compiler/partition/Passes.h.inc"

namespace {

LogicalResult addStartProgram(ModuleOp local) {
  const dist::Mesh mesh = dist::getMesh(local);
  OpBuilder builder(local.getContext());
  builder.setInsertionPointToEnd(local.getBody());
  auto start = func::FuncOp::create(builder, local.getLoc(), "start", builder.getFunctionType({}, {}));
  Block *block = start.addEntryBlock();
  OpBuilder body = OpBuilder::atBlockEnd(block);
  std::map<std::pair<StringRef, StringRef>, bool> seen; // by role and name
  SmallVector<Value> results;
  SmallVector<DictionaryAttr> argumentAttrs, resultAttrs;
  for (func::FuncOp func : local.getOps<func::FuncOp>()) {
    if (func == start)
      continue;
    for (unsigned i = 0; i < func.getNumArguments(); ++i) {
      StringRef role = graph::argRole(func, i), name = graph::argName(func, i);
      if ((role != graph::kParameter && role != graph::kState) || !seen.try_emplace({role, name}, true).second)
        continue;
      std::optional<dist::Sharding> sharding = argSharding(func, i, mesh);
      if (!sharding)
        return failure();
      dist::Collective send;
      send.kind = dist::CollectiveKind::Broadcast;
      for (int axis = 0; axis < mesh.numAxes(); ++axis)
        if (mesh.axisSize(axis) > 1 && !sharding->uses(axis))
          send.axes.push_back(axis);
      if (send.axes.empty())
        continue;
      Value argument = block->addArgument(func.getArgumentTypes()[i], func.getLoc());
      send.localIn = send.localOut = tensorShape(argument);
      auto op = dist::CollectiveOp::create(body, func.getLoc(), argument, mesh, send);
      op->setAttr(graph::kNameAttr, builder.getStringAttr(name));
      NamedAttrList attrs(func.getArgAttrDict(i)), result(attrs);
      attrs.set(graph::kUpdateAttr, builder.getI64IntegerAttr(int64_t(results.size())));
      result.erase(graph::kUpdateAttr);
      result.erase(graph::kFillAttr);
      result.set(graph::kRoleAttr, builder.getStringAttr(graph::kUpdate));
      results.push_back(op.getY());
      argumentAttrs.push_back(attrs.getDictionary(local.getContext()));
      resultAttrs.push_back(result.getDictionary(local.getContext()));
    }
  }
  if (results.empty()) {
    start.erase();
    return success();
  }
  func::ReturnOp::create(body, local.getLoc(), results);
  start.setFunctionType(builder.getFunctionType(block->getArgumentTypes(), ValueRange(results).getTypes()));
  start.setAllArgAttrs(argumentAttrs);
  start.setAllResultAttrs(resultAttrs);
  return success();
}

struct AddStartProgram : impl::AddStartProgramPassBase<AddStartProgram> {
  void runOnOperation() override {
    if (failed(addStartProgram(getOperation())))
      signalPassFailure();
  }
};

} // namespace

} // namespace tessera::compiler
