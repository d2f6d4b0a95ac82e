//===- Reshard.cpp - the resharding planner --------------------------------------------------===//
//
// ReshardGraph.h describes the graph. The edges that leave a state do not depend on where a path started, so all pairs
// of a shape share them. One Dijkstra run per source is kept, and continued when a caller asks for a farther target.
//
// Axes of size 1 are removed first. A cut by them changes nothing, and without them shardings that mean the same
// compare equal.
//
//===----------------------------------------------------------------------------------------------===//
#include "dialects/dist/Reshard.h"

#include "dialects/dist/ReshardGraph.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <numeric>
#include <queue>
#include <set>

namespace tessera::dist {

using llvm::ArrayRef;
using llvm::SmallVector;

/// The same sharding without axes of size 1.
static Sharding stripped(const Mesh &mesh, const Sharding &s) {
  auto trivial = [&](int axis) { return mesh.axisSize(axis) == 1; };
  Sharding r = s;
  for (Cut &cut : r.dims)
    llvm::erase_if(cut, trivial);
  llvm::erase_if(r.partial, trivial);
  if (r.partial.empty())
    r.reduction = Reduction::None;
  return r;
}

/// canReshard for shardings without axes of size 1.
static bool paysOnly(const Sharding &from, const Sharding &to) {
  if (to.partial.empty())
    return true;
  return to.reduction == from.reduction &&
         llvm::all_of(to.partial, [&](int axis) { return llvm::is_contained(from.partial, axis); });
}

bool sameSharding(const Mesh &mesh, const Sharding &a, const Sharding &b) {
  if (a == b)
    return true;
  const bool hasSingle = llvm::any_of(mesh.axes(), [](const MeshAxis &axis) { return axis.size == 1; });
  return hasSingle && stripped(mesh, a) == stripped(mesh, b);
}

bool canReshard(const Mesh &mesh, const Sharding &from, const Sharding &to) {
  return paysOnly(stripped(mesh, from), stripped(mesh, to));
}

std::string notOwed(const Mesh &mesh, const Sharding &from, const Sharding &to) {
  return "as " + to.str(mesh) + ", but it is handed on as " + from.str(mesh) +
         "; a tensor cannot become a partial sum: change one of the two strategies";
}

namespace {

/// With more axes than this, the graph of shardings is too large to search.
constexpr int kMaxSearchedAxes = 5;
/// Up to this many axes, all pairs of a shape share one graph. With more, only pairs that use the same axes do, which
/// keeps each graph small.
constexpr int kMaxSharedAxes = 4;

/// Dijkstra's algorithm from one sharding. It stops at the target and continues from there for the next one.
class Paths {
public:
  Paths(ShardingGraph &graph, int source) : graph_(graph) {
    grow();
    reach(source, 0, {});
  }

  /// Settles the target. False: it cannot be reached.
  bool settle(int target) {
    while (target >= int(settled_.size()) || !settled_[target]) {
      if (queue_.empty())
        return false;
      auto [cost, order, id] = queue_.top();
      queue_.pop();
      if (settled_[id])
        continue;
      settled_[id] = true;
      const std::vector<ShardingGraph::Edge> &edges = graph_.edges(id);
      grow();
      for (size_t i = 0; i < edges.size(); ++i)
        if (cost + edges[i].cost < costs_[edges[i].target]) // a settled one costs no more than this one
          reach(edges[i].target, cost + edges[i].cost, {id, int(i)});
    }
    return true;
  }
  double cost(int target) const { return costs_[target]; }
  /// One step of a path.
  struct Step {
    int from, to;
    int edge; // of `from`
  };

  /// From the source to the settled target.
  SmallVector<Step> path(int target) const {
    SmallVector<Step> steps;
    for (int id = target; origins_[id].state >= 0; id = origins_[id].state)
      steps.push_back({origins_[id].state, id, origins_[id].edge});
    std::reverse(steps.begin(), steps.end());
    return steps;
  }

private:
  struct Origin {
    int state = -1, edge = -1;
  };
  using Entry = std::tuple<double, int64_t, int>; // cost, order of insertion, state

