#include "strategies/pipeline/stages/EvenCuts.h"

#include "strategies/pipeline/stages/MovedBytes.h"
#include "strategies/pipeline/stages/SharedMemory.h"
#include "strategies/pipeline/stages/StageSearch.h"
#include "strategies/pipeline/stages/Variants.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

namespace tessera::strategies {

namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
/// A latency that is longer than all, to which one can be added.
constexpr int64_t kUnreached = kNever / 2;
/// The first intervals that are tried, by what all stages take if they are even; how close the interval then comes to
/// the shortest; and intervals beyond it with which the sum of latencies may be shorter.
constexpr double kFar = 4e18;
constexpr double kGrowth[] = {1.003, 1.01, 1.03, 1.1, 1.3, 2, 8, kFar};
constexpr double kPrecision = 2e-3, kLonger[] = {1.01, 1.03, 1.06, 1.1, 1.2, 1.4};
constexpr double kPrecisionOfBound = 1e-4;
constexpr int64_t kMostPlaces = 20'000'000;
constexpr size_t kMostMeasured = 8'000'000;
constexpr int kMostShares = 5; // of a place's memory that are tried

class EvenCuts {
public:
  /// `ways`: of each stage. `limits`: of its memory, if they are others than those of its devices; negative: none.
  EvenCuts(const StageProblem &problem, const Units &units, const std::vector<int> &ways,
           const std::vector<int64_t> &limits)
      : problem_(problem), units_(units), stages_(int(ways.size())), haveOwnLimits_(!limits.empty()) {
    for (int behind = 0; behind < stages_; ++behind) {
      const auto way = size_t(ways[size_t(stages_ - 1 - behind)]);
      const auto known = std::ranges::find(ways_, way, &Way::way);
      byBehind_.push_back(size_t(known - ways_.begin()));
      if (known == ways_.end())
        ways_.emplace_back(problem, units, way);
      limits_.push_back(haveOwnLimits_ ? limits[size_t(stages_ - 1 - behind)]
                                       : problem.devices[size_t(problem.ways[way].devices)].memory);
      inFlight_.push_back(microBatchesInFlight(problem, 1, behind));
    }
    for (int u = 0; u < units.count(); ++u) {
      int64_t least = kNever; // in the best of the ways
      for (const Way &way : ways_)
        if (const UnitWay &sums = units.ways[size_t(u)][way.way]; sums.possible)
          least = std::min(least, sums.time);
      possible_ &= least != kNever;
      time_.push_back(time_.back() + (least == kNever ? 0 : least));
      longest_ = std::max(longest_, least == kNever ? 0 : least);
    }
    const bool vary = std::ranges::any_of(ways_, [](const Way &way) { return way.memory.back().varies > 0; });
    const bool limited = std::ranges::any_of(limits_, [](int64_t limit) { return limit >= 0; });
    isPlain_ = ways_.size() == 1 && (!limited || (!haveOwnLimits_ && !vary));
    needsGrow_ = isPlain_ || !vary;
  }

  /// By stage from the last, the unit behind its last one; empty: none is found whose value is below `value`.
  std::vector<int> run(int64_t value) {
    int64_t least = std::max<int64_t>({1, longest_, ceilDiv(time_.back(), stages_)});
    const int64_t most = mostInterval(value);
    if (!possible_ || least > most)
      return {};
    least = mightHoldAll(least, std::min(most, time_.back()));
    if (least == kNever)
      return {};
    Cuts best;
    for (double growth : kGrowth) {
      const int64_t interval = std::min(double(least) * growth < kFar ? int64_t(double(least) * growth) : kNever, most);
      best = within(interval);
      if (!best.ends.empty() || interval == most)
        break;
      low_ = interval + 1;
    }
    if (best.ends.empty())
      return {};
    least = std::max(least, low_);
    while (double(best.interval - least) > kPrecision * double(best.interval)) {
      const int64_t middle = least + (best.interval - least) / 2;
      if (Cuts cuts = within(middle); !cuts.ends.empty())
        best = std::move(cuts);
      else
        least = middle + 1;
    }
    if (problem_.goal == StageGoal::Batch)
      for (const int64_t shortest = best.interval; double longer : kLonger) {
        const auto interval = int64_t(double(shortest) * longer);
        if ((problem_.microBatches - 1) * (interval - shortest) >= best.latency - time_.back())
          break; // no sum of latencies makes up for it
        Cuts cuts = within(interval);
        if (!cuts.ends.empty() && valueOf(cuts) < valueOf(best))
          best = std::move(cuts);
      }
    return valueOf(best) < value ? best.ends : std::vector<int>();
  }

