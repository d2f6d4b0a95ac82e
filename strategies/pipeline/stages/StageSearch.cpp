#include "strategies/pipeline/stages/StageSearch.h"

#include "strategies/pipeline/stages/OpenStage.h"
#include "strategies/pipeline/stages/SharedMemory.h"
#include "strategies/pipeline/stages/Variants.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <span>
#include <tuple>

namespace tessera::strategies {

namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr double kBelow = 1 - 1e-9; // sums of doubles are taken a little less than they are
constexpr double kMost = 4e18;      // above every value of a plan (checkStageProblem)
constexpr size_t kMostLabels = 8'000'000;
constexpr size_t kFirstCompact = 32; // labels of a downset before dominated ones are looked for
constexpr size_t kWords = 9;         // of eight bytes in a label
constexpr int kStepsOfLabel = 4;     // elementary steps of a stage that is added to a label: measured

struct Label {
  int64_t latency = 0, interval = 0;
  int64_t bound = 0; // of every plan that goes on from here
  std::array<int, kMostDeviceKinds> used{};
  int replicas = 0, stages = 0;
  uint32_t downset = 0, before = 0; // `before`: the label from which its first stage was cut
  int way = 0, copies = 1;
};

class StageSearch {
public:
  StageSearch(const StageProblem &problem, const Units &units, const Downsets &lattice, const StageWork &work,
              int64_t best, const SearchLimits &limits)
      : problem_(problem), units_(units), lattice_(lattice), work_(work), limits_(limits), best_(best),
        at_(lattice.count()), compactAt_(lattice.count(), kFirstCompact), stage_(problem, units), shared_(problem) {
    restWork_.assign(lattice.count(), 0);
    restLatency_.assign(lattice.count(), 0);
    restUnits_.assign(lattice.count(), 0);
    restMemory_.assign(shared_.size() > 0 ? lattice.count() : 0, {});
    for (uint32_t id = lattice.full(); id-- > 0;) {
      const DownsetEdge &edge = lattice.edges(id)[0];
      restWork_[id] = restWork_[edge.next] + work.work[size_t(edge.unit)];
      restLatency_[id] = restLatency_[edge.next] + work.latency[size_t(edge.unit)];
      restUnits_[id] = restUnits_[edge.next] + 1;
      if (!restMemory_.empty()) {
        const UnitWay &sums = units.ways[size_t(edge.unit)][0];
        restMemory_[id] = {restMemory_[edge.next].fixed + sums.fixed, restMemory_[edge.next].held + sums.held};
      }
    }
    for (size_t w = 0; w < problem.ways.size(); ++w) {
      const StageWay &way = problem.ways[w];
      smallestWay_ = std::min(smallestWay_, work.worth[size_t(way.devices)] * way.size);
      const int most = std::min(problem.mostReplicas, problem.devices[size_t(way.devices)].count / way.size);
      copies_.emplace_back();
      for (int d = 1; d <= std::min(most, problem.microBatches); ++d)
        if (problem.microBatches % d == 0)
          copies_.back().push_back(d);
    }
  }

  SearchedStages run() {
    labels_.emplace_back();
    needs_.assign(shared_.size(), 0);
    labels_[0].bound = boundOf(labels_[0], 0);
    at_[0].push_back(0);
    bool stopped = false;
    for (uint32_t id = 0; id < lattice_.full(); ++id) {
      if (at_[id].empty())
        continue;
      if (stopped) {
        drop(at_[id], 0);
        continue;
      }
      stopped |= !process(id);
      std::vector<uint32_t>().swap(at_[id]);
    }
    SearchedStages found;
    found.value = best_;
    found.lowerBound = std::min(best_, dropped_);
    found.steps = steps_;
    found.memoryIsShort = memoryIsShort_;
    if (bestLabel_ > 0)
      found.plan = planOf(bestLabel_);
    return found;
  }

private:
  using Sums = OpenStage::Sums;

  const StageDevices &devicesOf(size_t way) const { return problem_.devices[size_t(problem_.ways[way].devices)]; }

  /// What the devices that are left are worth.
  double capacity(const Label &label) const {
    double left = 0;
    for (size_t k = 0; k < problem_.devices.size(); ++k)
      left += work_.worth[k] * (problem_.devices[k].count - label.used[k]);
    return left;
  }

