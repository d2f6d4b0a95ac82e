#include "strategies/pipeline/stages/Units.h"

#include <algorithm>
#include <numeric>

namespace tessera::strategies {

namespace {

using Lists = std::vector<std::vector<int>>;

/// A value in the direction in which stages are ordered: it leads from a stage to the same or a later one.
template <typename Visit> void forEachEdge(const StageProblem &problem, Visit visit) {
  for (const StageValue &value : problem.values)
    for (int to : value.to)
      if (to != value.from && value.order != ValueOrder::Any)
        value.order == ValueOrder::Backward ? visit(to, value.from) : visit(value.from, to);
}

/// Tarjan's strongly connected components, without recursion. Components are numbered from the last to the first.
std::vector<int> componentsOf(const Lists &next, int &count) {
  const int n = int(next.size());
  std::vector<int> component(next.size(), -1), seen(next.size(), -1), low(next.size(), 0), open;
  std::vector<std::pair<int, size_t>> path;
  int clock = 0;
  count = 0;
  for (int root = 0; root < n; ++root) {
    if (seen[size_t(root)] >= 0)
      continue;
    path.emplace_back(root, 0);
    while (!path.empty()) {
      const int v = path.back().first;
      if (path.back().second == 0 && seen[size_t(v)] < 0) {
        seen[size_t(v)] = low[size_t(v)] = clock++;
        open.push_back(v);
      }
      if (path.back().second < next[size_t(v)].size()) {
        const int w = next[size_t(v)][path.back().second++];
        if (seen[size_t(w)] < 0)
          path.emplace_back(w, 0);
        else if (component[size_t(w)] < 0)
          low[size_t(v)] = std::min(low[size_t(v)], seen[size_t(w)]);
        continue;
      }
      if (low[size_t(v)] == seen[size_t(v)]) {
        for (int w = -1; w != v;) {
          w = open.back();
          open.pop_back();
          component[size_t(w)] = count;
        }
        ++count;
      }
      path.pop_back();
      if (!path.empty())
        low[size_t(path.back().first)] = std::min(low[size_t(path.back().first)], low[size_t(v)]);
    }
  }
  return component;
}

/// Fills everything but the sums.
Units unitsOf(const StageProblem &problem, const std::vector<int> &unitOf, int count) {
  Units units;
  units.nodes.resize(size_t(count));
  for (size_t n = 0; n < unitOf.size(); ++n)
    units.nodes[size_t(unitOf[n])].push_back(int(n));
  units.valuesOf.resize(size_t(count));
  units.after.resize(size_t(count));
  units.pulled.assign(problem.nodes.size(), false);
  for (const StageValue &value : problem.values) {
    UnitValue entry{.from = unitOf[size_t(value.from)], .to = {}, .bytes = value.bytes, .source = &value};
    for (int node : value.to)
      entry.to.push_back(unitOf[size_t(node)]);
    std::sort(entry.to.begin(), entry.to.end());
    entry.to.erase(std::unique(entry.to.begin(), entry.to.end()), entry.to.end());
    entry.to.erase(std::remove(entry.to.begin(), entry.to.end(), entry.from), entry.to.end());
    if (entry.to.empty())
      continue;
    for (int to : entry.to) {
      units.valuesOf[size_t(to)].push_back(int(units.values.size()));
      if (value.order == ValueOrder::Backward)
        units.after[size_t(entry.from)].push_back(to);
      else if (value.order == ValueOrder::Forward)
        units.after[size_t(to)].push_back(entry.from);
    }
    units.valuesOf[size_t(entry.from)].push_back(int(units.values.size()));
    units.values.push_back(std::move(entry));
  }
  const size_t words = size_t(count) / 64 + 1;
  units.reach.assign(size_t(count), std::vector<uint64_t>(words, 0));
  for (int u = count - 1; u >= 0; --u) {
    std::vector<int> &after = units.after[size_t(u)];
    std::sort(after.begin(), after.end());
    after.erase(std::unique(after.begin(), after.end()), after.end());
    std::vector<uint64_t> &reach = units.reach[size_t(u)];
    for (int v : after) {
      reach[size_t(v) >> 6] |= uint64_t(1) << (v & 63);
      for (size_t i = 0; i < words; ++i)
        reach[i] |= units.reach[size_t(v)][i];
    }
  }
  units.places.resize(size_t(count));
  for (size_t n = 0; n < unitOf.size(); ++n)
    if (const int stage = problem.nodes[n].stage; stage >= 0) {
      UnitPlaces &places = units.places[size_t(unitOf[n])];
      places = {std::max(places.first, stage), std::min(places.last, stage)};
    }
  for (int u = 0; u < count; ++u)
    for (int v : units.after[size_t(u)])
      units.places[size_t(v)].last = std::min(units.places[size_t(v)].last, units.places[size_t(u)].last);
  for (int u = count - 1; u >= 0; --u)
    for (int v : units.after[size_t(u)])
      units.places[size_t(u)].first = std::max(units.places[size_t(u)].first, units.places[size_t(v)].first);
  return units;
}

/// Which units that take no time are pulled to which others (Units.h). Works in rounds, since a unit may be left with
/// one neighbour when others are pulled to it.
class Puller {
public:
  Puller(const StageProblem &problem, const Units &units) : problem_(problem), units_(units) {
    for (int u = 0; u < units.count(); ++u) {
      root_.push_back(u);
      light_.push_back(isLight(u));
    }
  }

