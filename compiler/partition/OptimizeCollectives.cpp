//===- OptimizeCollectives.cpp - optimises collectives across reshards ------------------------===//
//
// The planner optimises each reshard by itself. This pass optimises across reshards. An all-reduce whose users all keep
// only their block becomes a reduce-scatter. Of equal collectives of one value the first is kept. Collectives without
// users are erased.
//
//===----------------------------------------------------------------------------------------------===//
#include "compiler/partition/Passes.h"

#include "dialects/dist/DistOps.h"
#include "dialects/dist/leaves/Leaves.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/Unused.h"

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

/// Turns an all-reduce into a reduce-scatter if all its users are the same slice by the same axes.
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
  // The reduce-scatter takes the slice's order of axes. The sum is over the same ranks in any order, but not to the bit.
  if (dist::leavesOf(reduce) > 0 && reduce.getAxes() != first.getAxes())
    return;
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

struct OptimizeCollectivesPass : impl::OptimizeCollectivesPassBase<OptimizeCollectivesPass> {
  void runOnOperation() override {
    Mesh mesh = dist::getMesh(getOperation());
    for (func::FuncOp func : getOperation().getOps<func::FuncOp>()) {
      graph::eraseUnused(func.getBody().front());
      shareEqual(func);
      SmallVector<CollectiveOp> reductions; // a copy of the list, since scatter() erases; it erases no other all-reduce
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
