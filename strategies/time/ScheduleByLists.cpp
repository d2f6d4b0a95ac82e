#include "strategies/time/Decode.h"
#include "strategies/time/Paths.h"
#include "strategies/time/Schedule.h"

#include <algorithm>
#include <map>
#include <queue>
#include <random>

namespace tessera::strategies {

/// Orders that are drawn where memory is so short that no other order goes through. With 1,000 tasks they take some
/// 0.1 s.
static constexpr int kRandomOrders = 1000;

namespace {

/// When a resource is held.
class Held {
public:
  /// The end of what holds it in a time from `begin` on that is not empty; `begin` if nothing does.
  int64_t until(int64_t begin, int64_t duration) const {
    auto next = ends_.upper_bound(begin); // which begins before or at it if anything holds it there
    return next != ends_.end() && next->second < begin + duration ? next->first : begin;
  }
  /// Times that touch become one.
  void hold(int64_t begin, int64_t end) {
    if (auto before = ends_.find(begin); before != ends_.end()) {
      begin = before->second;
      ends_.erase(before);
    }
    if (auto behind = ends_.upper_bound(end); behind != ends_.end() && behind->second == end)
      behind->second = begin;
    else
      ends_[end] = begin;
  }

private:
  std::map<int64_t, int64_t> ends_; // to the begins
};

} // namespace

Orders insertedOrders(const TaskGraph &graph, const std::vector<int64_t> &priorities) {
  const size_t n = graph.tasks.size();
  std::vector<std::vector<Need>> later(n);
  std::vector<size_t> open(n);
  std::vector<int64_t> ready(n, 0), start(n, 0);
  std::priority_queue<std::pair<int64_t, int>> next; // of equal ones the first
  for (size_t t = 0; t < n; ++t) {
    open[t] = graph.tasks[t].needs.size();
    for (const Need &need : graph.tasks[t].needs)
      later[size_t(need.task)].push_back({int(t), need.lag});
    if (open[t] == 0)
      next.push({priorities[t], -int(t)});
  }
  std::vector<Held> held(graph.resources.size());
  std::vector<int> placed;
  while (!next.empty()) {
    const int t = -next.top().second;
    next.pop();
    const Task &task = graph.tasks[size_t(t)];
    int64_t time = ready[size_t(t)];
    for (bool moved = task.duration > 0; moved;) {
      const int64_t before = time;
      for (int r : task.resources)
        time = held[size_t(r)].until(time, task.duration);
      moved = time > before;
    }
    for (int r : task.resources)
      if (task.duration > 0)
        held[size_t(r)].hold(time, time + task.duration);
    start[size_t(t)] = time;
    placed.push_back(t);
    for (const Need &need : later[size_t(t)]) {
      ready[size_t(need.task)] = std::max(ready[size_t(need.task)], time + task.duration + need.lag);
      if (--open[size_t(need.task)] == 0)
        next.push({priorities[size_t(need.task)], -need.task});
    }
  }
  // Of those that start at once, what was placed first comes first.
  std::stable_sort(placed.begin(), placed.end(), [&](int a, int b) { return start[size_t(a)] < start[size_t(b)]; });
  Orders orders(graph.resources.size());
  for (int t : placed)
    for (int r : graph.tasks[size_t(t)].resources)
      orders[size_t(r)].push_back(t);
  return orders;
}

void scheduleByLists(const TaskGraph &graph, Decoder &decoder, Schedule &best) {
  const int n = int(graph.tasks.size());
  if (n == 0)
    return;
  Paths paths = longestPaths(graph);
  // First the order of the graph. Whoever made the graph knows that this order fits the memory if no task overtakes.
  Orders orders(graph.resources.size());
  std::vector<int64_t> place(n);
  for (int i = 0; i < n; ++i) {
    place[paths.order[i]] = n - i;
    for (int r : graph.tasks[paths.order[i]].resources)
      orders[r].push_back(paths.order[i]);
  }
  if (decoder.run(orders)) {
    best.given = decoder.makespan();
    keepBetter(decoder, best);
  }
  if (decoder.greedy(place))
    keepBetter(decoder, best);
  std::vector<int64_t> priority = paths.tail;
  if (decoder.greedy(priority))
    keepBetter(decoder, best);
  // A task that frees more than it takes comes before a task that takes more.
  int64_t longest = *std::max_element(priority.begin(), priority.end());
  std::vector<int64_t> freed(n);
  for (const TaskBuffer &buffer : graph.buffers) {
    freed[buffer.maker] -= buffer.bytes;
    if (!buffer.users.empty())
      freed[*std::max_element(buffer.users.begin(), buffer.users.end(),
                              [&](int a, int b) { return paths.head[a] < paths.head[b]; })] += buffer.bytes;
  }
  for (int t = 0; t < n; ++t)
    priority[t] += freed[t] > 0 ? longest : 0;
  if (decoder.greedy(priority))
    keepBetter(decoder, best);
  // Where memory is so short that none of these orders goes through, any random one that does is taken.
  std::mt19937_64 random(1);
  for (int i = 0; i < kRandomOrders && best.start.empty(); ++i) {
    for (int64_t &p : priority)
      p = int64_t(random() >> 1);
    for (auto &order : orders)
      std::sort(order.begin(), order.end(), [&](int a, int b) { return priority[a] > priority[b]; });
    if (decoder.greedy(priority) || decoder.run(orders))
      keepBetter(decoder, best);
  }
}

} // namespace tessera::strategies