  /// By unit: where it is pulled, or itself.
  const std::vector<int> &run() {
    while (round()) {
    }
    return root_;
  }

private:
  struct Neighbours {
    std::vector<int> all;
    std::vector<int> readers; // that must not be in an earlier stage
    bool feeds = false;       // it only feeds others, and no earlier stage
  };

  bool isLight(int unit) const {
    for (int node : units_.nodes[size_t(unit)])
      for (const StageNodeWay &way : problem_.nodes[size_t(node)].ways)
        if (way.synced > 0 || way.variants.size() > 1 || (!way.variants.empty() && way.variants[0].time() > 0))
          return false;
    return std::all_of(units_.valuesOf[size_t(unit)].begin(), units_.valuesOf[size_t(unit)].end(), [&](int v) {
      const StageValue &value = *units_.values[size_t(v)].source;
      return value.sent.empty() && value.received.empty();
    });
  }

  bool allows(int unit, int other) const {
    for (size_t w = 0; w < problem_.ways.size(); ++w) {
      auto possible = [&](int of) {
        return std::all_of(units_.nodes[size_t(of)].begin(), units_.nodes[size_t(of)].end(),
                           [&](int node) { return !problem_.nodes[size_t(node)].ways[w].variants.empty(); });
      };
      if (possible(other) && !possible(unit))
        return false;
    }
    return true;
  }

  std::vector<Neighbours> neighbours() const {
    std::vector<Neighbours> found(root_.size());
    for (Neighbours &of : found)
      of.feeds = true;
    for (const UnitValue &value : units_.values) {
      const int from = root_[size_t(value.from)];
      for (int unit : value.to)
        if (const int to = root_[size_t(unit)]; to != from) {
          if (value.source->order == ValueOrder::Forward)
            found[size_t(from)].readers.push_back(to);
          found[size_t(from)].all.push_back(to);
          found[size_t(from)].feeds &= value.source->order != ValueOrder::Backward;
          found[size_t(to)].all.push_back(from);
          found[size_t(to)].feeds = false;
        }
    }
    return found;
  }

  /// Where a unit is pulled, or -1.
  int target(int unit, const Neighbours &of) const {
    if (of.all.empty()) {
      for (int other = 0; other < units_.count(); ++other)
        if (root_[size_t(other)] == other && other != unit)
          return other;
      return -1;
    }
    if (std::all_of(of.all.begin(), of.all.end(), [&](int other) { return other == of.all[0]; }))
      return of.all[0];
    if (!of.feeds)
      return -1;
    if (of.readers.empty())
      return of.all[0]; // any will do
    const int first = *std::max_element(of.readers.begin(), of.readers.end());
    const bool before = std::all_of(of.readers.begin(), of.readers.end(),
                                    [&](int other) { return other == first || units_.reaches(other, first); });
    return before ? first : -1;
  }

