//===- Reshard.cpp - the resharding planner --------------------------------------------------===//
//
// The states are the shardings of one shape, made as they are reached; the edges are single
// collectives. The edges leaving a state do not depend on where a path started, so all pairs of a
// shape share them, and one Dijkstra run per source is kept and continued when a farther target is
// asked for.
//
// Axes of size 1 are taken out first: a cut by them changes nothing, and with them gone equal
// states are equal.
//
//===----------------------------------------------------------------------------------------------===//
#include "dialects/dist/Reshard.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <queue>
#include <unordered_map>

namespace tessera::dist {

using llvm::ArrayRef;
using llvm::SmallVector;

static constexpr llvm::StringLiteral kNames[] = {"slice",          "all-gather", "all-reduce",
                                                 "reduce-scatter", "all-to-all", "permute",
                                                 "halo",           "fit",        "broadcast"};

llvm::StringRef stringify(CollectiveKind kind) { return kNames[int(kind)]; }

std::optional<CollectiveKind> parseCollectiveKind(llvm::StringRef text) {
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (text == kNames[i])
      return CollectiveKind(i);
  return std::nullopt;
}

bool communicates(CollectiveKind kind) {
  return kind != CollectiveKind::Slice && kind != CollectiveKind::Fit;
}

double bytesSent(const Mesh &mesh, const Collective &c, int64_t elementBytes) {
  double in = double(elementBytes);
  for (int64_t d : c.localIn)
    in *= double(d);
  double n = double(mesh.size(c.axes));
  switch (c.kind) {
  case CollectiveKind::Slice:
  case CollectiveKind::Fit:
    return 0;
  case CollectiveKind::AllGather:
    return (n - 1) * in;
  case CollectiveKind::AllReduce:
    return 2 * (n - 1) / n * in;
  case CollectiveKind::ReduceScatter:
  case CollectiveKind::AllToAll:
    return (n - 1) / n * in;
  case CollectiveKind::Broadcast:
    return n > 1 ? in : 0;
  case CollectiveKind::Permute:
    for (auto [rank, source] : llvm::enumerate(c.sources))
      if (int64_t(rank) != source)
        return in;
    return 0;
  case CollectiveKind::Halo: {
    if (n == 1 || c.localIn[c.dim] == 0)
      return 0;
    double row = in / double(c.localIn[c.dim]);
    return row * double(c.haloLo + c.haloHi);
  }
  }
  return 0;
}

CollectiveCost defaultCollectiveCost(const Mesh &mesh) {
  return [mesh](const Collective &c, int64_t elementBytes) {
    // A slice is cheaper than any exchange but not free, so that none is made in vain.
    double fixed = communicates(c.kind) ? 1.0 : 0.25;
    return fixed + bytesSent(mesh, c, elementBytes);
  };
}

/// The same sharding without axes of size 1.
static Sharding stripped(const Mesh &mesh, const Sharding &s) {
  auto trivial = [&](int axis) { return mesh.axisSize(axis) == 1; };
  Sharding r = s;
  for (AxisList &dim : r.dims)
    llvm::erase_if(dim, trivial);
  llvm::erase_if(r.partial, trivial);
  if (r.partial.empty())
    r.reduction = Reduction::None;
  return r;
}

/// canReshard without axes of size 1.
static bool paysOnly(const Sharding &from, const Sharding &to) {
  if (to.partial.empty())
    return true;
  return to.reduction == from.reduction &&
         llvm::all_of(to.partial, [&](int axis) { return llvm::is_contained(from.partial, axis); });
}

bool canReshard(const Mesh &mesh, const Sharding &from, const Sharding &to) {
  return paysOnly(stripped(mesh, from), stripped(mesh, to));
}

namespace {

/// Beyond this many axes the graph of shardings is too large to search.
constexpr int kMaxSearchedAxes = 5;
/// Up to this many axes a graph serves all pairs; above, only those that concern the same axes.
constexpr int kMaxSharedAxes = 4;

/// One block of a tensor at one place: what a permutation must bring along.
int64_t blockKey(const Mesh &mesh, const Sharding &s, int64_t rank) {
  int64_t key = mesh.coordinate(rank, s.partial);
  for (const AxisList &dim : s.dims)
    key = key * mesh.size(dim) + mesh.coordinate(rank, dim);
  return key;
}

/// Who sends to whom so that `from` becomes `to`, a sharding with as many blocks per dimension and
/// the same debts. A rank that already holds its block keeps it.
SmallVector<int64_t> permutation(const Mesh &mesh, const Sharding &from, const Sharding &to) {
  int64_t ranks = mesh.numRanks();
  SmallVector<int64_t> sources(ranks, -1);
  std::vector<std::vector<int64_t>> free(ranks); // by block key; keys are below the number of ranks
  for (int64_t r = 0; r < ranks; ++r) {
    int64_t has = blockKey(mesh, from, r);
    if (has == blockKey(mesh, to, r))
      sources[r] = r;
    else
      free[has].push_back(r);
  }
  std::vector<size_t> next(ranks, 0);
  for (int64_t r = 0; r < ranks; ++r)
    if (sources[r] < 0) {
      int64_t key = blockKey(mesh, to, r);
      sources[r] = free[key][next[key]++];
    }
  return sources;
}

/// The collective with what lengthens its blocks before and shortens them after it.
SmallVector<Collective, 1> makeStep(const Mesh &mesh, ArrayRef<int64_t> shape, CollectiveKind kind,
                                    ArrayRef<int> axes, int64_t dim, int64_t splitDim,
                                    const Sharding &from, const Sharding &to) {
  Collective c;
  c.kind = kind;
  c.axes.assign(axes.begin(), axes.end());
  c.dim = dim;
  c.splitDim = splitDim;
  if (kind == CollectiveKind::AllReduce || kind == CollectiveKind::ReduceScatter)
    c.reduction = from.reduction;
  if (kind == CollectiveKind::Permute)
    c.sources = permutation(mesh, from, to);
  c.result = to;
  c.localIn = from.localShape(mesh, shape);
  c.localOut = to.localShape(mesh, shape);
  SmallVector<Collective, 1> steps;
  auto fit = [&](int64_t d, const Shape &in, const Shape &out, const Sharding &result) {
    Collective f;
    f.kind = CollectiveKind::Fit;
    f.dim = d;
    f.result = result;
    f.localIn = in;
    f.localOut = out;
    steps.push_back(std::move(f));
  };
  int64_t n = mesh.size(axes);
  bool cuts = kind == CollectiveKind::Slice || kind == CollectiveKind::ReduceScatter ||
              kind == CollectiveKind::AllToAll,
       joins = kind == CollectiveKind::AllGather || kind == CollectiveKind::AllToAll;
  int64_t cut = kind == CollectiveKind::AllToAll ? splitDim : dim;
  if (cuts && c.localIn[cut] != n * c.localOut[cut]) {
    Shape before = c.localIn;
    c.localIn[cut] = n * c.localOut[cut];
    fit(cut, before, c.localIn, from);
  }
  Shape after = c.localOut;
  if (joins)
    c.localOut[dim] = n * c.localIn[dim];
  Shape joined = c.localOut;
  steps.push_back(std::move(c));
  if (joined != after)
    fit(dim, joined, after, to);
  return steps;
}

/// All nonempty subsets of `axes`, each in every order if `ordered`.
void forSubsets(ArrayRef<int> axes, bool ordered, llvm::function_ref<void(ArrayRef<int>)> visit) {
  AxisList current;
  std::function<void(size_t)> extend = [&](size_t from) {
    for (size_t i = ordered ? 0 : from; i < axes.size(); ++i) {
      if (llvm::is_contained(current, axes[i]))
        continue;
      current.push_back(axes[i]);
      visit(current);
      extend(i + 1);
      current.pop_back();
    }
  };
  extend(0);
}

/// The shardings of one shape and the collectives between them.
class ShardingGraph {
public:
  struct Edge {
    int target;
    CollectiveKind kind;
    int16_t dim, splitDim;
    AxisList axes;
    double cost;
  };

