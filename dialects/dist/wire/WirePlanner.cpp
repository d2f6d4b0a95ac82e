#include "dialects/dist/wire/WirePlanner.h"

#include "dialects/dist/ReshardGraph.h"

#include <cmath>

namespace tessera::dist {

bool isSum(const Collective &c) {
  return (c.kind == CollectiveKind::AllReduce || c.kind == CollectiveKind::ReduceScatter) &&
         c.reduction == Reduction::Sum;
}

std::vector<SentPart> sentBy(const Mesh &mesh, const Collective &sum, int64_t elementBytes) {
  double bytes = double(elementBytes);
  for (int64_t d : sum.localIn)
    bytes *= double(d);
  const int64_t ranks = mesh.size(sum.axes);
  std::vector<SentPart> parts;
  if (sum.wire.kind == Wire::Kind::Factors) {
    const MatrixView matrix(sum.localIn);
    for (int64_t rows : {matrix.rows, matrix.columns}) {
      Collective part;
      part.kind = CollectiveKind::AllReduce;
      part.reduction = Reduction::Sum;
      part.axes = sum.axes;
      part.localIn = part.localOut = {rows, sum.wire.rank};
      parts.push_back({part, elementBytes});
    }
    return parts;
  }
  for (double share : {sum.wire.numbers(), sum.wire.scales()}) {
    if (share == 0)
      continue;
    const auto each = int64_t(std::ceil(bytes * share / double(ranks))); // to one rank
    Collective part;
    part.kind = CollectiveKind::AllToAll;
    part.axes = sum.axes;
    part.dim = 1;
    part.splitDim = 0;
    part.localIn = {ranks, 1};
    part.localOut = {1, ranks};
    parts.push_back({part, each});
    if (sum.kind != CollectiveKind::AllReduce)
      continue;
    part.kind = CollectiveKind::AllGather;
    part.dim = 0;
    part.splitDim = -1;
    part.localIn = {1, 1};
    part.localOut = {ranks, 1};
    parts.push_back({part, each});
  }
  return parts;
}

WirePlanner::WirePlanner(const Mesh &mesh, CollectiveCost cost, SumRules sums)
    : mesh_(mesh), cost_(std::move(cost)), sums_(std::move(sums)) {}

Wire WirePlanner::wireOf(const Collective &step, int64_t elementBytes, const Wire &wire) const {
  if (!wire || !isSum(step))
    return {};
  Collective sent = step;
  sent.wire = wire;
  // Vectors and thin matrices are sent as they are: factors of them are no smaller.
  if (wire.kind == Wire::Kind::Factors && bytesSent(mesh_, sent, elementBytes) >= bytesSent(mesh_, step, elementBytes))
    return {};
  return !sums_.narrows || sums_.narrows(sent, elementBytes) ? wire : Wire();
}

ReshardPlanner &WirePlanner::of(const Wire &wire) {
  auto it = planners_.find(wire);
  if (it != planners_.end())
    return it->second;
  CollectiveCost cost = cost_;
  if (wire)
    cost = [this, wire](const Collective &step, int64_t elementBytes) {
      const Wire own = wireOf(step, elementBytes, wire);
      if (!own)
        return cost_(step, elementBytes);
      Collective sent = step;
      sent.wire = own;
      return cost_(sent, elementBytes);
    };
  return planners_.emplace(wire, ReshardPlanner(mesh_, std::move(cost))).first->second;
}

/// The all-reduce, reduce-scatter or all-gather over several axes that is the whole reshard; nothing if none is.
static std::optional<Collective> overSeveralAxes(const Mesh &mesh, llvm::ArrayRef<int64_t> shape, const Sharding &from,
                                                 const Sharding &to) {
  AxisList axes; // that are summed over
  for (int axis : from.partial)
    if (mesh.axisSize(axis) > 1 && !llvm::is_contained(to.partial, axis))
      axes.push_back(axis);
  CollectiveKind kind = CollectiveKind::AllReduce;
  int64_t dim = -1;
  for (int64_t d = 0; d < from.rank(); ++d) {
    if (from.dims[d] == to.dims[d])
      continue;
    if (dim >= 0)
      return std::nullopt;
    dim = d;
  }
  if (dim >= 0) {
    const Sharding &finer = axes.empty() ? from : to;
    const Cut &more = finer.dims[dim], &less = (axes.empty() ? to : from).dims[dim];
    // Each axis leaves padding of its own, so padded blocks are joined and cut axis by axis.
    if (more.size() <= less.size() || finer.isPadded(mesh, shape, dim) ||
        !(more.first(less.size(), mesh, shape[dim]) == less))
      return std::nullopt;
    AxisList further(llvm::ArrayRef<int>(more).drop_front(less.size())), summed = further;
    llvm::sort(summed);
    if (!axes.empty() && summed != axes)
      return std::nullopt;
    kind = axes.empty() ? CollectiveKind::AllGather : CollectiveKind::ReduceScatter;
    axes = std::move(further);
  }
  if (axes.size() < 2)
    return std::nullopt;
  llvm::SmallVector<Collective, 1> steps = makeStep(mesh, shape, kind, axes, dim, -1, from, to);
  return steps.size() == 1 ? std::optional(std::move(steps.front())) : std::nullopt;
}

/// One collective where the cheapest plan has several.
std::optional<Collective> WirePlanner::inOne(llvm::ArrayRef<int64_t> shape, int64_t elementBytes, const Sharding &from,
                                             const Sharding &to, const Wire &wire) {
  if (!sums_.joined || !canReshard(mesh_, from, to))
    return std::nullopt;
  std::optional<Collective> found = overSeveralAxes(mesh_, shape, from, to);
  if (!found)
    return std::nullopt;
  Collective &whole = *found;
  whole.wire = wireOf(whole, elementBytes, wire);
  if (std::isinf(cost_(whole, elementBytes))) // it would add in another order
    return std::nullopt;
  const std::vector<Collective> steps = of(wire).plan(shape, elementBytes, from, to);
  double apart = double(steps.size()); // each may be rounded down
  for (Collective step : steps) {
    step.wire = wireOf(step, elementBytes, wire);
    apart += sums_.joined(step, elementBytes);
  }
  if (steps.size() < 2 || sums_.joined(whole, elementBytes) > apart)
    return std::nullopt;
  return found;
}

std::vector<Collective> WirePlanner::plan(llvm::ArrayRef<int64_t> shape, int64_t elementBytes, const Sharding &from,
                                          const Sharding &to, const Wire &wire) {
  if (std::optional<Collective> whole = inOne(shape, elementBytes, from, to, wire))
    return {std::move(*whole)};
  std::vector<Collective> steps = of(wire).plan(shape, elementBytes, from, to);
  for (Collective &step : steps)
    step.wire = wireOf(step, elementBytes, wire);
  return steps;
}

double WirePlanner::cost(llvm::ArrayRef<int64_t> shape, int64_t elementBytes, const Sharding &from, const Sharding &to,
                         const Wire &wire) {
  if (std::optional<Collective> whole = inOne(shape, elementBytes, from, to, wire))
    return cost_(*whole, elementBytes);
  return of(wire).cost(shape, elementBytes, from, to);
}

} // namespace tessera::dist