  bool round() {
    const std::vector<Neighbours> all = neighbours();
    std::vector<bool> moved(root_.size(), false), grown(root_.size(), false);
    std::vector<int> to = root_;
    bool any = false;
    for (int u = 0; u < units_.count(); ++u) {
      if (root_[size_t(u)] != u || !light_[size_t(u)] || grown[size_t(u)])
        continue;
      const Neighbours &of = all[size_t(u)];
      const int other = target(u, of);
      if (other < 0 || moved[size_t(other)] || !allows(u, other) ||
          std::any_of(of.all.begin(), of.all.end(), [&](int n) { return moved[size_t(n)]; }))
        continue;
      to[size_t(u)] = other;
      moved[size_t(u)] = grown[size_t(other)] = any = true;
    }
    for (int &root : root_)
      root = to[size_t(root)];
    return any;
  }

  const StageProblem &problem_;
  const Units &units_;
  std::vector<int> root_;
  std::vector<bool> light_;
};

} // namespace

Units makeUnits(const StageProblem &problem, bool pull) {
  Lists next(problem.nodes.size());
  forEachEdge(problem, [&](int from, int to) { next[size_t(from)].push_back(to); });
  int count = 0;
  const std::vector<int> unitOf = componentsOf(next, count);
  Units units = unitsOf(problem, unitOf, count);
  std::vector<bool> pulled(problem.nodes.size(), false);
  if (pull && problem.stages == 0) {
    const std::vector<int> roots = Puller(problem, units).run();
    for (int u = 0; u < count; ++u)
      if (roots[size_t(u)] != u) {
        const int from = units.nodes[size_t(u)][0], to = units.nodes[size_t(roots[size_t(u)])][0];
        next[size_t(from)].push_back(to);
        next[size_t(to)].push_back(from);
        for (int node : units.nodes[size_t(u)])
          pulled[size_t(node)] = true;
      }
    const std::vector<int> together = componentsOf(next, count);
    units = unitsOf(problem, together, count);
  }
  units.pulled = pulled;
  for (size_t n = 0; n < pulled.size(); ++n)
    for (const StageNodeWay &way : problem.nodes[n].ways)
      for (const StageVariant &variant : way.variants)
        units.anyPulled |= pulled[n] && (variant.fixed > 0 || variant.held > 0);
  sumUnits(problem, units, false);
  return units;
}

Units reorderUnits(const StageProblem &problem, const Units &units, const std::vector<int> &order) {
  std::vector<int> unitOf(problem.nodes.size());
  for (size_t i = 0; i < order.size(); ++i)
    for (int node : units.nodes[size_t(order[i])])
      unitOf[size_t(node)] = int(i);
  Units again = unitsOf(problem, unitOf, units.count());
  again.pulled = units.pulled;
  again.anyPulled = units.anyPulled;
  sumUnits(problem, again, false);
  return again;
}

void sumUnits(const StageProblem &problem, Units &units, bool freePulled) {
  units.ways.assign(size_t(units.count()), std::vector<UnitWay>(problem.ways.size()));
  for (int u = 0; u < units.count(); ++u)
    for (size_t w = 0; w < problem.ways.size(); ++w)
      for (int node : units.nodes[size_t(u)]) {
        const StageNodeWay &way = problem.nodes[size_t(node)].ways[w];
        UnitWay &sum = units.ways[size_t(u)][w];
        sum.synced += way.synced;
        sum.varies |= way.variants.size() > 1;
        if (way.variants.empty()) {
          sum.possible = false;
          continue;
        }
        const StageVariant *fastest = &way.variants[0];
        int64_t least = std::numeric_limits<int64_t>::max();
        for (const StageVariant &variant : way.variants) {
          if (std::pair(variant.time(), variant.fixed + variant.held) <
              std::pair(fastest->time(), fastest->fixed + fastest->held))
            fastest = &variant;
          least = std::min(least, variant.fixed + variant.held);
        }
        sum.time += fastest->time();
        if (freePulled && units.pulled[size_t(node)])
          continue;
        sum.fixed += fastest->fixed;
        sum.held += fastest->held;
        sum.least += least;
      }
}

} // namespace tessera::strategies
