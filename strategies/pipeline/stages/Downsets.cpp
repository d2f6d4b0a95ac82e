#include "strategies/pipeline/stages/Downsets.h"

#include <algorithm>
#include <random>
#include <unordered_map>

namespace tessera::strategies {

namespace {

constexpr size_t kMostEdges = 30'000'000; // 16 bytes each while they are found

/// Tells a downset apart from all others: of every unit in it 128 random bits are added up without carry. Among a
/// million downsets two are alike with a probability of 1e-27.
struct Key {
  uint64_t high = 0, low = 0;
  bool operator==(const Key &) const = default;
  Key with(const Key &unit) const { return {high ^ unit.high, low ^ unit.low}; }
};
struct HashOfKey {
  size_t operator()(const Key &key) const { return size_t(key.low); }
};

std::vector<Key> keysOf(int units) {
  std::mt19937_64 random(1);
  std::vector<Key> keys;
  for (int unit = 0; unit < units; ++unit) {
    const uint64_t high = random();
    keys.push_back({high, random()});
  }
  return keys;
}

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
  const std::vector<Key> keyOf = keysOf(n);
  std::vector<Key> keys; // by downset
  std::unordered_map<Key, uint32_t, HashOfKey> known;

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
  // A new downset, to which the open units can be added.
  auto add = [&](const Key &key) {
    std::sort(open.begin(), open.end());
    for (int unit : open)
      edges.push_back({unit, 0});
    begin.push_back(edges.size());
    keys.push_back(key);
  };

  begin.push_back(0);
  openFrom(0);
  add(Key());
  lattice.made_.push_back({0, -1});
  for (uint32_t id = 0; id + 1 < begin.size(); ++id) {
    now.clear();
    for (uint64_t e = begin[id]; e < begin[id + 1]; ++e)
      now.push_back(edges[e].unit);
    for (size_t i = 0; i < now.size(); ++i) {
      const Key key = keys[id].with(keyOf[size_t(now[i])]);
      const auto [next, isNew] = known.try_emplace(key, uint32_t(begin.size() - 1));
      edges[begin[id] + i].next = next->second;
      if (!isNew)
        continue;
      open = now;
      open.erase(open.begin() + ptrdiff_t(i));
      const bool first = i == 0; // then others may come near enough
      const int near = int(std::min<int64_t>(n, int64_t(now[0]) + width));
      for (int unit : units.after[size_t(now[i])])
        if (unit <= near && !waits(unit))
          open.push_back(unit);
      if (first)
        openFrom(near + 1);
      add(key); // may move `edges`
      lattice.made_.push_back({id, now[i]});
      if (begin.size() - 1 > most || edges.size() > kMostEdges)
        return std::nullopt;
    }
  }
  return lattice;
}

} // namespace tessera::strategies
