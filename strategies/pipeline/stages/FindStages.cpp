#include "strategies/pipeline/stages/FindStages.h"

#include "strategies/pipeline/stages/EvenCuts.h"
#include "strategies/pipeline/stages/Room.h"
#include "strategies/pipeline/stages/SharedMemory.h"
#include "strategies/pipeline/stages/StageSearch.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <tuple>

namespace tessera::strategies {

namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr double kStepsOfWork = 1e8;

// Labels that are followed from a downset: a few give a good plan soon, and with it all of them are few enough.
constexpr size_t kLabels[] = {4, 64, std::numeric_limits<size_t>::max()};

constexpr int kVainRounds = 6; // of new orders, before the search near orders ends

class StageFinder {
public:
  StageFinder(const StageProblem &problem, const StageOptions &options)
      : problem_(problem), options_(options), left_(int64_t(options.work * kStepsOfWork)), units_(boundUnits(problem)),
        work_(workOf(problem, units_)) {}

  FoundStages run() {
    found_.value = kNever;
    found_.units = units_.count();
    if (!hasRoom(problem_)) {
      found_.value = 0;
      found_.infeasible = found_.complete = true;
      return std::move(found_);
    }
    const Units byDepth = reorderUnits(problem_, units_, byPlaces(units_, breadthFirst()));
    tryEven(units_);
    if (!isEnough())
      tryEven(byDepth);
    if (!isEnough()) {
      tryNear(units_, near(units_, 0), 1);
      tryNear(byDepth, near(byDepth, 0), 1);
    }
    if (isEnough()) {
      found_.downsets = uint32_t(units_.count()) + 1;
    } else if (const std::optional<Downsets> all = Downsets::build(units_, units_.count(), options_.mostDownsets)) {
      found_.complete = true;
      found_.downsets = all->count();
      tryAll(*all);
    } else {
      tryOrders();
    }
    if (found_.plan.empty() && found_.lowerBound == kNever)
      found_.infeasible = true;
    if (found_.plan.empty())
      found_.value = 0;
    found_.lowerBound = found_.infeasible ? 0 : std::max(found_.lowerBound, work_.bound);
    found_.work = options_.work - double(left_) / kStepsOfWork;
    return std::move(found_);
  }

private:
  /// The order, but units that must be in later stages first: a cut that puts nodes where they are bound may lie along no
  /// other order.
  static std::vector<int> byPlaces(const Units &units, std::vector<int> order) {
    auto place = [&](int u) {
      const UnitPlaces &places = units.places[size_t(u)];
      return int64_t(places.first) + places.last;
    };
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return place(a) > place(b); });
    return order;
  }
  static Units boundUnits(const StageProblem &problem) {
    Units units = makeUnits(problem);
    if (std::all_of(problem.nodes.begin(), problem.nodes.end(), [](const StageNode &node) { return node.stage < 0; }))
      return units;
    std::vector<int> order(size_t(units.count()));
    std::iota(order.begin(), order.end(), 0);
    return reorderUnits(problem, units, byPlaces(units, std::move(order)));
  }

  SearchedStages search(const Units &units, const Downsets &lattice, const StageWork &work, size_t labels,
                        bool freePulled) {
    const SearchLimits limits{.labels = labels, .steps = left_, .stop = options_.stop, .freePulled = freePulled};
    SearchedStages searched = searchStages(problem_, units, lattice, work, found_.value, limits);
    left_ = std::max<int64_t>(0, left_ - searched.steps);
    if (!freePulled && !searched.plan.empty()) {
      found_.plan = searched.plan;
      found_.value = searched.value;
    }
    return searched;
  }

  void tryEven(const Units &units) {
    EvenlyCut even = cutEvenly(problem_, units, found_.value);
    left_ = std::max<int64_t>(0, left_ - even.steps);
    if (even.plan.empty())
      return;
    found_.plan = std::move(even.plan);
    found_.value = even.value;
  }

  void tryAll(const Downsets &all) {
    if (!follow(units_, all, work_) || !units_.anyPulled)
      return;
    // Nodes that were pulled to others might be elsewhere, where there is room. Looks everywhere, or for a bound.
    found_.lowerBound = 0;
    const Units apart = makeUnits(problem_, false);
    if (const std::optional<Downsets> more = Downsets::build(apart, apart.count(), options_.mostDownsets)) {
      found_.downsets = more->count();
      follow(apart, *more, workOf(problem_, apart));
      return;
    }
    Units free = units_;
    sumUnits(problem_, free, true);
    found_.lowerBound = search(free, all, work_, kLabels[2], true).lowerBound;
    found_.complete = false;
  }

  /// Follows a few labels, then more, then all. Returns whether memory was short.
  bool follow(const Units &units, const Downsets &lattice, const StageWork &work) {
    for (size_t labels : kLabels) {
      const SearchedStages searched = search(units, lattice, work, labels, false);
      found_.lowerBound = std::max(found_.lowerBound, searched.lowerBound);
      if (searched.lowerBound == found_.value || labels == kLabels[2])
        return searched.memoryIsShort;
    }
    return false;
  }

  /// The downsets that are near the order of the units. Returns whether the plan got better.
  bool tryNear(const Units &units, const std::optional<Downsets> &lattice, size_t labels) {
    const int64_t before = found_.value;
    if (!lattice)
      return false;
    found_.downsets = std::max(found_.downsets, lattice->count());
    search(units, *lattice, workOf(problem_, units), labels, false);
    return found_.value < before;
  }
  std::optional<Downsets> near(const Units &units, int width) const {
    return Downsets::build(units, width, options_.mostDownsets);
  }
  /// Of the largest width, a power of two, for which there are not too many.
  std::optional<Downsets> widest(const Units &units) const {
    std::optional<Downsets> lattice = near(units, 1);
    for (int width = 1; lattice && width < units.count(); width *= 2) {
      std::optional<Downsets> wider = near(units, 2 * width);
      if (!wider)
        break;
      lattice = std::move(wider);
    }
    return lattice;
  }

  void tryOrders() {
    Units now = units_;
    std::mt19937 random(1);
    for (int round = 0, vain = 0; vain < kVainRounds && left_ > 0 && !stopped(); ++round) {
      const bool better = tryNear(now, widest(now), round < 2 ? 4 : 16);
      vain = better ? 0 : vain + 1;
      now = reorderUnits(problem_, units_, round == 0 ? breadthFirst() : aroundPlan(random));
    }
  }
  bool stopped() const { return options_.stop && *options_.stop; }
  bool isEnough() const {
    return options_.enough > 0 && !found_.plan.empty() &&
           double(found_.value) <= double(work_.bound) * (1 + options_.enough);
  }

  /// Units by the most steps that they wait for.
  std::vector<int> breadthFirst() const {
    std::vector<int> depth(size_t(units_.count()), 0), order(depth.size());
    for (int u = 0; u < units_.count(); ++u)
      for (int v : units_.after[size_t(u)])
        depth[size_t(v)] = std::max(depth[size_t(v)], depth[size_t(u)] + 1);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return depth[size_t(a)] < depth[size_t(b)]; });
    return order;
  }

  /// The stages of the best plan from the last to the first, the units of each in a random order that follows edges
  /// where it can. The plan's cuts lie along this order.
  std::vector<int> aroundPlan(std::mt19937 &random) const {
    std::vector<int> stageOf(problem_.nodes.size(), 0), waits(size_t(units_.count()), 0), order;
    for (size_t s = 0; s < found_.plan.size(); ++s)
      for (int node : found_.plan[s].nodes)
        stageOf[size_t(node)] = -int(s);
    for (int u = 0; u < units_.count(); ++u)
      for (int v : units_.after[size_t(u)])
        ++waits[size_t(v)];
    // The last stage first; in it what was opened last, but for some that are taken at random.
    using Open = std::tuple<int, int64_t, int>;
    std::vector<Open> open;
    int64_t clock = 0;
    auto offer = [&](int u) {
      const int64_t key = random() % 8 ? --clock : int64_t(random() % 4096) - 2048;
      open.emplace_back(stageOf[size_t(units_.nodes[size_t(u)][0])], key, u);
      std::push_heap(open.begin(), open.end(), std::greater<>());
    };
    for (int u = 0; u < units_.count(); ++u)
      if (waits[size_t(u)] == 0)
        offer(u);
    while (!open.empty()) {
      std::pop_heap(open.begin(), open.end(), std::greater<>());
      const int u = std::get<2>(open.back());
      open.pop_back();
      order.push_back(u);
      for (int v : units_.after[size_t(u)])
        if (--waits[size_t(v)] == 0)
          offer(v);
    }
    return order;
  }

  const StageProblem &problem_;
  const StageOptions &options_;
  int64_t left_; // elementary steps
  const Units units_;
  const StageWork work_;
  FoundStages found_;
};

} // namespace

static FoundStages findInAnyMemory(StageProblem problem, const StageOptions &options) {
  for (StageDevices &devices : problem.devices)
    devices.memory = -1;
  return StageFinder(problem, options).run();
}

FoundStages findStages(const StageProblem &problem, const StageOptions &options) {
  // Labels that say what places need are many, and without a limit of memory none is needed.
  FoundStages best;
  const bool isFirst = sharesMemory(problem) && !options.isShort;
  if (isFirst) {
    best = findInAnyMemory(problem, options);
    if (best.plan.empty() || rateStages(problem, best.plan).error.empty())
      return best;
  }
  FoundStages found = StageFinder(problem, options).run();
  if (!found.infeasible)
    found.lowerBound = std::max(found.lowerBound, best.lowerBound);
  found.work += best.work;
  if (!found.plan.empty() || !options.mayExceed)
    return found;
  const double before = found.work - best.work;
  if (!isFirst)
    best = findInAnyMemory(problem, options);
  best.work += before;
  return best;
}

} // namespace tessera::strategies
