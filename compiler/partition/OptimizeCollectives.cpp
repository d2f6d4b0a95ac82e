//===- OptimizeCollectives.cpp - what neighbouring reshards have in common --------------------===//
//
// The planner makes each reshard cheap by itself. Across operators remain: an all-reduce of which
// every user keeps only its block (a reduce-scatter), equal collectives of one value (made once),
// and collectives nobody uses (unused results are dropped).
//
//===----------------------------------------------------------------------------------------------===//
#include "compiler/partition/Passes.h"

#include "dialects/dist/DistOps.h"
#include "dialects/graph/Graph.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <map>

using namespace llvm;
using namespace mlir;

namespace tessera::compiler {

#define GEN_PASS_DEF_OPTIMIZECOLLECTIVESPASS
#include "compiler/partition/Passes.h.inc"

using dist::Collective;
using dist::CollectiveKind;
using dist::CollectiveOp;
using dist::Mesh;

namespace {

/// An all-reduce of which all users are the same slice by the same axes.
void scatter(CollectiveOp reduce, const Mesh &mesh) {
  if (reduce.getCollectiveKind() != CollectiveKind::AllReduce || reduce->use_empty())
    return;
  CollectiveOp first;
  for (Operation *user : reduce->getUsers()) {
    auto slice = dyn_cast<CollectiveOp>(user);
    if (!slice || slice.getCollectiveKind() != CollectiveKind::Slice)
      return;
    if (!first)
      first = slice;
    if (slice.getAxes() != first.getAxes() || slice.getDim() != first.getDim())
      return;
  }
  // The group's order is the slice's; the sum is over the same ranks whichever order they stand in.
  dist::AxisList a = reduce.getAxisList(mesh), b = first.getAxisList(mesh);
  llvm::sort(a);
  llvm::sort(b);
  if (a != b)
    return;
  Collective step = first.getCollective(mesh);
  step.kind = CollectiveKind::ReduceScatter;
  step.reduction = reduce.getCollective(mesh).reduction;
  OpBuilder builder(reduce);
  auto op = CollectiveOp::create(builder, reduce.getLoc(), reduce.getX(), mesh, step);
  op->setDiscardableAttrs(reduce->getDiscardableAttrDictionary());
  for (Operation *user : llvm::make_early_inc_range(reduce->getUsers())) {
    user->getResult(0).replaceAllUsesWith(op.getY());
    user->erase();
  }
  reduce.erase();
}

void shareEqual(func::FuncOp func) {
  // By operand, attributes and type; looked up only.
  std::map<std::tuple<const void *, const void *, const void *>, CollectiveOp> seen;
  for (CollectiveOp op : llvm::make_early_inc_range(func.getOps<CollectiveOp>())) {
    NamedAttrList attributes(op->getAttrDictionary());
    attributes.erase(graph::kNameAttr);
    auto key =
        std::tuple(op.getX().getAsOpaquePointer(), attributes.getDictionary(op.getContext()).getAsOpaquePointer(),
                   op.getType().getAsOpaquePointer());
    auto [it, fresh] = seen.try_emplace(key, op);
    if (fresh)
      continue;
    op.replaceAllUsesWith(it->second.getY());
    op.erase();
  }
}

void dropUnused(func::FuncOp func) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(func.getBody().front())))
    if (isOpTriviallyDead(&op))
      op.erase();
}

struct OptimizeCollectivesPass : impl::OptimizeCollectivesPassBase<OptimizeCollectivesPass> {
  void runOnOperation() override {
    Mesh mesh = dist::getMesh(getOperation());
    for (func::FuncOp func : getOperation().getOps<func::FuncOp>()) {
      dropUnused(func);
      shareEqual(func);
      SmallVector<CollectiveOp> reductions; // scatter() erases slices, never another one of these
      for (CollectiveOp op : func.getOps<CollectiveOp>())
        if (op.getCollectiveKind() == CollectiveKind::AllReduce)
          reductions.push_back(op);
      for (CollectiveOp op : reductions)
        scatter(op, mesh);
    }
  }
};

} // namespace

} // namespace tessera::compiler
