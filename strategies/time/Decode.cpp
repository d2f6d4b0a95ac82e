#include "strategies/time/Decode.h"

#include <algorithm>
#include <functional>

namespace tessera::strategies {

Decoder::Decoder(const TaskGraph &graph)
    : graph_(graph), later_(graph.tasks.size()), taken_(graph.tasks.size()), made_(graph.tasks.size()),
      uses_(graph.tasks.size()), all_(graph.resources.size()) {
  for (size_t t = 0; t < graph.tasks.size(); ++t) {
    for (const Need &need : graph.tasks[t].needs)
      later_[need.task].push_back({int(t), need.lag});
    for (int r : graph.tasks[t].resources)
      all_[r].push_back(int(t));
  }
  auto add = [](std::vector<PoolUse> &list, int pool, int64_t bytes) {
    for (PoolUse &use : list)
      if (use.pool == pool) {
        use.bytes += bytes;
        return;
      }
    list.push_back({pool, bytes});
  };
  for (size_t b = 0; b < graph.buffers.size(); ++b) {
    const TaskBuffer &buffer = graph.buffers[b];
    users_.push_back(0);
    if (buffer.users.empty() && (buffer.fromEnd || graph.tasks[buffer.maker].duration == 0))
      continue; // it is never there
    add((buffer.fromEnd ? made_ : taken_)[buffer.maker], buffer.pool, buffer.bytes);
    std::vector<int> users = buffer.users;
    users.push_back(buffer.maker);
    std::sort(users.begin(), users.end());
    users.erase(std::unique(users.begin(), users.end()), users.end());
    users_.back() = int(users.size());
    for (int user : users)
      uses_[user].push_back(int(b));
  }
}

void Decoder::reset() {
  const size_t n = graph_.tasks.size();
  start_.assign(n, 0);
  open_.resize(n);
  readyAt_.assign(n, 0);
  cause_.assign(n, -1);
  started_.assign(n, 0);
  usersLeft_ = users_;
  busy_.assign(graph_.resources.size(), 0);
  lastOn_.assign(graph_.resources.size(), -1);
  held_.assign(graph_.pools.size(), 0);
  lastFreed_.assign(graph_.pools.size(), -1);
  queue_.clear();
  loose_.clear();
  ready_.assign(graph_.resources.size(), {});
  makespan_ = 0;
  done_ = 0;
  for (size_t t = 0; t < n; ++t) {
    open_[t] = int(graph_.tasks[t].needs.size());
    if (open_[t] == 0)
      becomesReady(int(t));
  }
}

void Decoder::becomesReady(int task) {
  if (graph_.tasks[task].resources.empty())
    loose_.push_back(task);
  for (int r : graph_.tasks[task].resources)
    ready_[r].push_back(task);
}

/// Memory that the task frees at its end counts only for buffers that it makes there.
bool Decoder::fits(int task) const {
  for (const PoolUse &use : taken_[task])
    if (graph_.pools[use.pool].limit >= 0 && held_[use.pool] + use.bytes > graph_.pools[use.pool].limit)
      return false;
  for (const PoolUse &use : made_[task]) {
    int64_t bytes = held_[use.pool] + use.bytes;
    for (const PoolUse &also : taken_[task])
      bytes += also.pool == use.pool ? also.bytes : 0;
    for (int b : uses_[task])
      if (usersLeft_[b] == 1 && graph_.buffers[b].pool == use.pool)
        bytes -= graph_.buffers[b].bytes;
    if (graph_.pools[use.pool].limit >= 0 && bytes > graph_.pools[use.pool].limit)
      return false;
  }
  return true;
}

bool Decoder::isFree(int task) const {
  for (int r : graph_.tasks[task].resources)
    if (busy_[r])
      return false;
  return true;
}

void Decoder::begin(int task, int64_t time) {
  start_[task] = time;
  started_[task] = 1;
  // Notes what the task waited for. That is one of its needs, which is noted already, unless it was ready before.
  if (time > readyAt_[task] || cause_[task] < 0) {
    cause_[task] = -1;
    for (int r : graph_.tasks[task].resources)
      if (int last = lastOn_[r]; last >= 0 && start_[last] + graph_.tasks[last].duration == time)
        cause_[task] = last;
    if (cause_[task] < 0)
      for (const auto *uses : {&taken_[task], &made_[task]})
        for (const PoolUse &use : *uses)
          if (int last = lastFreed_[use.pool]; last >= 0 && start_[last] + graph_.tasks[last].duration == time)
            cause_[task] = last;
  }
  for (int r : graph_.tasks[task].resources) {
    busy_[r] = 1;
    lastOn_[r] = task;
  }
  for (const PoolUse &use : taken_[task])
    held_[use.pool] += use.bytes;
  // Memory for buffers that the task makes at its end is set aside now, less what it frees there.
  for (PoolUse &use : made_[task]) {
    use.reserved = use.bytes;
    for (int b : uses_[task])
      if (usersLeft_[b] == 1 && graph_.buffers[b].pool == use.pool)
        use.reserved -= graph_.buffers[b].bytes;
    use.reserved = std::max<int64_t>(0, use.reserved);
    held_[use.pool] += use.reserved;
  }
  queue_.push_back({time + graph_.tasks[task].duration, task});
  std::push_heap(queue_.begin(), queue_.end(), std::greater<>());
}

void Decoder::end(int task, int64_t time) {
  ++done_;
  makespan_ = std::max(makespan_, time);
  for (int r : graph_.tasks[task].resources)
    busy_[r] = 0;
  for (const PoolUse &use : made_[task])
    held_[use.pool] += use.bytes - use.reserved;
  for (int b : uses_[task])
    if (--usersLeft_[b] == 0) {
      held_[graph_.buffers[b].pool] -= graph_.buffers[b].bytes;
      lastFreed_[graph_.buffers[b].pool] = task;
    }
  for (const Need &next : later_[task]) {
    if (int64_t ready = time + next.lag; ready >= readyAt_[next.task]) {
      readyAt_[next.task] = ready;
      cause_[next.task] = task;
    }
    if (--open_[next.task] > 0)
      continue;
    if (readyAt_[next.task] > time) {
      queue_.push_back({readyAt_[next.task], -1 - next.task});
      std::push_heap(queue_.begin(), queue_.end(), std::greater<>());
    } else {
      becomesReady(next.task);
    }
  }
}

/// Runs until no task can start any more. pick(resource, time) is the task that a free resource takes next; -1: none.
template <typename Pick> bool Decoder::events(Pick pick) {
  reset();
  for (int64_t time = 0;;) {
    for (bool any = true; any;) {
      any = false;
      for (size_t i = 0; i < loose_.size();) {
        if (!fits(loose_[i])) {
          ++i;
          continue;
        }
        begin(loose_[i], time);
        loose_.erase(loose_.begin() + int64_t(i));
        any = true;
      }
      for (size_t r = 0; r < busy_.size(); ++r)
        if (!busy_[r])
          if (int task = pick(int(r), time); task >= 0) {
            begin(task, time);
            any = true;
          }
    }
    if (queue_.empty())
      return done_ == graph_.tasks.size();
    time = queue_.front().first;
    while (!queue_.empty() && queue_.front().first == time) {
      int task = queue_.front().second;
      std::pop_heap(queue_.begin(), queue_.end(), std::greater<>());
      queue_.pop_back();
      if (task >= 0)
        end(task, time);
      else
        becomesReady(-1 - task);
    }
  }
}

bool Decoder::run(const Orders &orders) {
  std::vector<size_t> next(orders.size());
  auto head = [&](int r) {
    while (next[r] < orders[r].size() && started_[orders[r][next[r]]])
      ++next[r];
    return next[r] < orders[r].size() ? orders[r][next[r]] : -1;
  };
  return events([&](int r, int64_t time) {
    auto isReady = [&](int task) { return open_[task] == 0 && readyAt_[task] <= time && isFree(task); };
    int task = head(r);
    if (task < 0 || !isReady(task))
      return -1;
    for (int other : graph_.tasks[task].resources)
      if (head(other) != task)
        return -1;
    if (fits(task))
      return task;
    for (size_t i = next[r] + 1; i < orders[r].size(); ++i) {
      int later = orders[r][i];
      if (!started_[later] && isReady(later) && fits(later))
        return later;
    }
    return -1;
  });
}

bool Decoder::greedy(const std::vector<int64_t> &priorities) {
  return events([&](int r, int64_t) {
    std::erase_if(ready_[r], [&](int task) { return started_[task] != 0; });
    int best = -1;
    for (int task : ready_[r]) {
      const bool better =
          best < 0 || priorities[task] > priorities[best] || (priorities[task] == priorities[best] && task < best);
      if (better && isFree(task) && fits(task))
        best = task;
    }
    return best;
  });
}

Orders Decoder::orders() const {
  Orders orders = all_;
  for (auto &order : orders)
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return start_[a] < start_[b]; });
  return orders;
}

const std::vector<int> &Decoder::criticalChain() {
  chain_.clear();
  int task = -1;
  for (size_t t = 0; t < graph_.tasks.size(); ++t)
    if (start_[t] + graph_.tasks[t].duration == makespan_)
      task = int(t);
  for (; task >= 0 && chain_.size() <= graph_.tasks.size(); task = cause_[task])
    chain_.push_back(task);
  return chain_;
}

} // namespace tessera::strategies