  ShardingGraph(const Mesh &mesh, const CollectiveCost &cost, ArrayRef<int64_t> shape,
                int64_t elementBytes, AxisList axes)
      : mesh_(mesh), cost_(cost), shape_(shape), elementBytes_(elementBytes),
        axes_(std::move(axes)) {}

  int state(const Sharding &s) {
    auto [it, fresh] = ids_.try_emplace(key(s), int(states_.size()));
    if (fresh) {
      states_.push_back(s);
      edges_.emplace_back();
      expanded_.push_back(false);
    }
    return it->second;
  }
  const Sharding &sharding(int state) const { return states_[state]; }
  ArrayRef<int64_t> shape() const { return shape_; }

  const std::vector<Edge> &edges(int state) {
    if (!expanded_[state]) {
      expanded_[state] = true;
      expand(state);
    }
    return edges_[state];
  }

private:
  static std::string key(const Sharding &s) {
    std::string k;
    for (const AxisList &dim : s.dims) {
      for (int axis : dim)
        k.push_back(char('a' + axis));
      k.push_back(',');
    }
    for (int axis : s.partial)
      k.push_back(char('a' + axis));
    k.push_back(char('0' + int(s.reduction)));
    return k;
  }

  /// Whether the dimension, just cut by the last `count` of its axes, may be: evenly, or padded. A
  /// collective over several axes must meet blocks that lie one behind the other, so only the outermost
  /// of them may leave padding.
  bool mayCut(const Sharding &s, int64_t dim, size_t count) const {
    int64_t shards = s.numShards(mesh_, dim);
    if (shape_[dim] % shards == 0)
      return true;
    return Sharding::canCut(shape_[dim], shards) && isOneRun(s, dim, count);
  }

