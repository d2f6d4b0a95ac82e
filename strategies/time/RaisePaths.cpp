#include "strategies/time/RaisePaths.h"

#include <algorithm>
#include <bit>

namespace tessera::strategies {

namespace {

/// A raised head raises others, which a second pass sees. Of large graphs the first pass has to do.
constexpr int kPasses = 2;
/// Tasks that are looked at together are a block. Of the tasks before a task those count whose heads are late: with
/// blocks of one task each set of them is tried, with larger ones fewer sets are.
constexpr size_t kLargestBlock = 64;                            // bits of a mask
constexpr int64_t kFewSteps = 100'000, kMostSteps = 20'000'000; // of a pass

/// One direction of time.
struct Side {
  std::vector<int> order;                       // each task behind all before it
  std::vector<std::vector<Need>> before, after; // by task
  std::vector<int64_t> head;                    // by task the least time before it starts
};

/// What of the tasks before a task holds a resource.
struct Before {
  int64_t gap = -1;  // from the last of them to the task, at least; negative: there are none
  int64_t least = 0; // the least head of those that were looked at
  int64_t load = 0;  // how long those hold the resource
};

/// The tasks of a block that hold a resource.
struct Holders {
  size_t resource = 0;
  uint64_t mask = 0;
  uint64_t last = 0; // of these the last sum was: tasks that follow each other have mostly the same before them
  int64_t lastLoad = 0;
};

class Raise {
public:
  Raise(const TaskGraph &graph, Side &side) : graph_(graph), side_(side), place_(graph.tasks.size()) {}

  /// Returns whether another one takes few steps, too.
  bool pass() {
    const size_t n = graph_.tasks.size();
    int64_t needs = int64_t(n);
    for (const auto &before : side_.before)
      needs += int64_t(before.size());
    const int64_t steps = needs * int64_t(n) / 2; // with blocks of one task
    const auto block = size_t(std::clamp<int64_t>(steps / kFewSteps + 1, 1, int64_t(kLargestBlock)));
    if (steps / int64_t(block) + needs * int64_t(graph_.resources.size()) > kMostSteps)
      return false;
    sort();
    findGaps();
    findJoins(block);
    for (size_t begin = (n - 1) / block * block;; begin -= block) {
      add(begin, std::min(n, begin + block));
      if (begin == 0)
        break;
    }
    for (size_t i = 0; i < n; ++i)
      side_.head[size_t(sorted_[i])] = head_[i];
    for (int t : side_.order)
      for (const Need &need : side_.before[size_t(t)])
        side_.head[size_t(t)] =
            std::max(side_.head[size_t(t)], side_.head[size_t(need.task)] + durationOf(need.task) + need.lag);
    return block < kLargestBlock;
  }

private:
  int64_t durationOf(int task) const { return graph_.tasks[size_t(task)].duration; }
  Before &of(size_t place, size_t resource) { return before_[place * graph_.resources.size() + resource]; }

  /// By head. What is before a task stays before it.
  void sort() {
    sorted_ = side_.order;
    std::stable_sort(sorted_.begin(), sorted_.end(),
                     [&](int a, int b) { return side_.head[size_t(a)] < side_.head[size_t(b)]; });
    for (size_t i = 0; i < sorted_.size(); ++i)
      place_[size_t(sorted_[i])] = uint32_t(i);
    head_.clear();
    makers_.clear();
    ends_.assign(1, 0);
    for (int t : sorted_) {
      head_.push_back(side_.head[size_t(t)]);
      for (const Need &need : side_.before[size_t(t)])
        makers_.push_back(place_[size_t(need.task)]);
      ends_.push_back(makers_.size());
    }
  }

  void findGaps() {
    const size_t resources = graph_.resources.size();
    before_.assign(sorted_.size() * resources, {});
    std::vector<int64_t> gaps(resources); // from the last task of a resource to the end of what is needed
    for (size_t i = 0; i < sorted_.size(); ++i)
      for (const Need &need : side_.before[size_t(sorted_[i])]) {
        for (size_t r = 0; r < resources; ++r) {
          const int64_t gap = of(place_[size_t(need.task)], r).gap;
          gaps[r] = gap < 0 ? -1 : gap + durationOf(need.task);
        }
        for (int r : graph_.tasks[size_t(need.task)].resources)
          gaps[size_t(r)] = 0;
        for (size_t r = 0; r < resources; ++r)
          if (Before &before = of(i, r); gaps[r] >= 0)
            before.gap = before.gap < 0 ? gaps[r] + need.lag : std::min(before.gap, gaps[r] + need.lag);
      }
  }

  /// Calls f(i, mask) for each task from `begin` on: which of those at [begin, end) come before it.
  template <typename F> void walk(size_t begin, size_t end, const F &f) {
    for (size_t i = begin, need = ends_[begin]; i < sorted_.size(); ++i) {
      uint64_t mask = 0;
      for (; need < ends_[i + 1]; ++need)
        if (makers_[need] >= begin)
          mask |= masks_[makers_[need]];
      masks_[i] = mask | (i < end ? uint64_t(1) << (i - begin) : 0); // and itself
      f(i, mask);
    }
  }

