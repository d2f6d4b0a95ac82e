#include "dialects/graph/flow/Order.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <functional>
#include <limits>
#include <queue>

namespace tessera::graph {

namespace {

bool madeInBody(const DataFlow &flow, int value) {
  const int maker = flow.values[size_t(value)].maker;
  return maker >= 0 && inBody(flow.steps[size_t(maker)].section);
}

/// Lists of numbers, one behind the other.
class Lists {
public:
  /// `each` calls its argument with the list and the number of every entry, and is called twice.
  Lists(size_t lists, llvm::function_ref<void(llvm::function_ref<void(int, int)>)> each) : first_(lists + 1, 0) {
    each([&](int list, int) { ++first_[size_t(list) + 1]; });
    for (size_t list = 0; list < lists; ++list)
      first_[list + 1] += first_[list];
    entries_.resize(size_t(first_.back()));
    std::vector<int> next(first_.begin(), first_.end() - 1);
    each([&](int list, int entry) { entries_[size_t(next[size_t(list)]++)] = entry; });
  }
  llvm::ArrayRef<int> operator[](int list) const {
    const int first = first_[size_t(list)];
    return llvm::ArrayRef<int>(entries_).slice(size_t(first), size_t(first_[size_t(list) + 1] - first));
  }

private:
  std::vector<int> first_, entries_;
};

/// Steps of which the first one is taken, by section and then by number.
class Waiting {
public:
  explicit Waiting(const DataFlow &flow) : flow_(flow), isIn_(flow.steps.size(), false) {}

  bool contains(int s) const { return isIn_[size_t(s)]; }
  void insert(int s) {
    if (isIn_[size_t(s)])
      return;
    isIn_[size_t(s)] = true;
    heap_.push({flow_.steps[size_t(s)].section, s});
  }
  /// What is taken out stays in the heap until it comes first.
  void erase(int s) { isIn_[size_t(s)] = false; }
  /// -1: there is none.
  int first() {
    while (!heap_.empty() && !isIn_[size_t(heap_.top().second)])
      heap_.pop();
    return heap_.empty() ? -1 : heap_.top().second;
  }

private:
  const DataFlow &flow_;
  std::vector<char> isIn_;
  std::priority_queue<std::pair<Section, int>, std::vector<std::pair<Section, int>>, std::greater<>> heap_;
};

/// A topological order, section by section. Of the steps that are ready, the first that is eager comes next, or the
/// first of all if there is none. `growth.isEager` is asked when a step becomes ready. `growth.placed` is called for
/// every step that is placed, and calls its second argument for the steps whose answer may have changed.
template <typename Growth> std::vector<int> sorted(const DataFlow &flow, Growth growth) {
  std::vector<int> missing(flow.steps.size(), 0), order;
  order.reserve(flow.steps.size());
  const Lists users(flow.steps.size(), [&](llvm::function_ref<void(int, int)> add) {
    for (size_t s = 0; s < flow.steps.size(); ++s)
      for (int value : flow.steps[s].reads)
        if (int maker = flow.values[value].maker; maker >= 0)
          add(maker, int(s));
  });
  Waiting ready(flow), early(flow); // early: those of them that are eager
  auto consider = [&](int s) {
    if (!ready.contains(s))
      return;
    growth.isEager(s) ? early.insert(s) : early.erase(s);
  };
  for (size_t s = 0; s < flow.steps.size(); ++s) {
    for (int value : flow.steps[s].reads)
      missing[s] += flow.values[value].maker >= 0;
    if (missing[s] == 0)
      ready.insert(int(s));
  }
  for (size_t s = 0; s < flow.steps.size(); ++s)
    consider(int(s));
  for (int next; (next = ready.first()) >= 0;) {
    const int eager = early.first();
    const bool isNow = eager >= 0 && flow.steps[size_t(eager)].section == flow.steps[size_t(next)].section;
    const int s = isNow ? eager : next;
    ready.erase(s);
    early.erase(s);
    order.push_back(s);
    growth.placed(s, consider);
    for (int user : users[s])
      if (--missing[size_t(user)] == 0) {
        ready.insert(user);
        consider(user);
      }
  }
  return order;
}

/// No step is eager.
struct NoGrowth {
  bool isEager(int) const { return false; }
  template <typename Changed> void placed(int, Changed) const {}
};

/// The values that are live while steps are placed one after the other.
class Liveness {
public:
  explicit Liveness(const DataFlow &flow)
      : flow_(flow), roots_(rootsOf(flow)), uses_(flow.values.size(), 0), most_(flow.values.size(), 0),
        here_(flow.values.size(), 0), replaces_(flow.values.size(), -1), replacedIn_(flow.values.size(), -1),
        readers_(flow.values.size(), [&](llvm::function_ref<void(int, int)> add) {
          for (size_t s = 0; s < flow.steps.size(); ++s)
            for (int value : flow.steps[s].reads)
              add(roots_[size_t(value)], int(s));
        }) {
    for (const DataFlow::Step &step : flow.steps)
      count(step.reads);
    count(flow.results);
    for (auto [old, updated] : flow.updates) {
      replaces_[size_t(updated)] = roots_[size_t(old)];
      replacedIn_[size_t(roots_[size_t(old)])] = flow.values[size_t(updated)].maker;
    }
  }