  bool isOneRun(const Sharding &s, int64_t dim, size_t count) const {
    ArrayRef<int> axes = s.dims[dim];
    int64_t before = mesh_.size(axes.drop_back(count - 1)),
            inner = mesh_.size(axes.take_back(count - 1));
    return llvm::divideCeil(shape_[dim], before) % inner == 0;
  }

  /// Padded blocks go to other ranks only if the same cuts make them.
  bool samePadding(const Sharding &a, const Sharding &b) const {
    auto sizes = [&](const AxisList &axes) {
      return llvm::map_to_vector(axes, [&](int axis) { return mesh_.axisSize(axis); });
    };
    for (int64_t d = 0; d < a.rank(); ++d)
      if (a.isPadded(mesh_, shape_, d) && sizes(a.dims[d]) != sizes(b.dims[d]))
        return false;
    return true;
  }

  void add(int from, CollectiveKind kind, ArrayRef<int> axes, int64_t dim, int64_t splitDim,
           const Sharding &to) {
    double cost = 0;
    for (const Collective &c :
         makeStep(mesh_, shape_, kind, axes, dim, splitDim, states_[from], to))
      cost += cost_(c, elementBytes_);
    int target = state(to);
    edges_[from].push_back(
        {target, kind, int16_t(dim), int16_t(splitDim), AxisList(axes.begin(), axes.end()), cost});
  }

  void expand(int id) {
    const Sharding s = states_[id]; // a copy: states_ grows
    AxisList unused;
    for (int axis : axes_)
      if (!s.uses(axis))
        unused.push_back(axis);
    for (int64_t d = 0; d < s.rank(); ++d)
      forSubsets(unused, /*ordered=*/true, [&](ArrayRef<int> axes) {
        Sharding to = s;
        to.dims[d].append(axes.begin(), axes.end());
        if (mayCut(to, d, axes.size()))
          add(id, CollectiveKind::Slice, axes, d, -1, to);
      });
    for (int64_t d = 0; d < s.rank(); ++d)
      for (size_t n = 1; n <= s.dims[d].size(); ++n) {
        if (!isOneRun(s, d, n))
          continue;
        AxisList axes(s.dims[d].end() - n, s.dims[d].end());
        Sharding to = s;
        to.dims[d].truncate(s.dims[d].size() - n);
        add(id, CollectiveKind::AllGather, axes, d, -1, to);
        for (int64_t e = 0; e < s.rank(); ++e) {
          if (e == d)
            continue;
          Sharding moved = to;
          moved.dims[e].append(axes.begin(), axes.end());
          if (mayCut(moved, e, n))
            add(id, CollectiveKind::AllToAll, axes, d, e, moved);
        }
      }
    forSubsets(s.partial, /*ordered=*/false, [&](ArrayRef<int> axes) {
      add(id, CollectiveKind::AllReduce, axes, -1, -1, paid(s, axes));
    });
    for (int64_t d = 0; d < s.rank(); ++d)
      forSubsets(s.partial, /*ordered=*/true, [&](ArrayRef<int> axes) {
        Sharding to = paid(s, axes);
        to.dims[d].append(axes.begin(), axes.end());
        if (mayCut(to, d, axes.size()))
          add(id, CollectiveKind::ReduceScatter, axes, d, -1, to);
      });
    AxisList all;
    for (int axis = 0; axis < mesh_.numAxes(); ++axis)
      all.push_back(axis);
    Sharding to = s;
    permuted(s, to, 0, [&] {
      if (!(to == s) && samePadding(s, to))
        add(id, CollectiveKind::Permute, all, -1, -1, to);
    });
  }

  static Sharding paid(const Sharding &s, ArrayRef<int> axes) {
    Sharding r = s;
    llvm::erase_if(r.partial, [&](int axis) { return llvm::is_contained(axes, axis); });
    if (r.partial.empty())
      r.reduction = Reduction::None;
    return r;
  }