  int64_t steps = 0;

private:
  struct Cuts {
    std::vector<int> ends;
    int64_t interval = 0, latency = 0; // the longest, the sum
  };
  /// Of the units before a place.
  struct Memory {
    int impossible = 0, varies = 0;
    int64_t fixed = 0, held = 0, least = 0;
  };
  /// What stages that are run in a way need.
  struct Way {
    Way(const StageProblem &problem, const Units &units, size_t way)
        : way(way), latency(size_t(units.count()) + 1), moved(units, way) {
      for (int u = 0; u < units.count(); ++u) {
        const UnitWay &sums = units.ways[size_t(u)][way];
        time.push_back(time.back() + sums.time);
        const Memory &last = memory.back();
        memory.push_back({last.impossible + !sums.possible, last.varies + sums.varies, last.fixed + sums.fixed,
                          last.held + sums.held, last.least + sums.least});
      }
    }
    size_t way;
    std::vector<Memory> memory = {{}};
    std::vector<int64_t> time = {0};           // of the units before each place
    std::vector<std::vector<int64_t>> latency; // by place, of stages that begin there by their end
    MovedBytes moved;
  };
  const Way &wayBehind(int behind) const { return ways_[byBehind_[size_t(behind)]]; }
  /// The best ways to cut the units before each place into some stages: the sum of latencies, and where the last of
  /// these stages begins.
  struct Places {
    std::vector<int> few, many; // by place: how many stages lie before it
    std::vector<int64_t> begin; // in the lists below, which have these numbers in turn
    std::vector<int64_t> latency;
    std::vector<int> before;
    size_t at(int place, int stages) const { return size_t(begin[size_t(place)] + stages - few[size_t(place)]); }
  };

  int64_t valueOf(const Cuts &cuts) const { return stageValue(problem_, cuts.latency, cuts.interval); }

  /// No plan below the value has a longer interval.
  int64_t mostInterval(int64_t value) const {
    if (value == kNever)
      return kNever;
    if (problem_.goal == StageGoal::Bottleneck)
      return value - 1;
    return problem_.microBatches > 1 ? (value - 1 - time_.back()) / (problem_.microBatches - 1) : value - 1;
  }

  /// About the shortest interval, of these, in which the stages might hold all units, messages left out; it is not
  /// longer than the shortest. kNever: in none.
  int64_t mightHoldAll(int64_t from, int64_t to) const {
    if (!leastStages(from).empty())
      return from;
    if (leastStages(to).empty())
      return kNever;
    while (to - from > 1 && double(to - from) > kPrecisionOfBound * double(to)) {
      const int64_t middle = from + (to - from) / 2;
      (leastStages(middle).empty() ? from : to) = middle;
    }
    return from + 1;
  }

  /// Cuts of which no interval is longer and the sum of latencies is least.
  Cuts within(int64_t interval) {
    const int n = units_.count();
    const std::optional<Places> found = placesWithin(interval);
    if (!found || found->latency[found->at(n, stages_)] == kUnreached)
      return {};
    Cuts cuts{{}, 0, found->latency[found->at(n, stages_)]};
    for (int p = n, s = stages_; s > 0; --s) {
      cuts.ends.push_back(p);
      const int end = std::exchange(p, found->before[found->at(p, s)]);
      cuts.interval = std::max(cuts.interval, wayBehind(s - 1).latency[size_t(p)][size_t(end - p - 1)]);
    }
    std::reverse(cuts.ends.begin(), cuts.ends.end());
    return cuts;
  }

