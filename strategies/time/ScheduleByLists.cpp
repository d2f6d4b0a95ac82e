#include "strategies/time/Decode.h"
#include "strategies/time/Paths.h"
#include "strategies/time/Schedule.h"

#include <algorithm>
#include <random>

namespace tessera::strategies {

/// Orders that are drawn where memory is so short that no other order goes through. With 1,000 tasks they take some
/// 0.1 s.
static constexpr int kRandomOrders = 1000;

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
  if (decoder.run(orders))
    keepBetter(decoder, best);
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
