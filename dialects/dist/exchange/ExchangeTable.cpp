#include "dialects/dist/exchange/ExchangeTable.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <numeric>

namespace tessera::dist {

using llvm::ArrayRef;

/// Exchanges are looked for on meshes of so many ranks, between so many ways to cut a tensor. They list up to as many
/// messages as there are pairs of ranks, and there are as many as pairs of cuts.
static constexpr int64_t kMaxRanks = 16;
static constexpr size_t kMaxCuts = 64;

Shape ExchangeTable::form(const Mesh &mesh, ArrayRef<int64_t> shape) {
  Shape form;
  for (int64_t extent : shape)
    form.push_back(std::gcd(extent, mesh.numRanks()));
  return form;
}

/// With one axis the other collectives do all that an exchange can.
ExchangeTable::ExchangeTable(const Mesh &mesh, Shape form, ArrayRef<int> axes)
    : mesh_(mesh), form_(std::move(form)), axes_(axes) {
  if (axes_.size() < 2 || mesh_.numRanks() > kMaxRanks)
    return;
  Sharding none = Sharding::replicated(int64_t(form_.size()));
  listCuts(none, 0);
  if (cuts_.size() > kMaxCuts)
    cuts_.clear();
}

/// Lists every way to cut the dimensions from `dim` on by the axes that `cuts` does not use yet.
void ExchangeTable::listCuts(Sharding &cuts, int64_t dim) {
  if (cuts_.size() > kMaxCuts)
    return;
  if (dim == cuts.rank())
    return cuts_.push_back(cuts);
  listCuts(cuts, dim + 1);
  for (int axis : axes_) {
    if (cuts.uses(axis) || form_[size_t(dim)] % (cuts.numShards(mesh_, dim) * mesh_.axisSize(axis)) != 0)
      continue;
    cuts.dims[size_t(dim)].push_back(axis);
    listCuts(cuts, dim);
    cuts.dims[size_t(dim)].pop_back();
  }
}

const std::vector<ExchangeTable::Entry> &ExchangeTable::from(const Sharding &sharding) {
  auto [it, fresh] = entries_.try_emplace(sharding);
  if (fresh && !cuts_.empty())
    it->second = makeFrom(sharding);
  return it->second;
}

/// Whether every rank has what it needs: cuts are only added to those that are there.
static bool refines(const Sharding &to, const Sharding &from) {
  for (size_t d = 0; d < to.dims.size(); ++d)
    if (to.dims[d].size() < from.dims[d].size() ||
        !std::equal(from.dims[d].begin(), from.dims[d].end(), to.dims[d].begin()))
      return false;
  return true;
}

std::vector<ExchangeTable::Entry> ExchangeTable::makeFrom(const Sharding &from) {
  std::vector<Entry> entries;
  auto blocks = [&](const Sharding &x) {
    int64_t n = 1;
    for (int64_t d = 0; d < x.rank(); ++d)
      n *= x.numShards(mesh_, d);
    return n;
  };
  // Every subset of the sums is paid.
  for (size_t subset = 0; subset < size_t(1) << from.partial.size(); ++subset) {
    Sharding left = from;
    left.partial.clear();
    int64_t fewest = blocks(from);
    for (size_t i = 0; i < from.partial.size(); ++i)
      if (subset >> i & 1)
        fewest *= mesh_.axisSize(from.partial[i]);
      else
        left.partial.push_back(from.partial[i]);
    if (left.partial.empty())
      left.reduction = Reduction::None;
    for (const Sharding &cuts : cuts_) {
      if (blocks(cuts) < fewest || llvm::any_of(left.partial, [&](int axis) { return cuts.uses(axis); }) ||
          (subset == 0 && refines(cuts, from)))
        continue;
      Sharding to = left;
      to.dims = cuts.dims;
      auto [it, fresh] = numbers_.try_emplace(to, targets_.size());
      if (fresh)
        targets_.push_back(to);
      entries.push_back({it->second, makeExchange(mesh_, form_, from, to), makeFold(mesh_, form_, from, to)});
      entries.back().exchange.boxes = {};
    }
  }
  return entries;
}

} // namespace tessera::dist