  /// Nothing: there are none, or too many to look at.
  std::optional<Places> placesWithin(int64_t interval) {
    const int n = units_.count();
    // How many stages can lie before each place: the work and what it needs fit into them, and what is left into the
    // others.
    Places places{leastStages(interval), mostStages(interval), std::vector<int64_t>(size_t(n) + 2, 0), {}, {}};
    std::vector<int> &few = places.few, &many = places.many;
    if (few.empty() || many.empty())
      return std::nullopt;
    for (int p = 0; p <= n; ++p) {
      const int64_t behind = ceilDiv(time_.back() - time_[size_t(p)], interval);
      few[size_t(p)] = std::max(few[size_t(p)], stages_ - (n - p));
      many[size_t(p)] = int(std::min<int64_t>({many[size_t(p)], stages_ - behind, p}));
      places.begin[size_t(p) + 1] = places.begin[size_t(p)] + std::max(0, many[size_t(p)] - few[size_t(p)] + 1);
    }
    if (places.begin.back() > kMostPlaces || few[0] > 0 || many[0] < 0 || few.back() > stages_ || many.back() < stages_)
      return std::nullopt;
    places.latency.assign(size_t(places.begin.back()), kUnreached);
    places.before.assign(size_t(places.begin.back()), 0);
    places.latency[places.at(0, 0)] = 0;
    std::vector<int> reached; // of the first numbers of stages from `from` on
    for (int p = 0; p < n; ++p) {
      int first = few[size_t(p)], last = many[size_t(p)];
      while (first <= last && places.latency[places.at(p, first)] == kUnreached)
        ++first;
      while (first <= last && places.latency[places.at(p, last)] == kUnreached)
        --last;
      if (first > last)
        continue;
      if (!measure(p, interval, first, last))
        return std::nullopt;
      const int from = first;
      if (isPlain_) {
        reached.assign(1, 0);
        for (int s = first; s <= last; ++s)
          reached.push_back(reached.back() + (places.latency[places.at(p, s)] != kUnreached));
      }
      UnitPlaces bound;
      for (int end = p + 1; end <= n && time_[size_t(end)] - time_[size_t(p)] <= interval; ++end) {
        if (!trim(p, end, first, last))
          break;
        const UnitPlaces &more = units_.places[size_t(end) - 1];
        bound = {std::max(bound.first, more.first), std::min(bound.last, more.last)};
        if (bound.first > bound.last)
          break;
        // The stage is the one before those that lie behind it.
        const int fewest = std::max({first, few[size_t(end)] - 1, stages_ - 1 - std::min(bound.last, stages_ - 1)});
        const int most = std::min(many[size_t(end)] - 1, stages_ - 1 - bound.first);
        if (!isPlain_) {
          for (int s = fewest; s <= std::min(last, most); ++s)
            if (places.latency[places.at(p, s)] != kUnreached && fits(p, end, s))
              if (const int64_t latency = wayBehind(s).latency[size_t(p)][size_t(end - p - 1)]; latency <= interval) {
                lead(places, p, end, s, s, latency);
                ++steps;
              }
          continue;
        }
        const int64_t latency = ways_[0].latency[size_t(p)][size_t(end - p - 1)]; // and interval
        if (latency <= interval && fewest <= std::min(last, most)) {
          lead(places, p, end, fewest, std::min(last, most), latency);
          steps += reached[size_t(std::min(last, most) + 1 - from)] - reached[size_t(fewest - from)];
        }
      }
    }
    return places;
  }

