//===- Reduce.cpp - exact reductions of a search problem --------------------------------------===//
#include "strategies/search/reduce/Reduce.h"
#include "strategies/search/problem/Clones.h"
#include "strategies/search/problem/MemoryPoints.h"

#include <algorithm>
#include <deque>

using namespace tessera::strategies;

namespace {

// Tuning. At the end of a line: what half and twice do to the cost (docs/adding-a-searcher.md).
constexpr size_t kMostNewEntries = 1 << 14;     // of a folded or bridged edge, beyond what it replaces; same
constexpr size_t kMostCompareSteps = 2'000'000; // per visit of a variable, pairs of options; bound -1.0/0 %
constexpr size_t kMostBridge = size_t(1) << 28; // ways over a variable between options of its two neighbours; same
constexpr size_t kMostRecord = size_t(1) << 24; // entries of a table that says what a variable chooses; same
constexpr int kRounds = 3;                      // of reductions and memory points; +3.0/0 %
constexpr double kPointsLeft = 0.9;             // of the memory points: with more left rounds end; +3.0/0 %

// Steps: when the clock is looked at, and what kMostCompareSteps counts.
constexpr size_t kPollSteps = 10'000'000; // between two looks
constexpr size_t kVisitSteps = 1000;      // of a visit
constexpr size_t kNormalizeSteps = 4;     // per entry of a matrix
constexpr size_t kEventsPerStep = 4;      // begins and ends of uses that are compared

/// The least of `count` numbers, one at least.
TESSERA_CLONES int64_t leastOf(const int64_t *list, size_t count) {
  int64_t least = list[0];
  for (size_t i = 1; i < count; ++i)
    least = list[i] < least ? list[i] : least;
  return least;
}

class Reducer {
public:
  Reducer(Problem &m, const std::function<bool()> &stop) : m_(m), stop_(stop), queued_(m.variables.size(), 1) {
    for (size_t v = 0; v < m.variables.size(); ++v)
      queue_.push_back(int32_t(v));
  }

  void run() {
    while (!queue_.empty() && !m_.infeasible) {
      if (steps_ > kPollSteps) {
        steps_ = 0;
        if (stop_())
          return;
      }
      int32_t v = queue_.front();
      queue_.pop_front();
      queued_[v] = 0;
      steps_ += kVisitSteps;
      if (m_.variables[v].alive)
        visit(v);
    }
  }

private:
  Variable &var(int32_t v) { return m_.variables[v]; }
  void touch(int32_t v) {
    if (!queued_[v]) {
      queued_[v] = 1;
      queue_.push_back(v);
    }
  }
  void touchNeighbours(int32_t v) {
    for (int32_t e : var(v).edges)
      touch(m_.other(e, v));
  }

  void visit(int32_t v) {
    if (!dropBad(v))
      return;
    normalizeEdges(v);
    if (var(v).size() > 1 && dropDominated(v)) {
      touch(v);
      touchNeighbours(v);
    }
    if (var(v).size() == 1)
      return takeOut(v);
    if (foldFunctions(v))
      return;
    const size_t degree = var(v).edges.size();
    if (degree == 0)
      reduceAlone(v);
    else if (degree == 1)
      reduceLeaf(v);
    else if (degree == 2 && !m_.hasMemory(v))
      reduceChain(v);
  }

  bool dropBad(int32_t v);
  void normalizeEdges(int32_t v);
  bool dropDominated(int32_t v);
  bool foldFunctions(int32_t v);
  void reduceAlone(int32_t v);
  void reduceLeaf(int32_t v);
  void reduceChain(int32_t v);
  void takeOut(int32_t v);
  void fold(int32_t v, int32_t into, const std::vector<int32_t> &map);
  /// Collects where the pieces of x begin and end, for usesNoMore.
  void prepareMemory(const Variable &x);
  /// Whether option s of the prepared variable uses no more than option t at every memory point.
  bool usesNoMore(const Variable &x, size_t s, size_t t) {
    int64_t more = 0;
    for (size_t k = 0; k < events_.size(); ++k) {
      const Event &e = events_[k];
      int64_t difference = e.extra[s] - e.extra[t];
      more += e.begins ? difference : -difference;
      if (more > 0 && (k + 1 == events_.size() || events_[k + 1].point != e.point))
        return false;
    }
    return true;
  }
  struct Event {
    int32_t point;
    bool begins;
    const int64_t *extra;
  };
  std::vector<Event> events_;

