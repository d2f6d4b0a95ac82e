#include "strategies/time/TaskGraph.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>

namespace tessera::strategies {

static constexpr size_t kMostTasks = size_t(1) << 20;
/// The largest duration, lag or number of bytes. A sum of four of them for each of kMostTasks tasks fits int64_t.
static constexpr int64_t kLargest = std::numeric_limits<int64_t>::max() >> 22;

std::vector<int> taskOrder(const TaskGraph &graph) {
  std::vector<int> open(graph.tasks.size()), order;
  std::vector<std::vector<int>> next(graph.tasks.size());
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (int t = 0; t < int(graph.tasks.size()); ++t) {
    open[t] = int(graph.tasks[t].needs.size());
    for (const Need &need : graph.tasks[t].needs)
      next[need.task].push_back(t);
    if (open[t] == 0)
      ready.push(t);
  }
  while (!ready.empty()) {
    int t = ready.top();
    ready.pop();
    order.push_back(t);
    for (int later : next[t])
      if (--open[later] == 0)
        ready.push(later);
  }
  return order;
}

static std::string checkTask(const TaskGraph &graph, int index) {
  const Task &task = graph.tasks[index];
  auto where = [&] { return "task " + std::to_string(index) + " ('" + task.name + "')"; };
  if (task.duration < 0 || task.duration > kLargest)
    return where() + ": the duration " + std::to_string(task.duration) + " is negative or too large";
  for (auto it = task.resources.begin(); it != task.resources.end(); ++it) {
    const int resource = *it;
    if (resource < 0 || resource >= int(graph.resources.size()))
      return where() + ": there is no resource " + std::to_string(resource);
    if (std::find(task.resources.begin(), it, resource) != it)
      return where() + ": holds resource " + std::to_string(resource) + " twice";
  }
  for (const Need &need : task.needs) {
    if (need.task < 0 || need.task >= int(graph.tasks.size()))
      return where() + ": there is no task " + std::to_string(need.task);
    if (need.lag < 0 || need.lag > kLargest)
      return where() + ": the lag " + std::to_string(need.lag) + " is negative or too large";
  }
  return "";
}

static std::string checkBuffers(const TaskGraph &graph) {
  // What one task alone takes of a pool while it runs, and at its end.
  std::vector<std::vector<int64_t>> held(graph.pools.size());
  for (size_t p = 0; p < graph.pools.size(); ++p)
    if (graph.pools[p].limit >= 0)
      held[p].assign(graph.tasks.size(), 0);
  for (size_t b = 0; b < graph.buffers.size(); ++b) {
    const TaskBuffer &buffer = graph.buffers[b];
    auto where = [&] { return "buffer " + std::to_string(b); };
    auto isTask = [&](int task) { return task >= 0 && task < int(graph.tasks.size()); };
    if (buffer.pool < 0 || buffer.pool >= int(graph.pools.size()))
      return where() + ": there is no pool " + std::to_string(buffer.pool);
    if (buffer.bytes < 0 || buffer.bytes > kLargest)
      return where() + ": " + std::to_string(buffer.bytes) + " bytes are negative or too many";
    if (!isTask(buffer.maker))
      return where() + ": there is no task " + std::to_string(buffer.maker);
    for (int user : buffer.users) {
      if (!isTask(user))
        return where() + ": there is no task " + std::to_string(user);
      const std::vector<Need> &needs = graph.tasks[user].needs;
      if (std::none_of(needs.begin(), needs.end(), [&](const Need &need) { return need.task == buffer.maker; }))
        return where() + ": task '" + graph.tasks[user].name + "' uses it without needing its maker '" +
               graph.tasks[buffer.maker].name + "'";
    }
    if (buffer.fromEnd || held[buffer.pool].empty())
      continue;
    int64_t &heldByMaker = held[buffer.pool][buffer.maker];
    heldByMaker += buffer.bytes;
    if (heldByMaker > graph.pools[buffer.pool].limit)
      return "task '" + graph.tasks[buffer.maker].name + "' alone takes more than the " +
             std::to_string(graph.pools[buffer.pool].limit) + " bytes of pool '" + graph.pools[buffer.pool].name + "'";
  }
  return "";
}

std::string checkTaskGraph(const TaskGraph &graph) {
  if (graph.tasks.size() > kMostTasks || graph.buffers.size() > kMostTasks)
    return "more than " + std::to_string(kMostTasks) + " tasks or buffers";
  for (int t = 0; t < int(graph.tasks.size()); ++t)
    if (std::string error = checkTask(graph, t); !error.empty())
      return error;
  if (std::string error = checkBuffers(graph); !error.empty())
    return error;
  std::vector<int> order = taskOrder(graph);
  if (order.size() == graph.tasks.size())
    return "";
  std::vector<bool> placed(graph.tasks.size());
  for (int t : order)
    placed[t] = true;
  for (size_t t = 0; t < placed.size(); ++t)
    if (!placed[t])
      return "task '" + graph.tasks[t].name + "' needs itself, by way of others or directly";
  return "";
}

} // namespace tessera::strategies