  /// Of stages that begin at a place, before which there are some numbers of stages.
  static void lead(Places &places, int begin, int end, int fewest, int most, int64_t latency) {
    const int64_t *from = &places.latency[places.at(begin, fewest)];
    int64_t *to = &places.latency[places.at(end, fewest + 1)];
    int *before = &places.before[places.at(end, fewest + 1)];
    for (int i = 0; i <= most - fewest; ++i)
      if (from[i] + latency < to[i]) {
        to[i] = from[i] + latency;
        before[i] = begin;
      }
  }

  /// Whether a stage might be so long, behind which there are so many. If it must not, longer ones must not either.
  bool mayHold(int begin, int end, int behind, int64_t interval) const {
    return time_[size_t(end)] - time_[size_t(begin)] <= interval && (!needsGrow_ || fits(begin, end, behind));
  }

  /// By place, the fewest stages into which what lies before it might fit; empty: all of it fits into no number of them.
  /// Each takes as much as it can: the next one gets at least as far from there as from an earlier place.
  std::vector<int> leastStages(int64_t interval) const {
    std::vector<int> least = {0};
    for (int p = 1, begin = 0, stages = 1; p <= units_.count(); ++p) {
      while (!mayHold(begin, p, stages - 1, interval)) {
        begin = p - 1;
        if (++stages > stages_)
          return {};
      }
      least.push_back(stages);
    }
    return least;
  }

  /// By place, how many stages may lie before it so that what lies behind it might fit into the others; empty: all of it
  /// fits into no number of them.
  std::vector<int> mostStages(int64_t interval) const {
    std::vector<int> most(size_t(units_.count()) + 1, stages_);
    for (int p = units_.count() - 1, end = p + 1, before = stages_ - 1; p >= 0; --p) {
      while (!mayHold(p, end, before, interval)) {
        end = p + 1;
        if (--before < 0)
          return {};
      }
      most[size_t(p)] = before;
    }
    return most;
  }

  /// Leaves out the first and last numbers of stages behind which a stage cannot be so long, nor longer. False: none are
  /// left.
  bool trim(int begin, int end, int &first, int &last) const {
    if (!needsGrow_)
      return true;
    while (first <= last && !fits(begin, end, last))
      --last;
    while (first <= last && !fits(begin, end, first))
      ++first;
    return first <= last;
  }

  /// Sets the latencies of the stages that begin at the place, take no longer and have room behind `first` to `last`
  /// others. False if these are too many.
  bool measure(int p, int64_t interval, int first, int last) {
    const std::vector<int64_t> &row = ways_[0].latency[size_t(p)];
    const size_t known = row.size();
    size_t length = known;
    while (p + int(length) < units_.count() && time_[size_t(p) + length + 1] - time_[size_t(p)] <= interval &&
           trim(p, p + int(length) + 1, first, last))
      ++length;
    if (length == known)
      return true;
    for (Way &way : ways_) {
      way.moved.begin(p);
      int64_t bytes = 0;
      for (size_t i = 0; i < length; ++i) {
        bytes += way.moved.more(p + int(i));
        if (i >= known)
          way.latency[size_t(p)].push_back(
              stageTimes(problem_, int(way.way), 1, way.time[size_t(p) + i + 1] - way.time[size_t(p)], bytes, 0)
                  .latency);
      }
    }
    steps += int64_t(length);
    measured_ += (length - known) * ways_.size();
    return measured_ <= kMostMeasured;
  }

  /// Whether a stage can be run and has room, behind which there are so many. With variants: whether the smallest of
  /// them might.
  bool fits(int begin, int end, int behind) const {
    const Way &way = wayBehind(behind);
    const int64_t limit = limits_[size_t(behind)];
    const Memory &to = way.memory[size_t(end)], &from = way.memory[size_t(begin)];
    if (to.impossible > from.impossible)
      return false;
    if (limit < 0)
      return true;
    if (to.varies > from.varies)
      return to.least - from.least <= limit;
    return to.fixed - from.fixed + inFlight_[size_t(behind)] * (to.held - from.held) <= limit;
  }

