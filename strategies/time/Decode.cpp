#include "strategies/time/Decode.h"

#include <algorithm>
#include <functional>
#include <limits>

namespace tessera::strategies {

/// What memory holds from here on if the tasks that have not started follow in a fixed order, one after the other.
class MemoryAhead {
public:
  MemoryAhead(const TaskGraph &graph, const std::vector<int> &order)
      : graph_(graph), order_(order), place_(graph.tasks.size()), started_(graph.tasks.size(), 0),
        last_(graph.buffers.size()), most_(graph.pools.size()), added_(graph.pools.size()) {
    while (leaves_ < order.size())
      leaves_ *= 2;
    for (size_t pool = 0; pool < graph.pools.size(); ++pool) {
      most_[pool].assign(2 * leaves_, 0);
      added_[pool].assign(2 * leaves_, 0);
    }
    for (size_t i = 0; i < order.size(); ++i)
      place_[size_t(order[i])] = i;
    for (size_t b = 0; b < graph.buffers.size(); ++b) {
      const TaskBuffer &buffer = graph.buffers[b];
      const size_t begin = place_[size_t(buffer.maker)];
      last_[b] = begin;
      for (int user : buffer.users)
        last_[b] = std::max(last_[b], place_[size_t(user)]);
      add(buffer.pool, begin, last_[b] + 1, buffer.bytes);
    }
  }

  /// Whether the order has the memory, with `bytes` more until the place of `task`.
  bool allows(int task, int pool, int64_t bytes) const {
    return within(pool, next_, place_[size_t(task)], graph_.pools[size_t(pool)].limit - bytes);
  }
  bool allowsOrder() const {
    for (size_t pool = 0; pool < graph_.pools.size(); ++pool)
      if (!within(int(pool), 0, order_.size(), graph_.pools[pool].limit))
        return false;
    return true;
  }
  void take(int task, int pool, int64_t bytes) { add(pool, next_, place_[size_t(task)], bytes); }
  void begins(int task) {
    started_[size_t(task)] = 1;
    while (next_ < order_.size() && started_[size_t(order_[next_])])
      ++next_;
  }
  void frees(int buffer) {
    const TaskBuffer &freed = graph_.buffers[size_t(buffer)];
    add(freed.pool, next_, last_[size_t(buffer)] + 1, -freed.bytes);
  }

private:
  bool within(int pool, size_t begin, size_t end, int64_t limit) const {
    return begin >= end || graph_.pools[size_t(pool)].limit < 0 || most(pool, 1, 0, leaves_, begin, end) <= limit;
  }
  void add(int pool, size_t begin, size_t end, int64_t bytes) {
    if (begin < end && graph_.pools[size_t(pool)].limit >= 0)
      add(pool, 1, 0, leaves_, begin, end, bytes);
  }
  // A tree over the places: of a node's own places, the most is without what was added to nodes above it.
  void add(int pool, size_t node, size_t from, size_t to, size_t begin, size_t end, int64_t bytes) {
    if (end <= from || to <= begin)
      return;
    std::vector<int64_t> &most = most_[size_t(pool)], &added = added_[size_t(pool)];
    if (begin <= from && to <= end) {
      most[node] += bytes;
      added[node] += bytes;
      return;
    }
    const size_t middle = (from + to) / 2;
    add(pool, 2 * node, from, middle, begin, end, bytes);
    add(pool, 2 * node + 1, middle, to, begin, end, bytes);
    most[node] = added[node] + std::max(most[2 * node], most[2 * node + 1]);
  }
  int64_t most(int pool, size_t node, size_t from, size_t to, size_t begin, size_t end) const {
    if (end <= from || to <= begin)
      return std::numeric_limits<int64_t>::min() / 2;
    if (begin <= from && to <= end)
      return most_[size_t(pool)][node];
    const size_t middle = (from + to) / 2;
    return added_[size_t(pool)][node] +
           std::max(most(pool, 2 * node, from, middle, begin, end), most(pool, 2 * node + 1, middle, to, begin, end));
  }

  const TaskGraph &graph_;
  const std::vector<int> &order_;
  std::vector<size_t> place_; // by task
  std::vector<char> started_; // by task
  std::vector<size_t> last_;  // by buffer: place of the last task that uses it
  size_t leaves_ = 1, next_ = 0;
  std::vector<std::vector<int64_t>> most_, added_; // by pool
};

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
  if (ahead_)
    for (size_t pool = 0; pool < graph_.pools.size(); ++pool) {
      int64_t bytes = 0;
      for (const auto *uses : {&taken_[task], &made_[task]})
        for (const PoolUse &use : *uses)
          bytes += use.pool == int(pool) ? use.bytes : 0;
      if (bytes > 0 && !ahead_->allows(task, int(pool), bytes))
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
  if (ahead_) {
    for (const auto *uses : {&taken_[task], &made_[task]})
      for (const PoolUse &use : *uses)
        ahead_->take(task, use.pool, use.bytes);
    ahead_->begins(task);
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
      if (ahead_)
        ahead_->frees(b);
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

bool Decoder::cautious(const std::vector<int64_t> &priorities, const std::vector<int> &order) {
  MemoryAhead ahead(graph_, order);
  if (!ahead.allowsOrder())
    return false;
  ahead_ = &ahead;
  const bool done = greedy(priorities);
  ahead_ = nullptr;
  return done;
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