  int64_t boundOf(const Label &label, uint32_t downset) const {
    int64_t interval = label.interval;
    if (downset != lattice_.full()) {
      const double left = capacity(label);
      if (left <= 0)
        return kNever;
      const double even = std::ceil(restWork_[downset] / left * kBelow);
      if (even * problem_.microBatches > kMost)
        return kNever;
      interval = std::max(interval, int64_t(even));
    }
    return stageValue(problem_, label.latency + restLatency_[downset], interval);
  }

  /// What decides whether a label dominates another.
  struct Rank {
    int64_t latency, interval;
    std::array<int, kMostDeviceKinds> used;
    int replicas, stages;
    explicit Rank(const Label &label)
        : latency(label.latency), interval(label.interval), used(label.used), replicas(label.replicas),
          stages(label.stages) {}
  };

  bool dominates(const Rank &a, const Rank &b) const {
    if (a.latency > b.latency || a.interval > b.interval || a.replicas > b.replicas ||
        (problem_.stages > 0 && a.stages != b.stages))
      return false;
    for (size_t k = 0; k < problem_.devices.size(); ++k)
      if (a.used[k] > b.used[k])
        return false;
    return true;
  }

  /// What the places need for the stages of a label.
  std::span<const int64_t> needOf(uint32_t label) const {
    return std::span(needs_).subspan(label * shared_.size(), shared_.size());
  }
  bool needsNoMore(uint32_t a, std::span<const int64_t> b) const {
    if (shared_.size() == 0)
      return true;
    const Memory &rest = restMemory_[labels_[a].downset];
    return shared_.noMore(needOf(a), b, problem_.stages - labels_[a].stages, rest.fixed, rest.held);
  }