  void grow() {
    costs_.resize(size_t(graph_.states()), std::numeric_limits<double>::infinity());
    origins_.resize(costs_.size());
    settled_.resize(costs_.size(), false);
  }
  void reach(int id, double cost, Origin origin) {
    costs_[id] = cost;
    origins_[id] = origin;
    queue_.push({cost, counter_++, id});
  }

  ShardingGraph &graph_;
  std::vector<double> costs_; // by state
  std::vector<Origin> origins_;
  std::vector<char> settled_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> queue_;
  int64_t counter_ = 0;
};

/// The plan where the graph is too large: all-reduce, all-gather the cuts that differ, slice. Correct on every mesh,
/// but not the cheapest.
std::vector<Collective> plainPlan(const Mesh &mesh, ArrayRef<int64_t> shape, const Sharding &from, const Sharding &to) {
  std::vector<Collective> plan;
  Sharding at = from;
  auto step = [&](CollectiveKind kind, ArrayRef<int> axes, int64_t dim, const Sharding &next) {
    for (Collective &c : makeStep(mesh, shape, kind, axes, dim, -1, at, next))
      plan.push_back(std::move(c));
    at = next;
  };
  AxisList summed;
  for (int axis : from.partial)
    if (!llvm::is_contained(to.partial, axis))
      summed.push_back(axis);
  if (!summed.empty()) {
    Sharding next = at;
    next.partial = to.partial;
    next.reduction = to.reduction;
    step(CollectiveKind::AllReduce, summed, -1, next);
  }
  auto first = [&](const Sharding &s, int64_t d, size_t count) { return s.dims[d].first(count, mesh, shape[d]); };
  auto common = [&](int64_t d) {
    size_t n = 0, most = std::min(from.dims[d].size(), to.dims[d].size());
    while (n < most && first(from, d, n + 1) == first(to, d, n + 1))
      ++n;
    return n;
  };
  // A padded dimension is joined and cut axis by axis, since each axis leaves padding of its own; others in one step.
  for (int64_t d = 0; d < from.rank(); ++d) {
    size_t keep = common(d);
    bool padded = from.isPadded(mesh, shape, d);
    while (at.dims[d].size() > keep) {
      Sharding next = at;
      next.dims[d] = first(from, d, padded ? at.dims[d].size() - 1 : keep);
      step(CollectiveKind::AllGather, ArrayRef<int>(at.dims[d]).drop_front(next.dims[d].size()), d, next);
    }
  }
  for (int64_t d = 0; d < from.rank(); ++d) {
    bool padded = to.isPadded(mesh, shape, d);
    while (at.dims[d].size() < to.dims[d].size()) {
      Sharding next = at;
      next.dims[d] = first(to, d, padded ? at.dims[d].size() + 1 : to.dims[d].size());
      step(CollectiveKind::Slice, ArrayRef<int>(next.dims[d]).drop_front(at.dims[d].size()), d, next);
    }
  }
  return plan;
}

} // namespace

struct ReshardPlanner::Impl {
  struct PerShape {
    PerShape(const Mesh &mesh, const CollectiveCost &cost, ArrayRef<int64_t> shape, int64_t elementBytes, AxisList axes,
             DimUnits units, ExchangeTable *table)
        : graph(mesh, cost, shape, elementBytes, std::move(axes), std::move(units), table) {}
    ShardingGraph graph;
    std::vector<std::unique_ptr<Paths>> paths; // by source
    int lastSource = -1;                       // asked for
  };

  Mesh mesh;
  CollectiveCost cost;
  AxisList axes;               // longer than 1
  SmallVector<int64_t> blocks; // in which some of these axes cut a dimension: products of their sizes
  using Key = std::tuple<Shape, int64_t, AxisList, DimUnits>;
  std::map<Shape, ExchangeTable> tables; // by form
  std::map<Key, std::unique_ptr<PerShape>> shapes;
  Key lastKey; // of the last call of find, with the shape as it was asked for
  PerShape *last = nullptr;

