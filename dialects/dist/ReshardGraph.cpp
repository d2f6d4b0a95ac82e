//===- ReshardGraph.cpp - the shardings of one shape and the collectives between them ----------===//
#include "dialects/dist/ReshardGraph.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/Support/MathExtras.h"

#include <limits>
#include <optional>

namespace tessera::dist {

using llvm::ArrayRef;
using llvm::SmallVector;

namespace {

/// A number that identifies the block that the rank holds, together with its place along the partial axes. A
/// permutation moves data between ranks of one key.
int64_t blockKey(const Mesh &mesh, const Sharding &s, int64_t rank) {
  int64_t key = mesh.coordinate(rank, s.partial);
  for (const Cut &dim : s.dims)
    key = key * mesh.size(dim) + mesh.coordinate(rank, dim);
  return key;
}

/// For every rank the rank whose block it receives, so that `from` becomes `to`. Both have the same number of blocks
/// per dimension and are partial over the same axes. A rank that already holds its block keeps it.
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

/// The sharding as a word: seven bits for each axis say where it is used. Nullopt where that is too little: on meshes
/// of many axes, for tensors of many dimensions, and where cuts have units.
std::optional<uint64_t> packed(const Sharding &s) {
  constexpr int kBits = 7, kMostAxes = 8, kMostDims = 13;
  constexpr uint64_t kPartial = 1, kFirstCut = 2; // 0: the axis is not used
  if (s.dims.size() > kMostDims)
    return std::nullopt;
  uint64_t word = uint64_t(s.reduction) << (kBits * kMostAxes);
  auto set = [&](int axis, uint64_t where) { word |= where << (kBits * axis); };
  for (auto [d, cut] : llvm::enumerate(s.dims)) {
    if (cut.unit > 1)
      return std::nullopt;
    for (auto [place, axis] : llvm::enumerate(cut)) {
      if (axis >= kMostAxes)
        return std::nullopt;
      set(axis, kFirstCut + d * kMostAxes + place);
    }
  }
  for (int axis : s.partial) {
    if (axis >= kMostAxes)
      return std::nullopt;
    set(axis, kPartial);
  }
  return word;
}

std::string key(const Sharding &s) {
  std::string k;
  for (const Cut &cut : s.dims) {
    for (int axis : cut)
      k.push_back(char('a' + axis));
    if (cut.unit > 1)
      k += std::to_string(cut.unit);
    k.push_back(',');
  }
  for (int axis : s.partial)
    k.push_back(char('a' + axis));
  k.push_back(char('0' + int(s.reduction)));
  return k;
}

static Sharding reduced(const Sharding &s, ArrayRef<int> axes) {
  Sharding r = s;
  llvm::erase_if(r.partial, [&](int axis) { return llvm::is_contained(axes, axis); });
  if (r.partial.empty())
    r.reduction = Reduction::None;
  return r;
}

} // namespace

SmallVector<Collective, 1> makeStep(const Mesh &mesh, ArrayRef<int64_t> shape, CollectiveKind kind, ArrayRef<int> axes,
                                    int64_t dim, int64_t splitDim, const Sharding &from, const Sharding &to,
                                    bool toPrice) {
  Collective c;
  c.kind = kind;
  c.axes.assign(axes.begin(), axes.end());
  c.dim = dim;
  c.splitDim = splitDim;
  if (kind == CollectiveKind::AllReduce || kind == CollectiveKind::ReduceScatter)
    c.reduction = from.reduction;
  if (kind == CollectiveKind::Permute)
    c.sources = toPrice ? SmallVector<int64_t>{1, 0} : permutation(mesh, from, to);
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
  bool cuts =
           kind == CollectiveKind::Slice || kind == CollectiveKind::ReduceScatter || kind == CollectiveKind::AllToAll,
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

ShardingGraph::ShardingGraph(const Mesh &mesh, const CollectiveCost &cost, ArrayRef<int64_t> shape,
                             int64_t elementBytes, AxisList axes, DimUnits units, ExchangeTable *table)
    : mesh_(mesh), cost_(cost), shape_(shape), elementBytes_(elementBytes), bytesOfForm_(elementBytes),
      axes_(std::move(axes)), units_(std::move(units)), table_(table) {
  if (table)
    for (auto [extent, least] : llvm::zip_equal(shape, ExchangeTable::form(mesh, shape)))
      bytesOfForm_ *= extent / least;
}

int ShardingGraph::state(const Sharding &s) {
  const std::optional<uint64_t> word = packed(s);
  int &id = word ? packedIds_.try_emplace(*word, -1).first->second : ids_.try_emplace(key(s), -1).first->second;
  if (id < 0) {
    id = int(states_.size());
    states_.push_back(s);
    edges_.emplace_back();
    moves_.emplace_back();
    expanded_.push_back(false);
  }
  return id;
}
const std::vector<ShardingGraph::Edge> &ShardingGraph::edges(int state) {
  if (!expanded_[state]) {
    expanded_[state] = true;
    expand(state);
    addExchanges(state);
  }
  return edges_[state];
}

/// Whether the last `count` axes of the dimension may cut it in one collective. A collective over several axes needs
/// blocks that are contiguous in the whole, so only the outermost of these axes may leave padding.
bool ShardingGraph::mayCut(const Sharding &s, int64_t dim, size_t count) const {
  if (!s.isPadded(mesh_, shape_, dim))
    return true;
  return Sharding::canCut(shape_[dim], s.numShards(mesh_, dim), s.dims[dim].unit) && isOneRun(s, dim, count);
}

/// Visits the shardings that cut the dimension by `axes` as well: in plain blocks and in the graph's units, where one
/// collective can do it and the blocks that are there stay.
void ShardingGraph::cutFurther(const Sharding &s, int64_t dim, ArrayRef<int> axes,
                               llvm::function_ref<void(const Sharding &)> visit) const {
  SmallVector<int64_t, 2> seen;
  auto in = [&](int64_t unit) {
    Cut all(s.dims[dim].axes(), unit);
    all.append(axes.begin(), axes.end());
    if (shape_[dim] % unit != 0 || !(all.first(s.dims[dim].size(), mesh_, shape_[dim]) == s.dims[dim]))
      return;
    Sharding to = s;
    to.dims[dim] = all.canonical(mesh_, shape_[dim]);
    if (llvm::is_contained(seen, to.dims[dim].unit) || !mayCut(to, dim, axes.size()))
      return;
    seen.push_back(to.dims[dim].unit);
    visit(to);
  };
  in(1);
  for (auto [d, unit] : units_)
    if (d == dim)
      in(unit);
}

bool ShardingGraph::isOneRun(const Sharding &s, int64_t dim, size_t count) const {
  ArrayRef<int> axes = s.dims[dim];
  int64_t before = mesh_.size(axes.drop_back(count - 1)), inner = mesh_.size(axes.take_back(count - 1));
  return llvm::divideCeil(shape_[dim] / s.dims[dim].unit, before) % inner == 0;
}

/// Whether a permutation may move the blocks of `a` to where `b` wants them: padded dimensions must be cut by axes of
/// the same sizes, since other cuts put the padding elsewhere.
bool ShardingGraph::samePadding(const Sharding &a, const Sharding &b) const {
  auto sizes = [&](const Cut &cut) { return llvm::map_to_vector(cut, [&](int axis) { return mesh_.axisSize(axis); }); };
  for (int64_t d = 0; d < a.rank(); ++d)
    if (a.isPadded(mesh_, shape_, d) && sizes(a.dims[d]) != sizes(b.dims[d]))
      return false;
  return true;
}

void ShardingGraph::add(int from, CollectiveKind kind, ArrayRef<int> axes, int64_t dim, int64_t splitDim,
                        const Sharding &to) {
  double cost = 0;
  for (const Collective &c : makeStep(mesh_, shape_, kind, axes, dim, splitDim, states_[from], to, /*toPrice=*/true))
    cost += cost_(c, elementBytes_);
  int target = state(to);
  edges_[from].push_back({target, cost});
  moves_[from].push_back({kind, int16_t(dim), int16_t(splitDim), AxisList(axes.begin(), axes.end())});
}

void ShardingGraph::expand(int id) {
  const Sharding s = states_[id]; // a copy: states_ grows
  AxisList unused;
  for (int axis : axes_)
    if (!s.uses(axis))
      unused.push_back(axis);
  for (int64_t d = 0; d < s.rank(); ++d)
    forSubsets(unused, /*ordered=*/true, [&](ArrayRef<int> axes) {
      cutFurther(s, d, axes, [&](const Sharding &to) { add(id, CollectiveKind::Slice, axes, d, -1, to); });
    });
  for (int64_t d = 0; d < s.rank(); ++d)
    for (size_t n = 1; n <= s.dims[d].size(); ++n) {
      if (!isOneRun(s, d, n))
        continue;
      AxisList axes(s.dims[d].end() - n, s.dims[d].end());
      Sharding to = s;
      to.dims[d] = s.dims[d].first(s.dims[d].size() - n, mesh_, shape_[d]);
      add(id, CollectiveKind::AllGather, axes, d, -1, to);
      for (int64_t e = 0; e < s.rank(); ++e) {
        if (e == d)
          continue;
        cutFurther(to, e, axes, [&](const Sharding &moved) { add(id, CollectiveKind::AllToAll, axes, d, e, moved); });
      }
    }
  forSubsets(s.partial, /*ordered=*/false,
             [&](ArrayRef<int> axes) { add(id, CollectiveKind::AllReduce, axes, -1, -1, reduced(s, axes)); });
  for (int64_t d = 0; d < s.rank(); ++d)
    forSubsets(s.partial, /*ordered=*/true, [&](ArrayRef<int> axes) {
      cutFurther(reduced(s, axes), d, axes,
                 [&](const Sharding &to) { add(id, CollectiveKind::ReduceScatter, axes, d, -1, to); });
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

/// The exchanges that cost less than every single collective to the same sharding.
void ShardingGraph::addExchanges(int id) {
  if (!table_ || !canExchange(mesh_, shape_, states_[id]))
    return;
  const std::vector<ExchangeTable::Entry> &entries = table_->from(states_[id]);
  if (entries.empty())
    return;
  std::vector<double> &single = scratch_;
  single.assign(states_.size(), std::numeric_limits<double>::infinity());
  for (const Edge &edge : edges_[id])
    single[edge.target] = std::min(single[edge.target], edge.cost);
  const std::vector<Sharding> &targets = table_->targets();
  stateOfTarget_.resize(targets.size(), -1);
  for (const ExchangeTable::Entry &entry : entries) {
    double cost = cost_(entry.exchange, bytesOfForm_);
    if (entry.fold)
      cost += cost_(*entry.fold, bytesOfForm_);
    int &target = stateOfTarget_[entry.target];
    if (target < 0)
      target = state(targets[entry.target]);
    if (size_t(target) >= single.size() || cost < single[target])
      edges_[id].push_back({target, cost});
  }
}

/// Visits, in `to`, every sharding that has as many blocks per dimension as `s` and is partial over the same axes.
void ShardingGraph::permuted(const Sharding &s, Sharding &to, int64_t dim, llvm::function_ref<void()> visit) {
  if (dim == s.rank())
    return visit();
  Cut &list = to.dims[dim];
  const Cut saved = list;
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
  list.AxisList::clear(); // the unit stays
  extend(1);
  list = saved;
}

} // namespace tessera::dist
