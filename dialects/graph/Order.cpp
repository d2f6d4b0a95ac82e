#include "dialects/graph/Order.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <limits>
#include <set>

namespace tessera::graph {

namespace {

bool madeInBody(const DataFlow &flow, int value) {
  const int maker = flow.values[size_t(value)].maker;
  return maker >= 0 && inBody(flow.steps[size_t(maker)].section);
}

/// Asks `eager` about a step again.
using Reconsider = llvm::function_ref<void(int)>;

/// A topological order, section by section. Of the steps that are ready, the first for which `eager` is true comes
/// next, or the first of all if there is none. `eager` is asked when a step becomes ready. `placed` is called for every
/// step that is placed, and calls Reconsider for the steps whose answer may have changed.
std::vector<int> sorted(const DataFlow &flow, llvm::function_ref<bool(int)> eager,
                        llvm::function_ref<void(int, Reconsider)> placed) {
  std::vector<int> missing(flow.steps.size(), 0), order;
  std::vector<std::vector<int>> users(flow.steps.size());
  std::set<std::pair<Section, int>> ready, early; // early: those of them that are eager
  auto placeOf = [&](int s) { return std::pair(flow.steps[s].section, s); };
  auto consider = [&](int s) {
    if (ready.count(placeOf(s)) && eager(s))
      early.insert(placeOf(s));
    else
      early.erase(placeOf(s));
  };
  for (size_t s = 0; s < flow.steps.size(); ++s) {
    for (int value : flow.steps[s].reads)
      if (int maker = flow.values[value].maker; maker >= 0) {
        users[maker].push_back(int(s));
        ++missing[s];
      }
    if (missing[s] == 0)
      ready.insert(placeOf(int(s)));
  }
  for (auto [section, s] : ready)
    consider(s);
  while (!ready.empty()) {
    const Section now = ready.begin()->first;
    const int s = early.empty() || early.begin()->first != now ? ready.begin()->second : early.begin()->second;
    ready.erase(placeOf(s));
    early.erase(placeOf(s));
    order.push_back(s);
    placed(s, consider);
    for (int user : users[s])
      if (--missing[user] == 0) {
        ready.insert(placeOf(user));
        consider(user);
      }
  }
  return order;
}

/// The values that are live while steps are placed one after the other.
class Liveness {
public:
  explicit Liveness(const DataFlow &flow)
      : flow_(flow), uses_(flow.values.size(), 0), most_(flow.values.size(), 0), readers_(flow.values.size()) {
    for (size_t s = 0; s < flow.steps.size(); ++s) {
      count(flow.steps[s].reads);
      for (int value : flow.steps[s].reads)
        readers_[flow.root(value)].push_back(int(s));
    }
    count(flow.results);
  }

  /// The bytes of the values that the step makes, less those of the values that it reads for the last time.
  int64_t growth(int s) const {
    const DataFlow::Step &step = flow_.steps[s];
    if (isView(step))
      return 0;
    int64_t bytes = 0;
    for (int value : step.makes)
      if (!flow_.values[value].kept && !flow_.values[value].sum) // a sum has its memory from the start of the body
        bytes += flow_.values[value].bytes;
    llvm::SmallDenseMap<int, int> here;
    for (int value : step.reads)
      if (int root = flow_.root(value);
          ++here[root] == uses_[root] && !flow_.values[root].kept && !staysFor(step, root))
        bytes -= flow_.values[root].bytes;
    return bytes;
  }

  /// Calls `changed` for the steps whose growth may have changed.
  void placed(int s, Reconsider changed) {
    const DataFlow::Step &step = flow_.steps[s];
    for (int value : step.reads)
      --uses_[flow_.root(value)];
    // While more reads of a value remain than any one step makes, no single step can free it.
    for (int value : step.reads)
      if (size_t root = size_t(flow_.root(value)); !flow_.values[root].kept && uses_[root] <= most_[root])
        for (int reader : readers_[root])
          changed(reader);
  }

private:
  /// Whether the step reads what the body needs for the next micro-batch again.
  bool staysFor(const DataFlow::Step &step, int root) const { return inBody(step.section) && !madeInBody(flow_, root); }

