#include "strategies/time/Bound.h"

#include "strategies/time/RaisePaths.h"

#include <algorithm>
#include <queue>

namespace tessera::strategies {

namespace {

/// Steps that the bound may take to find the lives of buffers. A graph that needs more has a bound without its
/// buffers. On a chain of 5,000 tasks and buffers these steps take less than 0.1 s.
constexpr int64_t kMaxLifeSteps = 50'000'000;

/// Work that cannot begin before the time `head`. The time `tail` follows behind it.
struct Work {
  int64_t head, duration, tail;
};

/// The least time in which one machine ends all works and their tails. The machine may interrupt a work; it always
/// takes the open one with the longest tail.
int64_t oneMachine(std::vector<Work> works) {
  std::sort(works.begin(), works.end(), [](const Work &a, const Work &b) { return a.head < b.head; });
  auto shorter = [](const Work &a, const Work &b) { return a.tail < b.tail; };
  std::priority_queue<Work, std::vector<Work>, decltype(shorter)> open(shorter);
  int64_t time = 0, last = 0;
  for (size_t next = 0; next < works.size() || !open.empty();) {
    if (open.empty())
      time = std::max(time, works[next].head);
    while (next < works.size() && works[next].head <= time)
      open.push(works[next++]);
    Work now = open.top();
    open.pop();
    int64_t until = next < works.size() ? std::min(time + now.duration, works[next].head) : time + now.duration;
    now.duration -= until - time;
    time = until;
    if (now.duration > 0)
      open.push(now);
    else
      last = std::max(last, time + now.tail);
  }
  return last;
}

int64_t boundOfResource(const TaskGraph &graph, const Paths &paths, int resource) {
  std::vector<Work> works;
  for (size_t t = 0; t < graph.tasks.size(); ++t)
    for (int r : graph.tasks[t].resources)
      if (r == resource) {
        int64_t duration = graph.tasks[t].duration;
        works.push_back({paths.head[t], duration, paths.tail[t] - duration});
      }
  return oneMachine(std::move(works));
}

struct Life {
  int64_t bytes;
  Work work;
};

/// The least life of every buffer of the pool, the largest first.
std::vector<Life> livesOf(const TaskGraph &graph, const Paths &paths, int pool) {
  std::vector<Life> lives;
  for (const TaskBuffer &buffer : graph.buffers) {
    if (buffer.pool != pool || buffer.bytes == 0)
      continue;
    std::vector<int64_t> end = pathsFrom(graph, paths, buffer.maker);
    int64_t duration = graph.tasks[buffer.maker].duration, length = duration;
    int64_t tail = paths.tail[buffer.maker] - duration;
    for (int user : buffer.users) {
      if (end[user] < length)
        continue;
      tail = end[user] > length ? paths.tail[user] - graph.tasks[user].duration
                                : std::max(tail, paths.tail[user] - graph.tasks[user].duration);
      length = end[user];
    }
    int64_t skipped = buffer.fromEnd ? duration : 0;
    if (length > skipped)
      lives.push_back({buffer.bytes, {paths.head[buffer.maker] + skipped, length - skipped, tail}});
  }
  std::sort(lives.begin(), lives.end(), [](const Life &a, const Life &b) { return a.bytes > b.bytes; });
  return lives;
}

int64_t boundOfPool(const TaskGraph &graph, const Paths &paths, int pool) {
  const int64_t limit = graph.pools[pool].limit;
  std::vector<Life> lives = livesOf(graph, paths, pool);
  int64_t best = 0, sum = 0, head = 0, tail = 0;
  std::vector<Work> works;
  for (size_t i = 0; i < lives.size(); ++i) {
    const Work &work = lives[i].work;
    works.push_back(work);
    sum += work.duration;
    head = i ? std::min(head, work.head) : work.head;
    tail = i ? std::min(tail, work.tail) : work.tail;
    if (i + 1 < lives.size() && lives[i + 1].bytes == lives[i].bytes)
      continue;
    // How many of the buffers so far fit at once: as many as of the smallest.
    int64_t fit = 0, bytes = 0;
    for (size_t j = i + 1; j > 0 && bytes + lives[j - 1].bytes <= limit; --j) {
      bytes += lives[j - 1].bytes;
      ++fit;
    }
    if (fit <= 1)
      best = std::max(best, oneMachine(works));
    else
      best = std::max(best, head + (sum + fit - 1) / fit + tail);
  }
  return best;
}

} // namespace

int64_t lowerBound(const TaskGraph &graph) { return lowerBound(graph, raisedPaths(graph)); }

int64_t lowerBound(const TaskGraph &graph, const Paths &paths) {
  int64_t best = 0, edges = 0;
  for (size_t t = 0; t < graph.tasks.size(); ++t) {
    best = std::max(best, paths.head[t] + paths.tail[t]);
    edges += int64_t(graph.tasks[t].needs.size()) + 1;
  }
  for (size_t r = 0; r < graph.resources.size(); ++r)
    best = std::max(best, boundOfResource(graph, paths, int(r)));
  if (edges * int64_t(graph.buffers.size()) <= kMaxLifeSteps)
    for (size_t p = 0; p < graph.pools.size(); ++p)
      if (graph.pools[p].limit >= 0)
        best = std::max(best, boundOfPool(graph, paths, int(p)));
  return best;
}

} // namespace tessera::strategies