  Problem &m_;
  const std::function<bool()> &stop_;
  std::deque<int32_t> queue_;
  std::vector<char> queued_;
  size_t steps_ = 0; // since `stop` was asked
};

void Reducer::prepareMemory(const Variable &x) {
  events_.clear();
  for (const Piece &piece : x.pieces) {
    events_.push_back({piece.from, true, piece.extra.data()});
    events_.push_back({piece.to, false, piece.extra.data()});
  }
  std::stable_sort(events_.begin(), events_.end(), [](const Event &a, const Event &b) { return a.point < b.point; });
}

/// Drops options that cannot occur; false if none is left.
bool Reducer::dropBad(int32_t v) {
  Variable &x = var(v);
  std::vector<char> keep(x.size(), 1);
  size_t kept = 0;
  std::vector<int64_t> rooms; // per piece: the least where it counts
  for (const Piece &piece : x.pieces)
    rooms.push_back(leastOf(&m_.room[size_t(piece.from)], size_t(piece.to - piece.from)));
  for (size_t s = 0; s < x.size(); ++s) {
    keep[s] = x.costs[s] < kForbidden;
    for (size_t k = 0; k < x.pieces.size(); ++k)
      keep[s] &= x.pieces[k].extra[s] <= 0 || x.pieces[k].extra[s] <= rooms[k];
    for (size_t k = 0; k < x.edges.size() && keep[s]; ++k) {
      if (m_.edges[x.edges[k]].normal) // every row has an entry 0
        continue;
      EdgeView cost = m_.view(x.edges[k], v);
      size_t t = 0, count = var(cost.other).size();
      while (t < count && cost(s, t) >= kForbidden)
        ++t;
      keep[s] = t < count;
    }
    kept += size_t(keep[s]);
  }
  if (kept == 0) {
    m_.infeasible = true;
    return false;
  }
  if (kept < x.size()) {
    m_.keepOptions(v, keep);
    touchNeighbours(v);
  }
  return true;
}

/// Moves row and column minima into the node costs; removes edges that become zero everywhere.
void Reducer::normalizeEdges(int32_t v) {
  std::vector<int32_t> list = var(v).edges;
  for (int32_t e : list) {
    Edge &edge = m_.edges[e];
    if (edge.normal)
      continue;
    Variable &a = var(edge.a), &b = var(edge.b);
    const size_t rows = a.size(), columns = b.size();
    steps_ += kNormalizeSteps * rows * columns;
    bool moved = false;
    for (size_t s = 0; s < rows; ++s) {
      Cost *row = &edge.costs[s * columns], least = *std::min_element(row, row + columns);
      if (least == 0)
        continue;
      moved = true;
      a.costs[s] = addCosts(a.costs[s], least);
      for (size_t t = 0; t < columns; ++t)
        if (least >= kForbidden)
          row[t] = 0;
        else if (row[t] < kForbidden)
          row[t] -= least;
    }
    std::vector<Cost> least(columns, kForbidden);
    for (size_t s = 0; s < rows; ++s)
      for (size_t t = 0; t < columns; ++t)
        least[t] = std::min(least[t], edge.costs[s * columns + t]);
    bool zero = true;
    for (size_t t = 0; t < columns; ++t) {
      moved |= least[t] > 0;
      b.costs[t] = addCosts(b.costs[t], least[t]);
    }
    for (size_t s = 0; s < rows; ++s)
      for (size_t t = 0; t < columns; ++t) {
        Cost &c = edge.costs[s * columns + t];
        if (least[t] >= kForbidden)
          c = 0;
        else if (c < kForbidden)
          c -= least[t];
        zero &= c == 0;
      }
    edge.normal = true;
    if (moved || zero) {
      touch(edge.a);
      touch(edge.b);
    }
    if (zero)
      m_.removeEdge(e);
  }
}

bool Reducer::dropDominated(int32_t v) {
  Variable &x = var(v);
  const size_t n = x.size();
  std::vector<char> keep(n, 1);
  size_t work = 0, kept = n;
  prepareMemory(x);
  // Short edges come first, since they refuse a pair soonest.
  std::vector<EdgeView> views;
  for (int32_t e : x.edges)
    views.push_back(m_.view(e, v));
  std::stable_sort(views.begin(), views.end(),
                   [&](const EdgeView &a, const EdgeView &b) { return var(a.other).size() < var(b.other).size(); });
  auto dominates = [&](size_t s, size_t t) { // t can be replaced by s
    // The rows of the edges have the minimum 0 (normalizeEdges), so none of them adds to what is spare.
    Cost spare = x.costs[t] - x.costs[s];
    ++work;
    if (spare < 0)
      return false;
    work += events_.size() / kEventsPerStep;
    if (!usesNoMore(x, s, t))
      return false;
    for (const EdgeView &cost : views) {
      Cost least = std::numeric_limits<Cost>::max();
      for (size_t k = 0, count = var(cost.other).size(); k < count; ++k, ++work) {
        Cost mine = cost(s, k), his = cost(t, k);
        if (his >= kForbidden)
          continue;
        if (mine >= kForbidden)
          return false;
        least = std::min(least, his - mine);
        if (spare + least < 0)
          return false;
      }
      if (least == std::numeric_limits<Cost>::max())
        return true; // option t has no partner on this edge
      spare += least;
    }
    return spare >= 0;
  };
  for (size_t t = 0; t < n && work < kMostCompareSteps; ++t)
    for (size_t s = 0; s < n && keep[t] && work < kMostCompareSteps; ++s)
      if (s != t && keep[s] && dominates(s, t)) {
        keep[t] = 0;
        --kept;
      }
  steps_ += work;
  if (kept == n)
    return false;
  m_.keepOptions(v, keep);
  return true;
}

/// Takes v out; its option is map[option of `into`]. Costs, memory and edges of v move to `into`.
void Reducer::fold(int32_t v, int32_t into, const std::vector<int32_t> &map) {
  Variable &x = var(v), &y = var(into);
  Record record{v, {into, -1}, 1, std::vector<int32_t>(m_.optionCounts[into], 0)};
  for (size_t s = 0; s < map.size(); ++s)
    record.table[y.ids[s]] = x.ids[map[s]];
  m_.records.push_back(std::move(record));

  int32_t shared = m_.between(v, into);
  EdgeView cost = m_.view(shared, into);
  for (size_t s = 0; s < map.size(); ++s)
    y.costs[s] = addCosts(y.costs[s], addCosts(x.costs[map[s]], cost(s, size_t(map[s]))));
  m_.removeEdge(shared);
  for (Piece &piece : x.pieces) {
    std::vector<int64_t> extra(map.size());
    for (size_t s = 0; s < map.size(); ++s)
      extra[s] = piece.extra[map[s]];
    m_.addPiece(into, piece.from, piece.to, std::move(extra));
  }
  std::vector<int32_t> list = x.edges;
  for (int32_t e : list) {
    std::vector<Cost> costs = std::move(m_.edges[e].costs);
    EdgeView old = m_.view(e, v);
    old.data = costs.data();
    m_.addEdge(into, old.other, [&](size_t s, size_t t) { return old(size_t(map[s]), t); });
    m_.removeEdge(e);
    touch(old.other);
  }
  x.pieces.clear();
  x.alive = false;
  touch(into);
  touchNeighbours(into);
}

bool Reducer::foldFunctions(int32_t v) {
  std::vector<int32_t> list = var(v).edges;
  for (int32_t e : list)
    for (int32_t into : {m_.edges[e].a, m_.edges[e].b}) {
      int32_t out = m_.other(e, into);
      EdgeView cost = m_.view(e, into);
      const size_t rows = var(into).size(), columns = var(out).size();
      std::vector<int32_t> map(rows, -1);
      bool function = true;
      for (size_t s = 0; s < rows && function; ++s)
        for (size_t t = 0; t < columns && function; ++t)
          if (cost(s, t) < kForbidden) {
            function = map[s] < 0;
            map[s] = int32_t(t);
          }
      for (int32_t t : map)
        function &= t >= 0; // dropBad handles rows without a partner
      if (!function)
        continue;
      if (rows > columns) { // the edges of `out` would grow
        size_t grown = 0;
        for (int32_t k : var(out).edges)
          grown += (rows - columns) * var(m_.other(k, out)).size();
        if (grown > rows * columns + kMostNewEntries)
          continue;
      }
      fold(out, into, map);
      if (out != v)
        touch(v);
      return true;
    }
  return false;
}

/// Takes out a variable of one option.
void Reducer::takeOut(int32_t v) {
  Variable &x = var(v);
  m_.constant = addCosts(m_.constant, x.costs[0]);
  std::vector<int32_t> list = x.edges;
  for (int32_t e : list) {
    EdgeView cost = m_.view(e, v);
    Variable &y = var(cost.other);
    for (size_t t = 0; t < y.size(); ++t)
      y.costs[t] = addCosts(y.costs[t], cost(0, t));
    touch(cost.other);
    m_.removeEdge(e);
  }
  m_.records.push_back({v, {-1, -1}, 1, {x.ids[0]}});
  x.alive = false;
}

/// A variable without neighbours takes the option that is best in both cost and memory, if there is
/// one.
void Reducer::reduceAlone(int32_t v) {
  Variable &x = var(v);
  prepareMemory(x);
  size_t best = size_t(std::min_element(x.costs.begin(), x.costs.end()) - x.costs.begin());
  for (size_t s = 0; s < x.size(); ++s)
    if (!usesNoMore(x, best, s))
      return;
  std::vector<char> keep(x.size(), 0);
  keep[best] = 1;
  m_.keepOptions(v, keep);
  takeOut(v);
}

void Reducer::reduceLeaf(int32_t v) {
  Variable &x = var(v);
  int32_t into = m_.other(x.edges[0], v);
  EdgeView cost = m_.view(x.edges[0], into);
  prepareMemory(x);
  std::vector<int32_t> map(var(into).size(), -1);
  for (size_t s = 0; s < map.size(); ++s) {
    size_t best = 0;
    Cost least = kForbidden;
    for (size_t t = 0; t < x.size(); ++t) {
      Cost c = addCosts(x.costs[t], cost(s, t));
      // Among equal costs the option of least memory is taken. Otherwise the search below for one
      // that is best in both may fail.
      if (c < least || (c == least && c < kForbidden && usesNoMore(x, t, best))) {
        least = c;
        best = t;
      }
    }
    if (least >= kForbidden) {
      touch(into); // dropBad removes this option of the neighbour
      return;
    }
    for (size_t t = 0; t < x.size(); ++t)
      if (addCosts(x.costs[t], cost(s, t)) < kForbidden && !usesNoMore(x, best, t))
        return;
    map[s] = int32_t(best);
  }
  fold(v, into, map);
}

void Reducer::reduceChain(int32_t v) {
  Variable &x = var(v);
  EdgeView first = m_.view(x.edges[0], v), second = m_.view(x.edges[1], v);
  int32_t a = first.other, b = second.other;
  const size_t rows = var(a).size(), columns = var(b).size();
  if (m_.between(a, b) < 0 && rows * columns > x.size() * (rows + columns) + kMostNewEntries)
    return;
  if (rows * columns * x.size() > kMostBridge)
    return;
  Record record{v, {a, b}, size_t(m_.optionCounts[b]), {}};
  if (size_t(m_.optionCounts[a]) * record.columns > kMostRecord)
    return;
  steps_ += rows * columns * x.size();
  record.table.assign(size_t(m_.optionCounts[a]) * record.columns, 0);
  std::vector<Cost> bridge(rows * columns, kForbidden);
  std::vector<int32_t> via(rows * columns, 0);
  for (size_t k = 0; k < x.size(); ++k)
    for (size_t s = 0; s < rows; ++s) {
      Cost head = addCosts(x.costs[k], first(k, s));
      if (head >= kForbidden)
        continue;
      for (size_t t = 0; t < columns; ++t) {
        Cost c = addCosts(head, second(k, t));
        if (c < bridge[s * columns + t]) {
          bridge[s * columns + t] = c;
          via[s * columns + t] = int32_t(k);
        }
      }
    }
  for (size_t s = 0; s < rows; ++s)
    for (size_t t = 0; t < columns; ++t)
      record.table[size_t(var(a).ids[s]) * record.columns + size_t(var(b).ids[t])] = x.ids[via[s * columns + t]];
  m_.records.push_back(std::move(record));
  m_.removeEdge(x.edges[1]);
  m_.removeEdge(x.edges[0]);
  x.alive = false;
  m_.addEdge(a, b, [&](size_t s, size_t t) { return bridge[s * columns + t]; });
  touch(a);
  touch(b);
}

} // namespace

void tessera::strategies::reduce(Problem &m, const std::function<bool()> &stop) {
  dropIdleMemoryPoints(m);
  // Fewer memory points leave fewer pieces, which lets more variables go.
  for (int round = 0; round < kRounds && !m.infeasible && !stop(); ++round) {
    Reducer(m, stop).run();
    if (m.infeasible)
      return;
    const size_t before = m.room.size();
    dropIdleMemoryPoints(m);
    if (m.infeasible || m.room.empty())
      return;
    dropDominatedMemoryPoints(m, stop);
    if (double(m.room.size()) > kPointsLeft * double(before))
      return;
  }
}