  const StageProblem &problem_;
  const Units &units_;
  const int stages_;
  std::vector<int64_t> time_ = {0}; // of the units before each place, each in its best way
  std::vector<Way> ways_;           // the different ones
  std::vector<size_t> byBehind_;    // of ways_, by the stages behind
  const bool haveOwnLimits_;
  std::vector<int64_t> limits_, inFlight_; // of memory, of micro-batches in a stage; by the stages behind it
  size_t measured_ = 0;
  int64_t longest_ = 0, low_ = 0;
  bool possible_ = true;
  bool needsGrow_ = false; // what a stage needs, with every unit that it has more
  bool isPlain_ = false;   // one way, one limit, and needs that grow with the stages behind
};

/// The plan of these cuts with the variants that fit; empty: none do. Of places that is not looked at.
StagePlan planOf(const StageProblem &problem, const Units &units, const std::vector<int> &ways,
                 const std::vector<int> &ends) {
  StagePlan plan;
  for (int begin = 0; int end : ends) {
    const int way = ways[ways.size() - 1 - plan.size()];
    const int64_t limit =
        sharesMemory(problem) ? -1 : problem.devices[size_t(problem.ways[size_t(way)].devices)].memory;
    Stage stage{.nodes = {}, .variants = {}, .way = way, .replicas = 1};
    for (int u = begin; u < end; ++u)
      stage.nodes.insert(stage.nodes.end(), units.nodes[size_t(u)].begin(), units.nodes[size_t(u)].end());
    std::sort(stage.nodes.begin(), stage.nodes.end());
    Variants variants = chooseVariants(problem, stage.nodes, way,
                                       microBatchesInFlight(problem, 1, int64_t(plan.size())), limit, nullptr);
    if (!variants.fits)
      return {};
    stage.variants = std::move(variants.variants);
    plan.push_back(std::move(stage));
    begin = end;
  }
  std::reverse(plan.begin(), plan.end());
  return plan;
}

} // namespace

EvenlyCut cutEvenly(const StageProblem &problem, const Units &units, int64_t value) {
  EvenlyCut found{.plan = {}, .value = value, .steps = 0};
  auto cut = [&](const std::vector<int> &ways, const std::vector<int64_t> &limits) {
    EvenCuts cuts(problem, units, ways, limits);
    const std::vector<int> ends = cuts.run(found.value);
    found.steps += cuts.steps;
    StagePlan plan = ends.empty() ? StagePlan() : planOf(problem, units, ways, ends);
    if (plan.empty())
      return plan;
    if (const StageRating rating = rateStages(problem, plan); rating.error.empty() && rating.value < found.value) {
      found.value = rating.value;
      found.plan = plan;
    }
    return plan;
  };
  auto tryWays = [&](const std::vector<int> &ways) {
    if (!sharesMemory(problem)) {
      cut(ways, {});
      return;
    }
    const int64_t before = found.value;
    const StagePlan inAnyMemory = cut(ways, std::vector<int64_t>(ways.size(), -1));
    if (inAnyMemory.empty() || found.value < before) // there is none, or it fits
      return;
    for (GivesUp who : {GivesUp::All, GivesUp::First, GivesUp::Last}) {
      StagePlan plan = inAnyMemory;
      for (int round = 1; round < kMostShares && !plan.empty(); ++round)
        plan = cut(ways, shareMemory(problem, plan, who));
    }
  };
  if (!problem.stageWays.empty()) {
    if (problem.stages <= units.count())
      tryWays(problem.stageWays);
    return found;
  }
  for (size_t w = 0; w < problem.ways.size(); ++w) {
    const StageWay &way = problem.ways[w];
    const int most = std::min(problem.devices[size_t(way.devices)].count / way.size, units.count());
    const int stages = problem.stages > 0 ? problem.stages : most;
    if (stages >= 1 && stages <= most)
      tryWays(std::vector<int>(size_t(stages), int(w)));
  }
  return found;
}

} // namespace tessera::strategies
