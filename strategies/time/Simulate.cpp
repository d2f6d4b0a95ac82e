#include "strategies/time/Simulate.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace tessera::strategies {

namespace {

std::string at(const std::string &name, int64_t time) { return "'" + name + "' starts at " + std::to_string(time); }

/// Intervals [start, end) of the tasks on a resource, by start.
std::vector<std::tuple<int64_t, int64_t, int>> intervals(const TaskGraph &graph, const StartTimes &start,
                                                         int resource) {
  std::vector<std::tuple<int64_t, int64_t, int>> list;
  for (size_t t = 0; t < graph.tasks.size(); ++t)
    for (int r : graph.tasks[t].resources)
      if (r == resource)
        list.push_back({start[t], start[t] + graph.tasks[t].duration, int(t)});
  std::sort(list.begin(), list.end());
  return list;
}

std::string checkNeeds(const TaskGraph &graph, const StartTimes &start) {
  for (size_t t = 0; t < graph.tasks.size(); ++t) {
    if (start[t] < 0)
      return at(graph.tasks[t].name, start[t]);
    for (const Need &need : graph.tasks[t].needs) {
      const Task &before = graph.tasks[need.task];
      int64_t end = start[need.task] + before.duration + need.lag;
      if (start[t] < end)
        return at(graph.tasks[t].name, start[t]) + ", but what it needs of '" + before.name + "' is there at " +
               std::to_string(end);
    }
  }
  return "";
}

std::string checkResource(const TaskGraph &graph, const StartTimes &start, int resource, int64_t &busy) {
  int64_t free = std::numeric_limits<int64_t>::min();
  int holder = -1;
  for (auto [from, to, task] : intervals(graph, start, resource)) {
    busy += to - from;
    if (from == to)
      continue; // holds nothing for no time
    if (from < free)
      return at(graph.tasks[task].name, from) + ", but '" + graph.tasks[holder].name + "' holds '" +
             graph.resources[resource] + "' until " + std::to_string(free);
    free = to;
    holder = task;
  }
  return "";
}

std::string checkPool(const TaskGraph &graph, const StartTimes &start, int pool, int64_t &peak) {
  // At one instant, memory is freed before it is taken.
  std::vector<std::tuple<int64_t, int, int64_t>> changes;
  for (const TaskBuffer &buffer : graph.buffers) {
    if (buffer.pool != pool || buffer.bytes == 0)
      continue;
    int64_t end = start[buffer.maker] + graph.tasks[buffer.maker].duration;
    int64_t from = buffer.fromEnd ? end : start[buffer.maker];
    for (int user : buffer.users)
      end = std::max(end, start[user] + graph.tasks[user].duration);
    if (from == end)
      continue;
    changes.push_back({from, 1, buffer.bytes});
    changes.push_back({end, 0, -buffer.bytes});
  }
  std::sort(changes.begin(), changes.end());
  int64_t held = 0;
  for (auto [time, taken, bytes] : changes) {
    held += bytes;
    peak = std::max(peak, held);
    if (graph.pools[pool].limit >= 0 && held > graph.pools[pool].limit)
      return "at " + std::to_string(time) + " pool '" + graph.pools[pool].name + "' holds " + std::to_string(held) +
             " bytes, the limit is " + std::to_string(graph.pools[pool].limit);
  }
  return "";
}

} // namespace

Timeline simulate(const TaskGraph &graph, const StartTimes &start) {
  Timeline line;
  line.busy.assign(graph.resources.size(), 0);
  line.peak.assign(graph.pools.size(), 0);
  if (start.size() != graph.tasks.size()) {
    line.error = std::to_string(start.size()) + " start times for " + std::to_string(graph.tasks.size()) + " tasks";
    return line;
  }
  auto note = [&](std::string error) {
    if (line.error.empty())
      line.error = std::move(error);
  };
  note(checkNeeds(graph, start));
  for (size_t r = 0; r < graph.resources.size(); ++r)
    note(checkResource(graph, start, int(r), line.busy[r]));
  for (size_t p = 0; p < graph.pools.size(); ++p)
    note(checkPool(graph, start, int(p), line.peak[p]));
  for (size_t t = 0; t < graph.tasks.size(); ++t)
    line.makespan = std::max(line.makespan, start[t] + graph.tasks[t].duration);
  return line;
}

int64_t exposed(const TaskGraph &graph, const StartTimes &start, int hidden, int cover) {
  auto covers = intervals(graph, start, cover);
  int64_t sum = 0;
  size_t next = 0;
  for (auto [from, to, task] : intervals(graph, start, hidden)) {
    while (next < covers.size() && std::get<1>(covers[next]) <= from)
      ++next;
    int64_t open = from; // up to here the interval is counted or covered
    for (size_t c = next; c < covers.size() && std::get<0>(covers[c]) < to; ++c) {
      sum += std::max<int64_t>(0, std::get<0>(covers[c]) - open);
      open = std::max(open, std::get<1>(covers[c]));
    }
    sum += std::max<int64_t>(0, to - open);
  }
  return sum;
}

} // namespace tessera::strategies
