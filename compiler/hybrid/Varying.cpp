#include "compiler/hybrid/Varying.h"

#include "dialects/dist/DistDialect.h"
#include "dialects/dist/DistOps.h"

using namespace llvm;
using namespace mlir;

namespace tessera::compiler {

using dist::AxisList;
using dist::CollectiveKind;
using dist::Mesh;
using dist::Sharding;

AxisSet axisSet(ArrayRef<int> axes) {
  AxisSet set = 0;
  for (int axis : axes)
    set |= AxisSet(1) << axis;
  return set;
}

AxisList axisList(AxisSet set) {
  AxisList axes;
  for (int axis = 0; set >> axis; ++axis)
    if (set >> axis & 1)
      axes.push_back(axis);
  return axes;
}

AxisSet axesOf(const Sharding &sharding) {
  AxisSet set = 0;
  for (const AxisList &axes : sharding.dims)
    set |= axisSet(axes);
  return set;
}

AxisSet longAxes(const Mesh &mesh) {
  AxisSet set = 0;
  for (int axis = 0; axis < mesh.numAxes(); ++axis)
    if (mesh.axisSize(axis) > 1)
      set |= AxisSet(1) << axis;
  return set;
}

std::string axesText(const Mesh &mesh, AxisSet set) {
  std::string text;
  for (int axis : axisList(set))
    text += (text.empty() ? "" : "+") + mesh.axisName(axis).str();
  return text.empty() ? "-" : text;
}

Varying::Varying(func::FuncOp func, const Mesh &mesh) : mesh_(mesh), all_(longAxes(mesh)) {
  for (unsigned i = 0; i < func.getNumArguments(); ++i) {
    auto attr = func.getArgAttrOfType<dist::ShardingAttr>(i, dist::kShardingAttr);
    sets_[func.getArgument(i)] = axesOf(cantFail(attr.resolve(mesh_))) & all_;
  }
  for (Operation &op : func.getBody().front().without_terminator())
    update(&op);
}

void Varying::update(Operation *op) {
  AxisSet set = ofResult(op);
  for (Value result : op->getResults())
    sets_[result] = set;
}

/// The axes along which attributes of the kernel differ.
static AxisSet ofAttributes(Operation *op, const Mesh &mesh) {
  auto perRank = op->getAttrOfType<ArrayAttr>(dist::kPerRankAttr);
  if (!perRank)
    return 0;
  AxisSet set = 0;
  for (int axis = 0; axis < mesh.numAxes(); ++axis)
    for (int64_t rank = 0; rank < int64_t(perRank.size()); ++rank)
      if (perRank[rank] != perRank[mesh.group(rank, axis)[0]])
        set |= AxisSet(1) << axis;
  return set;
}

AxisSet Varying::ofResult(Operation *op) const {
  AxisSet set = ofAttributes(op, mesh_);
  for (Value operand : op->getOperands())
    set |= of(operand);
  auto collective = dyn_cast<dist::CollectiveOp>(op);
  if (!collective)
    return set;
  AxisSet group = axisSet(collective.getAxisList(mesh_)) & all_;
  switch (collective.getCollectiveKind()) {
  case CollectiveKind::AllReduce:
  case CollectiveKind::AllGather:
  case CollectiveKind::Broadcast:
    return set & ~group;
  case CollectiveKind::Slice:
  case CollectiveKind::ReduceScatter:
  case CollectiveKind::AllToAll:
  case CollectiveKind::Halo:
  case CollectiveKind::Exchange:
    return set | group;
  case CollectiveKind::Fit:
  case CollectiveKind::Fold:
    return set;
  case CollectiveKind::Permute:
    break;
  }
  // If the operand is equal along all axes along which blocks move, the permutation changes nothing. Otherwise the
  // result depends on the source, which may depend on the rank's coordinates along other axes as well.
  AxisSet moved = 0;
  for (auto [rank, source] : enumerate(collective.getSources()))
    for (int axis = 0; axis < mesh_.numAxes(); ++axis)
      if (mesh_.coordinate(int64_t(rank), axis) != mesh_.coordinate(source, axis))
        moved |= AxisSet(1) << axis;
  if (!(set & moved))
    return set;
  for (int64_t rank = 0; rank < mesh_.numRanks(); ++rank) {
    // The rank with the same coordinates along the axes that move, and with the coordinates 0 along the others.
    int64_t first = rank;
    for (int axis = 0; axis < mesh_.numAxes(); ++axis)
      if (!(moved >> axis & 1))
        first = mesh_.group(first, axis)[0];
    for (int axis : axisList(moved))
      if (mesh_.coordinate(collective.getSources()[rank], axis) !=
          mesh_.coordinate(collective.getSources()[first], axis))
        return all_;
  }
  return set | moved;
}

} // namespace tessera::compiler