  Impl(const Mesh &m, CollectiveCost c) : mesh(m), cost(std::move(c)) {
    std::set<int64_t> products = {1};
    for (int axis = 0; axis < mesh.numAxes(); ++axis)
      if (mesh.axisSize(axis) > 1) {
        axes.push_back(axis);
        for (int64_t n : std::set<int64_t>(products))
          products.insert(n * mesh.axisSize(axis));
      }
    blocks.assign(products.begin(), products.end());
  }

  /// The least extent that is cut as this one is: evenly into the same numbers of blocks, and into no others. The
  /// extent itself if it can be cut into padded blocks.
  int64_t leastExtent(int64_t extent) const {
    int64_t least = 1;
    for (int64_t n : blocks)
      if (extent % n == 0)
        least = std::lcm(least, n);
    const bool isEven = llvm::all_of(blocks, [&](int64_t n) { return extent % n == 0 || n > extent; });
    return isEven ? least : extent;
  }

  /// Tensors of as many bytes whose dimensions are cut alike have the same ways at the same costs. Turns a shape into
  /// the least of them, with larger elements.
  void toLeast(Shape &shape, int64_t &elementBytes) const {
    for (int64_t &extent : shape) {
      const int64_t least = leastExtent(extent);
      elementBytes *= extent / least;
      extent = least;
    }
  }

  /// The exchanges of tensors of this shape; nullptr: only some axes cut it, or nothing does.
  ExchangeTable *table(ArrayRef<int64_t> shape) {
    if (int(axes.size()) > kMaxSharedAxes || shape.empty())
      return nullptr;
    const Shape form = ExchangeTable::form(mesh, shape);
    return &tables.try_emplace(form, mesh, form, axes).first->second;
  }

  /// nullptr: too many axes to search.
  PerShape *find(ArrayRef<int64_t> shape, int64_t elementBytes, const Sharding &from, const Sharding &to) {
    AxisList relevant = axes;
    if (int(axes.size()) > kMaxSharedAxes)
      llvm::erase_if(relevant, [&](int axis) { return !from.uses(axis) && !to.uses(axis); });
    if (int(relevant.size()) > kMaxSearchedAxes)
      return nullptr;
    // The ways between plain blocks lead over plain blocks.
    DimUnits units;
    for (const Sharding *s : {&from, &to})
      for (int64_t d = 0; d < s->rank(); ++d)
        if (s->dims[d].unit > 1)
          units.push_back({d, s->dims[d].unit});
    llvm::sort(units);
    units.erase(std::unique(units.begin(), units.end()), units.end());
    // Questions about one tensor come one after the other.
    auto isLast = [&] {
      const auto &[lastShape, lastBytes, lastAxes, lastUnits] = lastKey;
      return shape == ArrayRef<int64_t>(lastShape) && elementBytes == lastBytes && relevant == lastAxes &&
             units == lastUnits;
    };
    if (last && isLast())
      return last;
    lastKey = Key(Shape(shape.begin(), shape.end()), elementBytes, relevant, units);
    Shape least(shape.begin(), shape.end());
    if (units.empty())
      toLeast(least, elementBytes);
    auto [it, fresh] = shapes.try_emplace(Key(least, elementBytes, relevant, units));
    if (fresh)
      it->second = std::make_unique<PerShape>(mesh, cost, least, elementBytes, relevant, units, table(least));
    last = it->second.get();
    return last;
  }

