//===- VerifyPhases.cpp - what holds at the end of phases 3, 4 and 5 --------------------------===//
#include "compiler/partition/Passes.h"
#include "compiler/partition/ShardedOp.h"

#include "dialects/dist/DistOps.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/PassBases.h"
#include "dialects/graph/flow/Sections.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/DenseMap.h"

using namespace llvm;
using namespace mlir;

namespace tessera::compiler {

#define GEN_PASS_DEF_VERIFYANNOTATEDPASS
#define GEN_PASS_DEF_VERIFYRESHARDEDPASS
#define GEN_PASS_DEF_VERIFYLOCALPASS
#include "compiler/partition/Passes.h.inc"

using dist::Mesh;
using dist::Sharding;

namespace {

LogicalResult verifyBoundary(func::FuncOp func, const Mesh &mesh) {
  for (unsigned i = 0; i < func.getNumArguments(); ++i)
    if (!argSharding(func, i, mesh))
      return failure();
  for (unsigned i = 0; i < func.getNumResults(); ++i)
    if (!resultSharding(func, i, mesh))
      return failure();
  return success();
}

LogicalResult verifyReshardedFunc(func::FuncOp func, const Mesh &mesh) {
  llvm::DenseMap<Value, Sharding> shardings;
  for (unsigned i = 0; i < func.getNumArguments(); ++i)
    shardings[func.getArgument(i)] = *argSharding(func, i, mesh);
  auto check = [&](OpOperand &operand, const Sharding &want) -> LogicalResult {
    Sharding have = shardings.lookup(operand.get());
    if (dist::sameSharding(mesh, have, want))
      return success();
    Operation *op = operand.getOwner();
    return op->emitError() << "operand " << operand.getOperandNumber() << " of '" << graph::nameOf(op) << "' is "
                           << have.str(mesh) << " where " << want.str(mesh) << " is expected";
  };
  for (Operation &op : func.getBody().front()) {
    if (op.hasTrait<OpTrait::IsTerminator>()) {
      for (OpOperand &operand : op.getOpOperands())
        if (failed(check(operand, *resultSharding(func, operand.getOperandNumber(), mesh))))
          return failure();
      continue;
    }
    if (auto reshard = dyn_cast<dist::ReshardOp>(op)) {
      auto from = reshard.getFrom().resolve(mesh), to = reshard.getTo().resolve(mesh);
      if (!from || !to) {
        consumeError(from.takeError());
        consumeError(to.takeError());
        return reshard.emitError("names an axis that is not in the mesh ") << mesh.str();
      }
      if (Error error = to->verify(mesh, tensorShape(reshard.getX())))
        return reshard.emitError() << toString(std::move(error));
      if (!dist::canReshard(mesh, *from, *to))
        return reshard.emitError("makes a tensor partial: from ") << from->str(mesh) << " to " << to->str(mesh);
      if (failed(check(reshard->getOpOperand(0), *from)))
        return failure();
      shardings[reshard.getY()] = *to;
      continue;
    }
    std::optional<ShardedOp> sharded = ShardedOp::get(&op, mesh);
    if (!sharded)
      return failure();
    for (OpOperand &operand : op.getOpOperands())
      if (failed(check(operand, sharded->operand(int(operand.getOperandNumber())))))
        return failure();
    for (OpResult result : op.getResults())
      shardings[result] = sharded->natural(int(result.getResultNumber()));
  }
  return success();
}

LogicalResult verifyAnnotated(ModuleOp module) {
  Mesh mesh = dist::getMesh(module);
  for (func::FuncOp func : module.getOps<func::FuncOp>()) {
    if (!func.getBody().hasOneBlock())
      return func.emitError("must have one block");
    if (failed(verifyBoundary(func, mesh)))
      return failure();
    for (Operation &op : func.getBody().front().without_terminator())
      if (!ShardedOp::get(&op, mesh))
        return failure();
  }
  return success();
}

LogicalResult verifyResharded(ModuleOp module) {
  Mesh mesh = dist::getMesh(module);
  for (func::FuncOp func : module.getOps<func::FuncOp>())
    if (failed(verifyBoundary(func, mesh)) || failed(verifyReshardedFunc(func, mesh)))
      return failure();
  return success();
}

// The operators' own verifiers check that local types fit together. This function checks the rest.
LogicalResult verifyLocal(ModuleOp module) {
  for (func::FuncOp func : module.getOps<func::FuncOp>()) {
    WalkResult walk = func.walk([](Operation *op) {
      if (isa<dist::ReshardOp>(op)) {
        op->emitError("a reshard is left in a local program");
        return WalkResult::interrupt();
      }
      for (Value result : op->getResults())
        if (auto type = dyn_cast<RankedTensorType>(result.getType()); !type || !type.hasStaticShape()) {
          op->emitError("produces something that is no tensor of static shape");
          return WalkResult::interrupt();
        }
      return WalkResult::advance();
    });
    if (walk.wasInterrupted())
      return failure();
    for (auto [type, value] : llvm::zip(func.getResultTypes(), func.getBody().front().getTerminator()->getOperands()))
      if (type != value.getType())
        return func.emitError("returns types that differ from its signature");
    if (failed(graph::verifySections(func)))
      return failure();
  }
  return success();
}

struct VerifyAnnotated : graph::VerifyPass<impl::VerifyAnnotatedPassBase<VerifyAnnotated>, verifyAnnotated> {};
struct VerifyResharded : graph::VerifyPass<impl::VerifyReshardedPassBase<VerifyResharded>, verifyResharded> {};
struct VerifyLocal : graph::VerifyPass<impl::VerifyLocalPassBase<VerifyLocal>, verifyLocal> {};

} // namespace

} // namespace tessera::compiler