  /// Whether the step frees at least as much memory as it allocates, and new values take the places of the old ones.
  bool isEager(int s) { return growth(s) <= 0 && isInPlace(s); }

  /// Calls `changed` for the steps whose growth may have changed.
  template <typename Changed> void placed(int s, Changed changed) {
    const DataFlow::Step &step = flow_.steps[s];
    for (int value : step.reads)
      --uses_[rootOf(value)];
    // While more reads of a value remain than any one step makes, no single step can free it.
    for (int value : step.reads) {
      const size_t root = rootOf(value);
      if (!flow_.values[root].kept && uses_[root] <= most_[root])
        for (int reader : readers_[int(root)])
          changed(reader);
      if (replacedIn_[root] >= 0)
        changed(replacedIn_[root]);
    }
  }

private:
  static std::vector<int> rootsOf(const DataFlow &flow) {
    std::vector<int> roots(flow.values.size());
    for (size_t v = 0; v < roots.size(); ++v)
      roots[v] = flow.root(int(v));
    return roots;
  }
  size_t rootOf(int value) const { return size_t(roots_[size_t(value)]); }

  /// The bytes of the values that the step makes, less those of the values that it reads for the last time.
  int64_t growth(int s) {
    const DataFlow::Step &step = flow_.steps[s];
    if (isView(step))
      return 0;
    int64_t bytes = 0;
    for (int value : step.makes)
      if (!flow_.values[value].kept && !flow_.values[value].sum) // a sum has its memory from the start of the body
        bytes += flow_.values[value].bytes;
    for (int value : step.reads)
      if (size_t root = rootOf(value);
          ++here_[root] == uses_[root] && !flow_.values[root].kept && !staysFor(step, int(root)))
        bytes -= flow_.values[root].bytes;
    for (int value : step.reads)
      here_[rootOf(value)] = 0;
    return bytes;
  }

  /// Whether no other step has yet to read a value of which the step makes the new one. Where one does, both are live
  /// until the end, and the new one is copied then.
  bool isInPlace(int s) const {
    return llvm::none_of(flow_.steps[size_t(s)].makes, [&](int value) {
      const int old = replaces_[size_t(value)];
      return old >= 0 && uses_[size_t(old)] > llvm::count_if(flow_.steps[size_t(s)].reads,
                                                             [&](int read) { return roots_[size_t(read)] == old; });
    });
  }

  /// Whether the step reads what the body needs for the next micro-batch again.
  bool staysFor(const DataFlow::Step &step, int root) const { return inBody(step.section) && !madeInBody(flow_, root); }

  bool isView(const DataFlow::Step &step) const {
    return !step.makes.empty() && flow_.values[step.makes.front()].viewOf >= 0;
  }

  /// Counts the reads of one step, or of the end of the program.
  void count(llvm::ArrayRef<int> reads) {
    for (int value : reads) {
      const size_t root = rootOf(value);
      ++uses_[root];
      most_[root] = std::max(most_[root], ++here_[root]);
    }
    for (int value : reads)
      here_[rootOf(value)] = 0;
  }

  const DataFlow &flow_;
  const std::vector<int> roots_; // by value
  // For every value that is no view:
  std::vector<int> uses_; // reads by steps that are not placed yet
  std::vector<int> most_; // the most reads by one step
  std::vector<int> here_; // reads by the step that is looked at; 0 between steps
  // By value: the one that it is the new value of, and the step that makes its new value; -1: there is none.
  std::vector<int> replaces_, replacedIn_;
  const Lists readers_; // steps that read it or a view of it
};

} // namespace

std::vector<int> dependenceOrder(const DataFlow &flow) { return sorted(flow, NoGrowth()); }

std::vector<int> executionOrder(const DataFlow &flow) { return sorted(flow, Liveness(flow)); }

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

DataFlow reordered(DataFlow flow, llvm::ArrayRef<int> order) {
  std::vector<DataFlow::Step> steps;
  steps.reserve(order.size());
  for (int s : order) {
    for (int value : flow.steps[size_t(s)].makes)
      flow.values[size_t(value)].maker = int(steps.size());
    steps.push_back(std::move(flow.steps[size_t(s)]));
  }
  flow.steps = std::move(steps);
  return flow;
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

MemoryLoad memoryLoad(const DataFlow &flow, llvm::ArrayRef<Lifetime> lives) {
  MemoryLoad load;
  for (auto [value, life] : llvm::enumerate(lives))
    if (!flow.values[value].kept && life.last >= life.first)
      load.add(life.first, life.last, flow.values[value].bytes);
  return load;
}

MemoryLoad::Peak peak(const DataFlow &flow, llvm::ArrayRef<int> order) {
  return memoryLoad(flow, lifetimes(flow, order)).peak();
}

} // namespace tessera::graph
