//===- MemoryPoints.cpp - memory points that cannot decide ----------------------------------------===//
#include "strategies/search/problem/MemoryPoints.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <span>

using namespace tessera::strategies;

namespace {

// Tuning. At the end of a line: what half and twice do to the cost (docs/adding-a-searcher.md).
constexpr size_t kWindow = 48;          // points compared with each point per sweep; same
constexpr size_t kDroppedForSweep = 20; // one in as many points: then another sweep, which reaches farther; same

constexpr size_t kPollPoints = 256; // between two looks at the clock

void keepPoints(Problem &m, const std::vector<char> &keep) {
  const size_t n = m.room.size();
  std::vector<int32_t> newIndex(n + 1, 0); // kept points before this one
  size_t kept = 0;
  for (size_t p = 0; p < n; ++p) {
    newIndex[p] = int32_t(kept);
    if (keep[p]) {
      m.room[kept] = m.room[p];
      m.points[kept] = m.points[p];
      ++kept;
    }
  }
  newIndex[n] = int32_t(kept);
  if (kept == n)
    return;
  m.room.resize(kept);
  m.points.resize(kept);
  for (size_t v = 0; v < m.variables.size(); ++v) {
    std::vector<Piece> old = std::move(m.variables[v].pieces);
    m.variables[v].pieces.clear();
    for (Piece &piece : old)
      m.addPiece(int32_t(v), newIndex[piece.from], newIndex[piece.to], std::move(piece.extra));
  }
}

struct Use {
  int32_t variable;
  const std::vector<int64_t> *extra;
};

/// The uses that begin or end at each point, in the order of variables.
class UsesByPoint {
public:
  UsesByPoint(const Problem &m, size_t points, int32_t Piece::*end) : first_(points + 2, 0) {
    auto forEach = [&](auto visit) {
      for (size_t v = 0; v < m.variables.size(); ++v)
        if (m.variables[v].alive)
          for (const Piece &piece : m.variables[v].pieces)
            visit(size_t(piece.*end), Use{int32_t(v), &piece.extra});
    };
    forEach([&](size_t point, const Use &) { ++first_[point + 1]; });
    for (size_t p = 1; p < first_.size(); ++p)
      first_[p] += first_[p - 1];
    list_.resize(first_.back());
    std::vector<size_t> next = first_;
    forEach([&](size_t point, const Use &use) { list_[next[point]++] = use; });
  }
  std::span<const Use> at(size_t point) const {
    return {list_.data() + first_[point], first_[point + 1] - first_[point]};
  }

private:
  std::vector<size_t> first_; // by point, its first use; and the end
  std::vector<Use> list_;
};

/// The most by which the use at one point can exceed that at another: the sum over variables of the largest difference.
class Difference {
public:
  explicit Difference(const Problem &m) : perVariable_(m.variables.size()) {}

  void add(const Use &use, int64_t sign) {
    OfVariable &of = perVariable_[size_t(use.variable)];
    std::vector<int64_t> &d = of.difference;
    const std::vector<int64_t> &extra = *use.extra;
    if (d.empty()) {
      touched_.push_back(use.variable);
      d.assign(extra.size(), 0);
    }
    above -= of.most;
    below += of.least;
    of.most = std::numeric_limits<int64_t>::min();
    of.least = std::numeric_limits<int64_t>::max();
    for (size_t s = 0; s < d.size(); ++s) {
      d[s] += sign * extra[s];
      of.most = std::max(of.most, d[s]);
      of.least = std::min(of.least, d[s]);
    }
    above += of.most;
    below -= of.least;
  }
  void clear() {
    for (int32_t v : touched_) {
      OfVariable &of = perVariable_[size_t(v)];
      of.difference.clear();
      of.most = of.least = 0;
    }
    touched_.clear();
    above = below = 0;
  }
  __int128 above = 0, below = 0; // of the first point over the second, and the reverse

private:
  struct OfVariable {
    std::vector<int64_t> difference; // by option; empty: none yet
    int64_t most = 0, least = 0;     // of them
  };
  std::vector<OfVariable> perVariable_;
  std::vector<int32_t> touched_;
};

} // namespace

void tessera::strategies::dropIdleMemoryPoints(Problem &m) {
  const size_t n = m.room.size();
  std::vector<__int128> most(n + 1, 0); // differences of the most that can be used at each point
  for (const Variable &x : m.variables)
    if (x.alive)
      for (const Piece &piece : x.pieces) {
        int64_t largest = *std::max_element(piece.extra.begin(), piece.extra.end());
        most[piece.from] += largest;
        most[piece.to] -= largest;
      }
  std::vector<char> keep(n);
  __int128 live = 0;
  for (size_t p = 0; p < n; ++p) {
    live += most[p];
    if (m.room[p] < 0)
      m.infeasible = true;
    keep[p] = live > m.room[p];
  }
  keepPoints(m, keep);
}

void tessera::strategies::dropDominatedMemoryPoints(Problem &m, const std::function<bool()> &stop) {
  Difference difference(m);
  while (!m.room.empty()) {
    const size_t n = m.room.size();
    const UsesByPoint begins(m, n, &Piece::from), ends(m, n, &Piece::to);
    std::vector<char> keep(n, 1);
    size_t dropped = 0;
    for (size_t p = 0; p < n; ++p) {
      if (!keep[p])
        continue;
      if (p % kPollPoints == 0 && stop())
        break;
      difference.clear();
      for (size_t q = p + 1; q < n && q <= p + kWindow; ++q) {
        for (const Use &use : ends.at(q))
          difference.add(use, 1);
        for (const Use &use : begins.at(q))
          difference.add(use, -1);
        if (!keep[q])
          continue;
        if (difference.above <= __int128(m.room[p]) - m.room[q]) {
          keep[p] = 0;
          ++dropped;
          break;
        }
        if (difference.below <= __int128(m.room[q]) - m.room[p]) {
          keep[q] = 0;
          ++dropped;
        }
      }
    }
    keepPoints(m, keep);
    if (dropped * kDroppedForSweep < n || stop())
      return;
  }
}

std::vector<double> tessera::strategies::gatherPrices(const std::vector<double> &prices,
                                                      const std::vector<int32_t> &points) {
  if (points.empty())
    return prices;
  std::vector<double> gathered(prices.size(), 0);
  for (size_t p = 0, next = 0; p < prices.size(); ++p) {
    while (next + 1 < points.size() && std::abs(points[next + 1] - int32_t(p)) <= std::abs(points[next] - int32_t(p)))
      ++next;
    gathered[size_t(points[next])] += prices[p];
  }
  return gathered;
}
