//===- SmallGraphs.h - task graphs whose best schedule is found by trying all -----------------------===//
#ifndef TESSERA_TEST_UNIT_TIME_SMALLGRAPHS_H
#define TESSERA_TEST_UNIT_TIME_SMALLGRAPHS_H

#include "strategies/time/Simulate.h"

#include <algorithm>
#include <random>

namespace tessera::strategies {

/// Three resources and two pools, some with a limit.
inline TaskGraph randomGraph(std::mt19937 &random, int tasks) {
  auto draw = [&](int n) { return int(random() % unsigned(n)); };
  TaskGraph graph;
  graph.resources = {"a", "b", "c"};
  graph.pools = {{"m", draw(3) ? 8 + draw(12) : -1}, {"n", draw(3) ? 8 + draw(12) : -1}};
  for (int t = 0; t < tasks; ++t) {
    Task task{"t" + std::to_string(t), 1 + draw(8), {}, {}};
    if (draw(8))
      task.resources.push_back(draw(3));
    if (draw(5) == 0 && !task.resources.empty())
      task.resources.push_back((task.resources[0] + 1) % 3);
    for (int before = 0; before < t; ++before)
      if (draw(4) == 0)
        task.needs.push_back({before, draw(3) ? 0 : draw(5)});
    graph.tasks.push_back(std::move(task));
  }
  for (int b = 0; b < tasks; ++b) {
    int maker = draw(tasks);
    TaskBuffer buffer{draw(2), draw(8), maker, draw(2) == 0, {}};
    for (int user = maker + 1; user < tasks; ++user)
      if (draw(3) == 0) {
        buffer.users.push_back(user);
        graph.tasks[user].needs.push_back({maker, 0});
      }
    graph.buffers.push_back(std::move(buffer));
  }
  return graph;
}

/// The best makespan over every order in which tasks can start. Each starts as early as the rules and earlier tasks
/// allow.
inline int64_t bestOfAll(const TaskGraph &graph, std::vector<int> &placed, StartTimes &start, int64_t best) {
  const int n = int(graph.tasks.size());
  if (int(placed.size()) == n) {
    Timeline line = simulate(graph, start);
    return line.error.empty() && (best < 0 || line.makespan < best) ? line.makespan : best;
  }
  for (int t = 0; t < n; ++t) {
    if (std::find(placed.begin(), placed.end(), t) != placed.end())
      continue;
    // A task starts when it is ready or at the end of an earlier task, but not before the task that started last.
    int64_t from = placed.empty() ? 0 : start[placed.back()];
    bool ready = true;
    for (const Need &need : graph.tasks[t].needs) {
      ready &= std::find(placed.begin(), placed.end(), need.task) != placed.end();
      from = std::max(from, start[need.task] + graph.tasks[need.task].duration + need.lag);
    }
    if (!ready)
      continue;
    for (int p : placed)
      for (int r : graph.tasks[t].resources)
        if (graph.tasks[p].duration > 0 && graph.tasks[t].duration > 0 &&
            std::count(graph.tasks[p].resources.begin(), graph.tasks[p].resources.end(), r))
          from = std::max(from, start[p] + graph.tasks[p].duration);
    // Memory may ask for a later start: every end of an earlier task is tried.
    std::vector<int64_t> times = {from};
    for (int p : placed)
      if (int64_t end = start[p] + graph.tasks[p].duration; end > from)
        times.push_back(end);
    std::sort(times.begin(), times.end());
    times.erase(std::unique(times.begin(), times.end()), times.end());
    placed.push_back(t);
    for (int64_t time : times) {
      start[t] = time;
      if (best >= 0 && time + graph.tasks[t].duration >= best)
        break;
      best = bestOfAll(graph, placed, start, best);
    }
    placed.pop_back();
  }
  return best;
}

} // namespace tessera::strategies

#endif