  /// The settled paths from `from`, and the target's state.
  std::pair<Paths *, int> settle(PerShape &entry, const Sharding &from, const Sharding &to) {
    // And so do those about one source.
    int source = entry.lastSource;
    if (source < 0 || !(entry.graph.sharding(source) == from))
      source = entry.lastSource = entry.graph.state(from);
    int target = entry.graph.state(to);
    if (size_t(source) >= entry.paths.size())
      entry.paths.resize(size_t(source) + 1);
    std::unique_ptr<Paths> &paths = entry.paths[source];
    if (!paths)
      paths = std::make_unique<Paths>(entry.graph, source);
    bool reached = paths->settle(target);
    assert(reached && "every sharding that canReshard allows can be reached");
    (void)reached;
    return {paths.get(), target};
  }

  /// The sharding without axes of size 1. `storage` holds the copy, which is made only if the mesh has such axes.
  const Sharding &plain(const Sharding &s, Sharding &storage) const {
    if (int(axes.size()) == mesh.numAxes())
      return s;
    storage = stripped(mesh, s);
    return storage;
  }
};

ReshardPlanner::ReshardPlanner(const Mesh &mesh, CollectiveCost cost)
    : impl_(std::make_unique<Impl>(mesh, std::move(cost))) {}
ReshardPlanner::ReshardPlanner(ReshardPlanner &&) noexcept = default;
ReshardPlanner &ReshardPlanner::operator=(ReshardPlanner &&) noexcept = default;
ReshardPlanner::~ReshardPlanner() = default;

std::vector<Collective> ReshardPlanner::plan(ArrayRef<int64_t> shape, int64_t elementBytes, const Sharding &fromIn,
                                             const Sharding &toIn) {
  assert(canReshard(impl_->mesh, fromIn, toIn) && "the target is partial over an axis over which the source is not");
  Sharding fromStorage, toStorage;
  const Sharding &from = impl_->plain(fromIn, fromStorage), &to = impl_->plain(toIn, toStorage);
  std::vector<Collective> plan;
  if (from == to)
    return plan;
  Impl::PerShape *entry = impl_->find(shape, elementBytes, from, to);
  if (!entry) {
    plan = plainPlan(impl_->mesh, shape, from, to);
  } else {
    auto [paths, target] = impl_->settle(*entry, from, to);
    for (const Paths::Step &step : paths->path(target)) {
      const Sharding &before = entry->graph.sharding(step.from), &after = entry->graph.sharding(step.to);
      const ArrayRef<ShardingGraph::Move> moves = entry->graph.moves(step.from);
      if (size_t(step.edge) >= moves.size()) {
        plan.push_back(makeExchange(impl_->mesh, shape, before, after));
        if (std::optional<Collective> fold = makeFold(impl_->mesh, shape, before, after))
          plan.push_back(std::move(*fold));
        continue;
      }
      const ShardingGraph::Move &move = moves[size_t(step.edge)];
      for (Collective &c : makeStep(impl_->mesh, shape, move.kind, move.axes, move.dim, move.splitDim, before, after))
        plan.push_back(std::move(c));
    }
  }
  plan.back().result = toIn; // with its axes of size 1 again
  return plan;
}

double ReshardPlanner::cost(ArrayRef<int64_t> shape, int64_t elementBytes, const Sharding &fromIn,
                            const Sharding &toIn) {
  Sharding fromStorage, toStorage;
  const Sharding &from = impl_->plain(fromIn, fromStorage), &to = impl_->plain(toIn, toStorage);
  if (!paysOnly(from, to))
    return std::numeric_limits<double>::infinity();
  if (from == to)
    return 0;
  if (Impl::PerShape *entry = impl_->find(shape, elementBytes, from, to)) {
    auto [paths, target] = impl_->settle(*entry, from, to);
    return paths->cost(target);
  }
  double sum = 0;
  for (const Collective &c : plainPlan(impl_->mesh, shape, from, to))
    sum += impl_->cost(c, elementBytes);
  return sum;
}

std::vector<Collective> planReshard(const Mesh &mesh, ArrayRef<int64_t> shape, int64_t elementBytes,
                                    const Sharding &from, const Sharding &to, const CollectiveCost &cost) {
  return ReshardPlanner(mesh, cost).plan(shape, elementBytes, from, to);
}

} // namespace tessera::dist