  /// Every sharding with as many blocks per dimension and the same debts, in `to`.
  void permuted(const Sharding &s, Sharding &to, int64_t dim, llvm::function_ref<void()> visit) {
    if (dim == s.rank())
      return visit();
    AxisList &list = to.dims[dim];
    AxisList saved = list;
    int64_t want = s.numShards(mesh_, dim);
    std::function<void(int64_t)> extend = [&](int64_t have) {
      if (have == want)
        return permuted(s, to, dim + 1, visit);
      for (int axis : axes_) {
        if (want % (have * mesh_.axisSize(axis)) != 0 || llvm::is_contained(s.partial, axis))
          continue;
        bool taken = false;
        for (int64_t d = 0; d <= dim; ++d)
          taken |= llvm::is_contained(to.dims[d], axis);
        if (taken)
          continue;
        list.push_back(axis);
        extend(have * mesh_.axisSize(axis));
        list.pop_back();
      }
    };
    list.clear();
    extend(1);
    list = saved;
  }

  const Mesh &mesh_;
  const CollectiveCost &cost_;
  Shape shape_;
  int64_t elementBytes_;
  AxisList axes_; // that cuts may use
  std::unordered_map<std::string, int> ids_;
  std::vector<Sharding> states_;
  std::vector<std::vector<Edge>> edges_;
  std::vector<bool> expanded_;
};

/// Dijkstra from one sharding, continued as targets ask for it.
class Paths {
public:
  Paths(ShardingGraph &graph, int source) : graph_(graph) { reach(source, 0, -1, -1); }

  /// Settles the target. False: it cannot be reached.
  bool settle(int target) {
    while (target >= int(nodes_.size()) || !nodes_[target].settled) {
      if (queue_.empty())
        return false;
      auto [cost, order, id] = queue_.top();
      queue_.pop();
      if (nodes_[id].settled)
        continue;
      nodes_[id].settled = true;
      const std::vector<ShardingGraph::Edge> &edges = graph_.edges(id);
      for (size_t i = 0; i < edges.size(); ++i)
        reach(edges[i].target, cost + edges[i].cost, id, int(i));
    }
    return true;
  }
  double cost(int target) const { return nodes_[target].cost; }
  /// (state, edge) from the source to the settled target.
  SmallVector<std::pair<int, int>> path(int target) const {
    SmallVector<std::pair<int, int>> steps;
    for (int id = target; nodes_[id].parent >= 0; id = nodes_[id].parent)
      steps.push_back({nodes_[id].parent, nodes_[id].edge});
    std::reverse(steps.begin(), steps.end());
    return steps;
  }

private:
  struct Node {
    double cost = std::numeric_limits<double>::infinity();
    int parent = -1, edge = -1;
    bool settled = false;
  };
  using Entry = std::tuple<double, int64_t, int>; // cost, order of insertion, state

  void reach(int id, double cost, int parent, int edge) {
    if (id >= int(nodes_.size()))
      nodes_.resize(id + 1);
    if (nodes_[id].settled || !(cost < nodes_[id].cost))
      return;
    nodes_[id] = {cost, parent, edge, false};
    queue_.push({cost, counter_++, id});
  }