  /// Keeps the labels that can still lead to something better, the most promising first.
  void compact(std::vector<uint32_t> &list) {
    std::erase_if(list, [&](uint32_t l) { return labels_[l].bound >= best_; });
    auto key = [&](uint32_t l) {
      const Label &label = labels_[l];
      return std::tuple(label.bound, label.interval, label.latency, label.used, label.replicas, label.stages, l);
    };
    std::sort(list.begin(), list.end(), [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
    std::vector<uint32_t> kept;
    std::vector<Rank> ranks; // of those that are kept, side by side in memory
    for (uint32_t l : list) {
      // Of two of which one dominates the other, it comes first: its bound is no larger.
      const Rank rank(labels_[l]);
      bool dominated = false;
      for (size_t i = 0; i < ranks.size() && !dominated; ++i)
        dominated = dominates(ranks[i], rank) && needsNoMore(kept[i], needOf(l));
      if (dominated)
        continue;
      kept.push_back(l);
      ranks.push_back(rank);
    }
    steps_ += int64_t(list.size()) * int64_t(kept.size()) / 8;
    list.swap(kept);
  }

  /// The labels from place `first` on will not be followed.
  void drop(const std::vector<uint32_t> &list, size_t first) {
    for (size_t i = first; i < list.size(); ++i)
      dropped_ = std::min(dropped_, labels_[list[i]].bound);
  }

  bool exhausted() const {
    return steps_ > limits_.steps || labels_.size() > kMostLabels * kWords / (kWords + shared_.size()) ||
           (limits_.stop && *limits_.stop);
  }

  /// False if it had to stop.
  bool process(uint32_t id) {
    std::vector<uint32_t> &list = at_[id];
    compact(list);
    if (list.size() > limits_.labels) {
      drop(list, limits_.labels);
      list.resize(limits_.labels);
    }
    if (list.empty())
      return true;
    leastLatency_ = kNever;
    mostCapacity_ = 0;
    capacities_.clear();
    bool onlyLast = true;
    for (uint32_t l : list) {
      leastLatency_ = std::min(leastLatency_, labels_[l].latency);
      capacities_.push_back(capacity(labels_[l]));
      mostCapacity_ = std::max(mostCapacity_, capacities_.back() - smallestWay_);
      onlyLast &= !roomForTwo(labels_[l]);
    }
    from_ = id;
    leastLatency_ += restLatency_[id];
    if (grow(onlyLast))
      return true;
    drop(list, 0);
    return false;
  }

  /// Whether two more stages can follow.
  bool roomForTwo(const Label &label) const {
    if (problem_.stages > 0)
      return label.stages + 2 <= problem_.stages;
    int64_t stages = 0;
    std::array<int, kMostDeviceKinds> smallest{};
    for (const StageWay &way : problem_.ways) {
      int &size = smallest[size_t(way.devices)];
      size = size == 0 ? way.size : std::min(size, way.size);
    }
    for (size_t k = 0; k < problem_.devices.size(); ++k)
      if (smallest[k] > 0)
        stages += (problem_.devices[k].count - label.used[k]) / smallest[k];
    return stages >= 2;
  }

  /// Puts every stage together that begins behind downset `from_`: units are added in their order, so that each stage
  /// is met once. `onlyLast`: only the one that holds all that is left. False if it had to stop.
  bool grow(bool onlyLast) {
    struct Place {
      uint32_t downset;
      size_t edge;
    };
    std::vector<Place> path{{from_, 0}};
    bool stopped = false;
    while (!path.empty()) {
      stopped |= exhausted();
      Place &place = path.back();
      const auto edges = lattice_.edges(place.downset);
      while (place.edge < edges.size() && !stage_.units().empty() && edges[place.edge].unit < stage_.units().back())
        ++place.edge;
      if (!stopped && place.edge < edges.size() && (!onlyLast || place.edge == 0)) {
        const DownsetEdge &edge = edges[place.edge++];
        stage_.add(edge.unit);
        ++steps_;
        if (viable()) {
          if (!onlyLast || edge.next == lattice_.full())
            extend(edge.next);
          path.push_back({edge.next, 0});
          continue;
        }
        stage_.remove();
        continue;
      }
      path.pop_back();
      if (!path.empty())
        stage_.remove();
    }
    return !stopped;
  }

  /// Whether the stage, or one that holds it, can be part of a better plan.
  bool viable() {
    if (const UnitPlaces places = stage_.places(); places.first > places.last)
      return false;
    bool possible = false;
    for (size_t w = 0; w < problem_.ways.size() && !possible; ++w) {
      const Sums &sums = stage_.sums(w);
      if (sums.impossible > 0 || copies_[w].empty())
        continue;
      if (stageValue(problem_, leastLatency_, ceilDiv(sums.time, copies_[w].back())) >= best_)
        continue;
      if (devicesOf(w).memory >= 0 && sums.least > devicesOf(w).memory)
        memoryIsShort_ = true;
      else
        possible = true;
    }
    return possible;
  }

  void extend(uint32_t to) {
    if (!enoughIsDone(to))
      return;
    known_.clear();
    for (size_t w = 0; w < problem_.ways.size(); ++w) {
      const Sums &sums = stage_.sums(w);
      if (sums.impossible > 0)
        continue;
      for (int copies : copies_[w]) {
        const StageTimes times = stage_.times(w, copies);
        if (stageValue(problem_, leastLatency_, times.interval) >= best_)
          continue;
        const double taken = work_.worth[size_t(problem_.ways[w].devices)] * problem_.ways[w].size * copies;
        const std::vector<uint32_t> &list = at_[from_];
        for (size_t i = 0; i < list.size(); ++i)
          if (restWork_[to] * kBelow <= (capacities_[i] - taken) * double(best_ - 1) || to == lattice_.full())
            extend(list[i], to, int(w), copies, times);
      }
    }
  }

  /// The goal that looks at intervals only has no use for latencies.
  int64_t latencyOf(const Label &before, StageTimes times) const {
    return problem_.goal == StageGoal::Batch ? before.latency + times.latency : 0;
  }

  /// Whether what is left after the stage could be done by the devices that are left, by all of them at best.
  bool enoughIsDone(uint32_t to) const {
    if (to == lattice_.full())
      return true;
    if (mostCapacity_ <= 0)
      return false;
    const double even = std::ceil(restWork_[to] / mostCapacity_ * kBelow);
    return even * problem_.microBatches <= kMost && stageValue(problem_, leastLatency_, int64_t(even)) < best_;
  }

  void extend(uint32_t l, uint32_t to, int way, int copies, StageTimes times) {
    const Label &before = labels_[l];
    if (const int place = problem_.stages - 1 - before.stages;
        problem_.stages > 0 && (!stage_.mayBe(place) || !mayRun(problem_, place, way)))
      return;
    const size_t kind = size_t(problem_.ways[size_t(way)].devices);
    Label label{.latency = latencyOf(before, times),
                .interval = std::max(before.interval, times.interval),
                .bound = 0,
                .used = before.used,
                .replicas = before.replicas + copies,
                .stages = before.stages + 1,
                .downset = to,
                .before = l,
                .way = way,
                .copies = copies};
    const int64_t used = label.used[kind] + int64_t(problem_.ways[size_t(way)].size) * copies;
    if (used > problem_.devices[kind].count)
      return;
    label.used[kind] = int(used);
    steps_ += kStepsOfLabel;
    if (problem_.stages > 0 && (label.stages + restUnits_[to] < problem_.stages ||
                                label.stages + (to == lattice_.full() ? 0 : 1) > problem_.stages))
      return;
    label.bound = boundOf(label, to);
    if (label.bound >= best_)
      return;
    const int64_t limit = problem_.devices[kind].memory;
    const Sums &sums = stage_.sums(size_t(way));
    need_.assign(needOf(l).begin(), needOf(l).end());
    if (shared_.size() > 0) {
      if (!shared_.add(problem_.stages - label.stages, sums.fixed, sums.held, need_)) {
        memoryIsShort_ = true;
        return;
      }
    } else if (limit >= 0) {
      const int64_t inFlight = microBatchesInFlight(problem_, copies, before.replicas);
      if (sums.fixed + inFlight * sums.held > limit) {
        memoryIsShort_ = true;
        if (sums.varies == 0 || !fit(label, before, inFlight, limit))
          return;
      }
    }
    insert(label);
  }

  /// Gives the label the times of variants that fit. False if there are none, or if they take too long.
  bool fit(Label &label, const Label &before, int64_t inFlight, int64_t limit) {
    const size_t way = size_t(label.way);
    auto [place, isNew] = known_.try_emplace({label.way, inFlight});
    Variants &variants = place->second;
    if (isNew) {
      const std::vector<int> nodes = stage_.nodes();
      variants = chooseVariants(problem_, nodes, label.way, inFlight, limit, freeNodes(), enough(way));
      steps_ += int64_t(nodes.size()) * 32;
    }
    if (!variants.fits)
      return false;
    auto bound = [&](int64_t time) {
      const StageTimes times = stage_.times(way, label.copies, time);
      label.latency = latencyOf(before, times);
      label.interval = std::max(before.interval, times.interval);
      return label.bound = boundOf(label, label.downset);
    };
    if (const int64_t lower = bound(variants.lower); lower >= best_)
      return false;
    else if (variants.lower < variants.time)
      dropped_ = std::min(dropped_, lower);
    return bound(variants.time) < best_;
  }

  /// Times from which on a stage is of no use, however many replicas it has.
  int64_t enough(size_t way) const {
    if (problem_.goal != StageGoal::Bottleneck)
      return kNever;
    return best_ > kNever / copies_[way].back() ? kNever : best_ * copies_[way].back();
  }

  const std::vector<bool> *freeNodes() const { return limits_.freePulled ? &units_.pulled : nullptr; }

  void insert(const Label &label) {
    const auto l = uint32_t(labels_.size());
    if (label.downset == lattice_.full()) { // its bound is its value, below the best so far
      labels_.push_back(label);
      needs_.insert(needs_.end(), need_.begin(), need_.end());
      best_ = label.bound;
      bestLabel_ = l;
      return;
    }
    std::vector<uint32_t> &list = at_[label.downset];
    for (uint32_t other : std::span(list).first(std::min(list.size(), kFirstCompact)))
      if (dominates(Rank(labels_[other]), Rank(label)) && needsNoMore(other, need_))
        return;
    labels_.push_back(label);
    needs_.insert(needs_.end(), need_.begin(), need_.end());
    list.push_back(l);
    if (list.size() >= compactAt_[label.downset]) {
      compact(list);
      compactAt_[label.downset] = 2 * std::max(list.size(), kFirstCompact);
    }
  }

  /// The last label's stage is the first of the plan.
  StagePlan planOf(uint32_t l) const {
    StagePlan plan;
    for (; l > 0; l = labels_[l].before) {
      const Label &label = labels_[l], &before = labels_[label.before];
      Stage stage{.nodes = {}, .variants = {}, .way = label.way, .replicas = label.copies};
      std::vector<bool> has(size_t(units_.count()), false);
      for (int unit : lattice_.units(before.downset))
        has[size_t(unit)] = true;
      for (int unit : lattice_.units(label.downset))
        if (!has[size_t(unit)])
          stage.nodes.insert(stage.nodes.end(), units_.nodes[size_t(unit)].begin(), units_.nodes[size_t(unit)].end());
      std::sort(stage.nodes.begin(), stage.nodes.end());
      stage.variants = chooseVariants(problem_, stage.nodes, stage.way,
                                      microBatchesInFlight(problem_, stage.replicas, before.replicas),
                                      shared_.size() > 0 ? -1 : devicesOf(size_t(stage.way)).memory, freeNodes())
                           .variants;
      plan.push_back(std::move(stage));
    }
    return plan;
  }

  const StageProblem &problem_;
  const Units &units_;
  const Downsets &lattice_;
  const StageWork &work_;
  const SearchLimits &limits_;
  int64_t best_, dropped_ = kNever, steps_ = 0;
  uint32_t bestLabel_ = 0;
  bool memoryIsShort_ = false;
  std::vector<Label> labels_;
  std::vector<std::vector<uint32_t>> at_; // by downset
  std::vector<size_t> compactAt_;
  std::vector<double> restWork_;
  std::vector<int64_t> restLatency_;
  std::vector<int> restUnits_;
  struct Memory {
    int64_t fixed = 0, held = 0;
  };
  std::vector<Memory> restMemory_;       // where stages share memory
  std::vector<std::vector<int>> copies_; // by way: numbers of replicas
  double smallestWay_ = HUGE_VAL;        // what its devices are worth

  // The stage that is being put together.
  uint32_t from_ = 0;
  std::vector<double> capacities_; // of the labels of `from_`
  double mostCapacity_ = 0;        // of a label of `from_`, after the stage
  int64_t leastLatency_ = 0;       // of a plan that goes on from `from_`
  OpenStage stage_;
  const SharedMemory shared_;
  std::vector<int64_t> needs_, need_;                 // of all labels, of the one that is made
  std::map<std::pair<int, int64_t>, Variants> known_; // by way and micro-batches in flight
};

/// The most even division for what devices of a kind are worth.
double evenly(const StageProblem &problem, const Units &units, const std::vector<double> &worth,
              std::vector<double> &work) {
  double all = 0, capacity = 0;
  work.assign(size_t(units.count()), 0);
  for (int u = 0; u < units.count(); ++u) {
    double least = HUGE_VAL;
    for (size_t w = 0; w < problem.ways.size(); ++w)
      if (const UnitWay &way = units.ways[size_t(u)][w]; way.possible)
        least = std::min(least, double(way.time) * problem.ways[w].size * worth[size_t(problem.ways[w].devices)]);
    if (least == HUGE_VAL)
      least = 0; // no plan has this unit
    work[size_t(u)] = least;
    all += least;
  }
  for (size_t k = 0; k < worth.size(); ++k)
    capacity += worth[k] * problem.devices[k].count;
  return capacity > 0 ? all / capacity : 0;
}

} // namespace

int64_t stageValue(const StageProblem &problem, int64_t latency, int64_t interval) {
  if (problem.goal == StageGoal::Bottleneck)
    return interval;
  return latency + (problem.microBatches - 1) * interval;
}

StageWork workOf(const StageProblem &problem, const Units &units) {
  constexpr double kTried[] = {0.001, 0.003, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.14, 0.2, 0.3, 0.4, 0.5, 0.7,
                               0.85,  1,     1.2,  1.5,  2,    3,    5,    7,   10,   20,  50,  100, 1000};
  StageWork best{.worth = std::vector<double>(problem.devices.size(), 1), .work = {}, .latency = {}, .bound = 0};
  double most = evenly(problem, units, best.worth, best.work);
  for (size_t k = 1; k < problem.devices.size(); ++k) {
    std::vector<double> worth = best.worth, work;
    for (double tried : kTried) {
      worth[k] = tried;
      if (const double bound = evenly(problem, units, worth, work); bound > most) {
        most = bound;
        best.worth = worth;
        best.work = work;
      }
    }
  }
  int64_t interval = int64_t(std::ceil(most * kBelow)), latency = 0;
  for (int u = 0; u < units.count(); ++u) {
    int64_t shortest = kNever, least = kNever;
    for (size_t w = 0; w < problem.ways.size(); ++w) {
      const StageWay &way = problem.ways[w];
      const int copies =
          std::min({problem.mostReplicas, problem.microBatches, problem.devices[size_t(way.devices)].count / way.size});
      if (!units.ways[size_t(u)][w].possible || copies < 1)
        continue;
      shortest = std::min(shortest, units.ways[size_t(u)][w].time);
      least = std::min(least, ceilDiv(units.ways[size_t(u)][w].time, copies));
    }
    if (shortest == kNever)
      shortest = least = 0; // no plan has this unit
    best.latency.push_back(shortest);
    latency += shortest;
    interval = std::max(interval, least);
  }
  best.bound = stageValue(problem, latency, interval);
  return best;
}

SearchedStages searchStages(const StageProblem &problem, const Units &units, const Downsets &lattice,
                            const StageWork &work, int64_t best, const SearchLimits &limits) {
  return StageSearch(problem, units, lattice, work, best, limits).run();
}

} // namespace tessera::strategies
