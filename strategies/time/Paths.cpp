#include "strategies/time/Paths.h"

#include <algorithm>

namespace tessera::strategies {

Paths longestPaths(const TaskGraph &graph) {
  Paths paths;
  paths.order = taskOrder(graph);
  paths.head.assign(graph.tasks.size(), 0);
  paths.tail.assign(graph.tasks.size(), 0);
  for (int t : paths.order)
    for (const Need &need : graph.tasks[t].needs)
      paths.head[t] = std::max(paths.head[t], paths.head[need.task] + graph.tasks[need.task].duration + need.lag);
  for (auto it = paths.order.rbegin(); it != paths.order.rend(); ++it) {
    paths.tail[*it] += graph.tasks[*it].duration; // behind it stands what the later tasks noted
    for (const Need &need : graph.tasks[*it].needs)
      paths.tail[need.task] = std::max(paths.tail[need.task], paths.tail[*it] + need.lag);
  }
  return paths;
}

std::vector<int64_t> pathsFrom(const TaskGraph &graph, const Paths &paths, int from) {
  std::vector<int64_t> end(graph.tasks.size(), -1);
  bool begun = false;
  for (int t : paths.order) {
    if (t == from) {
      begun = true;
      end[t] = graph.tasks[t].duration;
    } else if (begun) {
      for (const Need &need : graph.tasks[t].needs)
        if (end[need.task] >= 0)
          end[t] = std::max(end[t], end[need.task] + need.lag + graph.tasks[t].duration);
    }
  }
  return end;
}

} // namespace tessera::strategies