  ShardingGraph &graph_;
  std::vector<Node> nodes_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> queue_;
  int64_t counter_ = 0;
};

/// Pay, gather what differs, slice: right on every mesh, searched for on none.
std::vector<Collective> plainPlan(const Mesh &mesh, ArrayRef<int64_t> shape, const Sharding &from,
                                  const Sharding &to) {
  std::vector<Collective> plan;
  Sharding at = from;
  auto step = [&](CollectiveKind kind, ArrayRef<int> axes, int64_t dim, const Sharding &next) {
    for (Collective &c : makeStep(mesh, shape, kind, axes, dim, -1, at, next))
      plan.push_back(std::move(c));
    at = next;
  };
  AxisList owed;
  for (int axis : from.partial)
    if (!llvm::is_contained(to.partial, axis))
      owed.push_back(axis);
  if (!owed.empty()) {
    Sharding next = at;
    next.partial = to.partial;
    next.reduction = to.reduction;
    step(CollectiveKind::AllReduce, owed, -1, next);
  }
  auto common = [&](int64_t d) {
    size_t n = 0;
    while (n < from.dims[d].size() && n < to.dims[d].size() && from.dims[d][n] == to.dims[d][n])
      ++n;
    return n;
  };
  // Padded blocks are joined and cut axis by axis, the others at once.
  for (int64_t d = 0; d < from.rank(); ++d) {
    size_t keep = common(d);
    bool padded = from.isPadded(mesh, shape, d);
    while (at.dims[d].size() > keep) {
      Sharding next = at;
      next.dims[d].truncate(padded ? at.dims[d].size() - 1 : keep);
      step(CollectiveKind::AllGather, ArrayRef<int>(at.dims[d]).drop_front(next.dims[d].size()), d,
           next);
    }
  }
  for (int64_t d = 0; d < from.rank(); ++d) {
    bool padded = to.isPadded(mesh, shape, d);
    while (at.dims[d].size() < to.dims[d].size()) {
      Sharding next = at;
      next.dims[d] = to.dims[d];
      if (padded)
        next.dims[d].truncate(at.dims[d].size() + 1);
      step(CollectiveKind::Slice, ArrayRef<int>(next.dims[d]).drop_front(at.dims[d].size()), d,
           next);
    }
  }
  return plan;
}

} // namespace

struct ReshardPlanner::Impl {
  struct PerShape {
    PerShape(const Mesh &mesh, const CollectiveCost &cost, ArrayRef<int64_t> shape,
             int64_t elementBytes, AxisList axes)
        : graph(mesh, cost, shape, elementBytes, std::move(axes)) {}
    ShardingGraph graph;
    std::vector<std::unique_ptr<Paths>> paths; // by source
  };

  Mesh mesh;
  CollectiveCost cost;
  AxisList axes; // longer than 1
  using Key = std::tuple<Shape, int64_t, AxisList>;
  std::map<Key, std::unique_ptr<PerShape>> shapes;
  const std::pair<const Key, std::unique_ptr<PerShape>> *last = nullptr; // asked for

  Impl(const Mesh &m, CollectiveCost c) : mesh(m), cost(std::move(c)) {
    for (int axis = 0; axis < mesh.numAxes(); ++axis)
      if (mesh.axisSize(axis) > 1)
        axes.push_back(axis);
  }

  /// nullptr: too many axes to search.
  PerShape *find(ArrayRef<int64_t> shape, int64_t elementBytes, const Sharding &from,
                 const Sharding &to) {
    AxisList relevant = axes;
    if (int(axes.size()) > kMaxSharedAxes)
      llvm::erase_if(relevant, [&](int axis) { return !from.uses(axis) && !to.uses(axis); });
    if (int(relevant.size()) > kMaxSearchedAxes)
      return nullptr;
    // Questions about one tensor come one after the other.
    Key key(Shape(shape.begin(), shape.end()), elementBytes, relevant);
    if (!last || last->first != key) {
      auto [it, fresh] = shapes.try_emplace(std::move(key));
      if (fresh)
        it->second = std::make_unique<PerShape>(mesh, cost, shape, elementBytes, relevant);
      last = &*it;
    }
    return last->second.get();
  }

  /// The settled paths from `from`, and the target's state.
  std::pair<Paths *, int> settle(PerShape &entry, const Sharding &from, const Sharding &to) {
    int source = entry.graph.state(from), target = entry.graph.state(to);
    if (size_t(source) >= entry.paths.size())
      entry.paths.resize(size_t(source) + 1);
    std::unique_ptr<Paths> &paths = entry.paths[source];
    if (!paths)
      paths = std::make_unique<Paths>(entry.graph, source);
    bool reached = paths->settle(target);
    assert(reached && "every sharding without new debts can be reached");
    (void)reached;
    return {paths.get(), target};
  }

  /// The sharding without axes of size 1; itself where the mesh has none.
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

std::vector<Collective> ReshardPlanner::plan(ArrayRef<int64_t> shape, int64_t elementBytes,
                                             const Sharding &fromIn, const Sharding &toIn) {
  assert(canReshard(impl_->mesh, fromIn, toIn) && "debts are paid, not made");
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
    for (auto [state, index] : paths->path(target)) {
      const ShardingGraph::Edge &edge = entry->graph.edges(state)[index];
      for (Collective &c :
           makeStep(impl_->mesh, shape, edge.kind, edge.axes, edge.dim, edge.splitDim,
                    entry->graph.sharding(state), entry->graph.sharding(edge.target)))
        plan.push_back(std::move(c));
    }
  }
  plan.back().result = toIn; // as asked for, with its axes of size 1
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
                                    const Sharding &from, const Sharding &to,
                                    const CollectiveCost &cost) {
  return ReshardPlanner(mesh, cost).plan(shape, elementBytes, from, to);
}

} // namespace tessera::dist