  /// Finds the tasks that need several, of which none comes before another. What another task needs, and all before that,
  /// raises that one already.
  void findJoins(size_t block) {
    const size_t n = sorted_.size();
    masks_.resize(n);
    std::vector<uint8_t> found(n, 0);
    std::vector<size_t> known(n, n); // the block of which `behind` says
    std::vector<uint64_t> behind(n); // which of its tasks come before another one that the task needs
    auto behindOf = [&](size_t i, size_t begin) {
      if (known[i] != begin) {
        known[i] = begin;
        behind[i] = 0;
        for (size_t m = ends_[i]; m < ends_[i + 1]; ++m)
          if (const size_t maker = makers_[m]; maker > begin)
            behind[i] |= masks_[maker] & ~(maker < begin + block ? uint64_t(1) << (maker - begin) : 0);
      }
      return behind[i];
    };
    for (size_t begin = 0; begin < n; begin += block) {
      const size_t end = std::min(n, begin + block);
      walk(begin, end, [](size_t, uint64_t) {});
      for (size_t maker = begin; maker < end; ++maker)
        for (const Need &user : side_.after[size_t(sorted_[maker])]) {
          const size_t i = place_[size_t(user.task)];
          const bool again = behindOf(i, begin) >> (maker - begin) & 1;
          found[i] = uint8_t(std::min(2, found[i] + !again));
        }
    }
    isJoin_.assign(n, false);
    for (size_t i = 0; i < n; ++i)
      isJoin_[i] = found[i] > 1;
  }

  /// Lets the tasks of a block count for those behind them. All later ones do.
  void add(size_t begin, size_t end) {
    std::vector<Holders> holders;
    for (size_t i = begin; i < end; ++i)
      for (int r : graph_.tasks[size_t(sorted_[i])].resources) {
        auto known =
            std::find_if(holders.begin(), holders.end(), [&](const Holders &h) { return h.resource == size_t(r); });
        if (known == holders.end())
          known = holders.insert(holders.end(), {size_t(r)});
        known->mask |= uint64_t(1) << (i - begin);
      }
    walk(begin, end, [&](size_t i, uint64_t mask) {
      if (mask == 0 || !isJoin_[i])
        return;
      for (Holders &h : holders) {
        const uint64_t those = mask & h.mask;
        if (those == 0)
          continue;
        if (those != h.last) {
          h.last = those;
          h.lastLoad = 0;
          for (uint64_t left = those; left != 0; left &= left - 1)
            h.lastLoad += durationOf(sorted_[begin + size_t(std::countr_zero(left))]);
        }
        Before &before = of(i, h.resource);
        before.least = side_.head[size_t(sorted_[begin + size_t(std::countr_zero(those))])];
        before.load += h.lastLoad;
        head_[i] = std::max(head_[i], before.least + before.load + before.gap);
      }
    });
  }

  const TaskGraph &graph_;
  Side &side_;
  std::vector<int> sorted_;
  std::vector<uint32_t> place_;  // by task. The others are by place:
  std::vector<uint32_t> makers_; // the places of all that tasks need, one task's behind the other's,
  std::vector<size_t> ends_;     // and where those of the tasks before this one end
  std::vector<Before> before_;   // of each task by resource
  std::vector<int64_t> head_;    // raised
  std::vector<bool> isJoin_;
  std::vector<uint64_t> masks_;
};

} // namespace

void raisePaths(const TaskGraph &graph, Paths &paths) {
  const size_t n = graph.tasks.size();
  if (n == 0)
    return;
  Side ahead{paths.order, {}, std::vector<std::vector<Need>>(n), paths.head};
  Side behind{{paths.order.rbegin(), paths.order.rend()}, {}, {}, paths.tail};
  for (size_t t = 0; t < n; ++t) {
    ahead.before.push_back(graph.tasks[t].needs);
    behind.head[t] -= graph.tasks[t].duration;
    for (const Need &need : graph.tasks[t].needs)
      ahead.after[size_t(need.task)].push_back({int(t), need.lag});
  }
  behind.before = ahead.after;
  behind.after = ahead.before;
  for (Side *side : {&ahead, &behind}) {
    Raise raise(graph, *side);
    for (int pass = 0; pass < kPasses && raise.pass(); ++pass)
      continue;
  }
  paths.head = std::move(ahead.head);
  for (size_t t = 0; t < n; ++t)
    paths.tail[t] = behind.head[t] + graph.tasks[t].duration;
}

Paths raisedPaths(const TaskGraph &graph) {
  Paths paths = longestPaths(graph);
  raisePaths(graph, paths);
  return paths;
}

} // namespace tessera::strategies