  bool isView(const DataFlow::Step &step) const {
    return !step.makes.empty() && flow_.values[step.makes.front()].viewOf >= 0;
  }

  /// Counts the reads of one step, or of the end of the program.
  void count(llvm::ArrayRef<int> reads) {
    llvm::SmallDenseMap<int, int> here;
    for (int value : reads) {
      const int root = flow_.root(value);
      ++uses_[root];
      most_[root] = std::max(most_[root], ++here[root]);
    }
  }

  const DataFlow &flow_;
  // For every value that is no view:
  std::vector<int> uses_;                 // reads by steps that are not placed yet
  std::vector<int> most_;                 // the most reads by one step
  std::vector<std::vector<int>> readers_; // steps that read it or a view of it
};

} // namespace

std::vector<int> dependenceOrder(const DataFlow &flow) {
  return sorted(
      flow, [](int) { return false; }, [](int, Reconsider) {});
}

std::vector<int> executionOrder(const DataFlow &flow) {
  Liveness liveness(flow);
  return sorted(
      flow, [&](int s) { return liveness.growth(s) <= 0; },
      [&](int s, Reconsider again) { liveness.placed(s, again); });
}

std::vector<int> orderByTurns(const DataFlow &flow, std::vector<int64_t> turns) {
  const std::vector<int> standing = dependenceOrder(flow);
  const std::vector<llvm::SmallVector<int, 2>> readers = flow.readers();
  constexpr int64_t last = std::numeric_limits<int64_t>::max();
  for (int s : llvm::reverse(standing)) {
    if (turns[size_t(s)] >= 0)
      continue;
    turns[size_t(s)] = last;
    for (int value : flow.steps[size_t(s)].makes)
      for (int reader : readers[size_t(value)])
        if (size_t(reader) < flow.steps.size())
          turns[size_t(s)] = std::min(turns[size_t(s)], turns[size_t(reader)]);
  }
  std::vector<int> byTurn = standing;
  llvm::stable_sort(byTurn, [&](int a, int b) { return turns[size_t(a)] < turns[size_t(b)]; });
  std::vector<int> order;
  for (int place : dependenceOrder(reordered(flow, byTurn)))
    order.push_back(byTurn[size_t(place)]);
  return order;
}

DataFlow reordered(const DataFlow &flow, llvm::ArrayRef<int> order) {
  DataFlow result;
  result.values = flow.values;
  result.results = flow.results;
  result.updates = flow.updates;
  for (int s : order) {
    const DataFlow::Step &step = flow.steps[s];
    result.addStep(step.part, step.reads, step.makes, step.section);
  }
  return result;
}

std::vector<Lifetime> lifetimes(const DataFlow &flow, llvm::ArrayRef<int> order) {
  std::vector<Lifetime> lives(flow.values.size());
  int64_t bodyFirst = 0, bodyLast = -1;
  for (auto [time, s] : llvm::enumerate(order))
    if (inBody(flow.steps[s].section)) {
      bodyFirst = bodyLast < 0 ? int64_t(time) : bodyFirst;
      bodyLast = int64_t(time);
    }
  auto touch = [&](int value, int64_t time) {
    Lifetime &life = lives[flow.root(value)];
    life.last = std::max(life.last, time);
  };
  for (auto [time, s] : llvm::enumerate(order)) {
    const bool again = inBody(flow.steps[s].section); // what it reads is read until the body's last step
    for (int value : flow.steps[s].reads)
      touch(value, again && !madeInBody(flow, flow.root(value)) ? bodyLast : int64_t(time));
    for (int value : flow.steps[s].makes) {
      const bool sum = flow.values[value].sum;
      if (flow.root(value) == value)
        lives[value].first = sum ? bodyFirst : int64_t(time);
      touch(value, sum ? bodyLast : int64_t(time));
    }
  }
  for (int value : flow.results)
    touch(value, int64_t(order.size()));
  return lives;
}

MemoryLoad::Peak peak(const DataFlow &flow, llvm::ArrayRef<int> order) {
  MemoryLoad load;
  for (auto [value, life] : llvm::enumerate(lifetimes(flow, order)))
    if (!flow.values[value].kept && life.last >= life.first)
      load.add(life.first, life.last, flow.values[value].bytes);
  return load.peak();
}

} // namespace tessera::graph
