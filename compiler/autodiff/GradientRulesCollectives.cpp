//===- GradientRulesCollectives.cpp - collectives of per-rank programs (mode hybrid) ----------------===//
//
// In mode hybrid the sum of all ranks' losses is differentiated (docs/adr/0010-hybrid-mode.md). The values of all ranks
// together are one vector. A collective is a linear map of this vector, except maxima and minima. Its gradient rule is
// the transposed map:
//
//   all-reduce     all-reduce           every rank's copy of the result adds to every rank's operand
//   all-gather     reduce-scatter
//   all-to-all     all-to-all with the dimensions exchanged
//   broadcast      reduce to the root, zeros elsewhere
//   permute        the inverse permutation
//   slice          the block in its place, zeros around
//
//===----------------------------------------------------------------------------------------------===//
#include "compiler/autodiff/GradientRules.h"

#include "dialects/dist/DistDialect.h"
#include "dialects/dist/DistOps.h"

using namespace mlir;
using namespace tessera::graph;

namespace tessera::compiler {

using Context = GradientContext;
using dist::Collective;
using dist::CollectiveKind;
using dist::CollectiveOp;

namespace {

/// A collective from y's shape back to x's shape.
Collective back(const Collective &forward, CollectiveKind kind) {
  Collective c;
  c.kind = kind;
  c.axes = forward.axes;
  c.dim = forward.dim;
  c.localIn = forward.localOut;
  c.localOut = forward.localIn;
  return c;
}

/// Contributes the adjoint of a maximum or minimum. Equal extrema share it evenly, also if they lie on different ranks.
/// `y` and `dy` have x's shape.
void extremum(CollectiveOp op, Context &c, Value y, Value dy, const dist::Mesh &mesh) {
  Value x = op.getX();
  Value hit = c.b.binary<EqOp>(x, y);
  Value count = sumOverRanks(c.b, mesh, op.getAxisList(mesh), c.b.cast(hit, elementTypeOf(x)));
  c.give(0, c.b.select(hit, c.b.div(dy, count), c.b.constant(elementTypeOf(x), 0.0)));
}

/// The adjoint at the rank's own block, and zeros elsewhere.
Value inPlace(CollectiveOp op, Context &c, const Collective &slice, const dist::Mesh &mesh) {
  SmallVector<int64_t> zeros(slice.localIn.size(), 0), hi = zeros;
  hi[slice.dim] = slice.localIn[slice.dim] - slice.localOut[slice.dim];
  auto pad = c.b.make<PadOp>(c.dy(), zeros, hi, zeros, llvm::APFloat(0.0));
  Builder attributes(op.getContext());
  SmallVector<Attribute> perRank;
  for (int64_t rank = 0; rank < mesh.numRanks(); ++rank) {
    SmallVector<int64_t> before = zeros, behind = hi;
    before[slice.dim] = mesh.coordinate(rank, slice.axes) * slice.localOut[slice.dim];
    behind[slice.dim] -= before[slice.dim];
    perRank.push_back(
        attributes.getDictionaryAttr({attributes.getNamedAttr("hi", attributes.getDenseI64ArrayAttr(behind)),
                                      attributes.getNamedAttr("lo", attributes.getDenseI64ArrayAttr(before))}));
  }
  pad->setAttr(dist::kPerRankAttr, attributes.getArrayAttr(perRank));
  return pad;
}

/// The value on the group's root, zeros elsewhere.
Value onRoot(Context &c, Value x, const Collective &broadcast, const dist::Mesh &mesh) {
  Builder attributes(x.getContext());
  auto place = c.b.make<IotaOp>(RankedTensorType::get({1}, attributes.getI64Type()), uint64_t(0));
  SmallVector<Attribute> perRank;
  for (int64_t rank = 0; rank < mesh.numRanks(); ++rank)
    perRank.push_back(attributes.getDictionaryAttr(
        attributes.getNamedAttr("start", attributes.getI64IntegerAttr(mesh.coordinate(rank, broadcast.axes)))));
  place->setAttr(dist::kPerRankAttr, attributes.getArrayAttr(perRank));
  Value root = c.b.binary<EqOp>(c.b.reshape(place.getY(), {}), c.b.integer(broadcast.root));
  return c.b.select(root, x, c.b.constant(elementTypeOf(x), 0.0));
}

void collective(CollectiveOp op, Context &c) {
  const dist::Mesh mesh = dist::getMesh(op->getParentOfType<ModuleOp>());
  const Collective forward = op.getCollective(mesh);
  const bool sums = forward.reduction == dist::Reduction::Sum;
  auto make = [&](Value x, const Collective &step) { return c.b.make<CollectiveOp>(x, mesh, step).getY(); };
  switch (forward.kind) {
  case CollectiveKind::AllReduce: {
    Value sum = sumOverRanks(c.b, mesh, forward.axes, c.dy());
    return sums ? c.give(0, sum) : extremum(op, c, op.getY(), sum, mesh);
  }
  case CollectiveKind::AllGather: {
    Collective scatter = back(forward, CollectiveKind::ReduceScatter);
    scatter.reduction = dist::Reduction::Sum;
    return c.give(0, make(c.dy(), scatter));
  }
  case CollectiveKind::ReduceScatter: {
    Collective gather = back(forward, CollectiveKind::AllGather);
    Value dy = make(c.dy(), gather);
    return sums ? c.give(0, dy) : extremum(op, c, make(op.getY(), gather), dy, mesh);
  }
  case CollectiveKind::AllToAll: {
    Collective reverse = back(forward, CollectiveKind::AllToAll);
    reverse.dim = forward.splitDim;
    reverse.splitDim = forward.dim;
    return c.give(0, make(c.dy(), reverse));
  }
  case CollectiveKind::Broadcast:
    return c.give(0, onRoot(c, sumOverRanks(c.b, mesh, forward.axes, c.dy()), forward, mesh));
  case CollectiveKind::Permute: {
    Collective inverse = back(forward, CollectiveKind::Permute);
    inverse.sources.resize(forward.sources.size());
    for (auto [rank, source] : llvm::enumerate(forward.sources))
      inverse.sources[source] = int64_t(rank);
    return c.give(0, make(c.dy(), inverse));
  }
  case CollectiveKind::Slice:
    return c.give(0, inPlace(op, c, forward, mesh));
  case CollectiveKind::Halo:
  case CollectiveKind::Fit:
  case CollectiveKind::Exchange:
  case CollectiveKind::Fold:
    return c.fail("this kind of collective has no gradient");
  }
}

} // namespace

void addCollectiveRules(GradientRules &r) { r.rule<CollectiveOp>(collective); }

} // namespace tessera::compiler
