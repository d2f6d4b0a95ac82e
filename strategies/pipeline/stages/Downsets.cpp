#include "strategies/pipeline/stages/Downsets.h"

#include <algorithm>
#include <unordered_set>

namespace tessera::strategies {

namespace {

constexpr size_t kMostEdges = 30'000'000; // 16 bytes each while they are found

/// Finds a downset by the units that can be added to it: they tell it apart from all others.
struct ByEdges {
  const std::vector<uint64_t> *begin;
  const std::vector<DownsetEdge> *edges;

  std::span<const DownsetEdge> of(uint32_t downset) const {
    return {edges->data() + (*begin)[downset], edges->data() + (*begin)[downset + 1]};
  }
  size_t operator()(uint32_t downset) const {
    uint64_t hash = 1469598103934665603U;
    for (const DownsetEdge &edge : of(downset))
      hash = (hash ^ uint64_t(edge.unit)) * 0x9E3779B97F4A7C15U + (hash >> 29);
    return size_t(hash);
  }
  bool operator()(uint32_t a, uint32_t b) const {
    return std::ranges::equal(of(a), of(b), {}, &DownsetEdge::unit, &DownsetEdge::unit);
  }
};

} // namespace

std::vector<int> Downsets::units(uint32_t downset) const {
  std::vector<int> found;
  for (; downset > 0; downset = made_[downset].first)
    found.push_back(made_[downset].second);
  return found;
}

std::optional<Downsets> Downsets::build(const Units &units, int width, uint32_t most) {
  const int n = units.count();
  Downsets lattice;
  std::vector<uint64_t> &begin = lattice.begin_;
  std::vector<DownsetEdge> &edges = lattice.edges_;
  std::unordered_set<uint32_t, ByEdges, ByEdges> known(64, ByEdges{&begin, &edges}, ByEdges{&begin, &edges});

  std::vector<int> now, open;
  // Whether a unit must wait for one of those that are open.
  auto waits = [&](int unit) {
    return std::any_of(open.begin(), open.end(),
                       [&](int other) { return unit - other > width || units.reaches(other, unit); });
  };
  // Adds the units from `first` on that wait for nothing but what has been taken.
  auto openFrom = [&](int first) {
    for (int unit = first; unit < n; ++unit) {
      if (!open.empty() && unit - *std::min_element(open.begin(), open.end()) > width)
        break;
      if (!waits(unit))
        open.push_back(unit);
    }
  };
  /// The number of the downset to which the open units can be added.
  auto number = [&]() {
    std::sort(open.begin(), open.end());
    const auto id = uint32_t(begin.size() - 1);
    for (int unit : open)
      edges.push_back({unit, 0});
    begin.push_back(edges.size());
    const auto [place, isNew] = known.insert(id);
    if (!isNew) {
      begin.pop_back();
      edges.resize(begin.back());
    }
    return *place;
  };

  begin.push_back(0);
  openFrom(0);
  number();
  lattice.made_.push_back({0, -1});
  for (uint32_t id = 0; id + 1 < begin.size(); ++id) {
    now.clear();
    for (uint64_t e = begin[id]; e < begin[id + 1]; ++e)
      now.push_back(edges[e].unit);
    for (size_t i = 0; i < now.size(); ++i) {
      open = now;
      open.erase(open.begin() + ptrdiff_t(i));
      const bool first = i == 0; // then others may come near enough
      const int near = int(std::min<int64_t>(n, int64_t(now[0]) + width));
      for (int unit : units.after[size_t(now[i])])
        if (unit <= near && !waits(unit))
          open.push_back(unit);
      if (first)
        openFrom(near + 1);
      const uint32_t next = number(); // may move `edges`
      edges[begin[id] + i].next = next;
      if (next == lattice.made_.size())
        lattice.made_.push_back({id, now[i]});
      if (begin.size() - 1 > most || edges.size() > kMostEdges)
        return std::nullopt;
    }
  }
  return lattice;
}

} // namespace tessera::strategies
