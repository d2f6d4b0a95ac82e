//===- Knapsack.cpp - the memory of one memory point as a factor of message passing ---------------===//
#include "strategies/search/bound/Knapsack.h"

#include <algorithm>
#include <cmath>

using namespace tessera::strategies;

namespace {
constexpr double kBins = 1024;      // at least, for the room
constexpr double kLarge = 0.01;     // of the room: what a member uses at most
constexpr size_t kMostMembers = 64; // the largest
} // namespace

Knapsack::Knapsack(const FlatProblem &core, int32_t point, double price) {
  const double room = core.room[size_t(point)];
  // Sizes of tensors are often multiples of powers of two: such bins lose little.
  const double bin = std::exp2(std::max(0.0, std::floor(std::log2(std::max(1.0, room / kBins)))));
  std::vector<std::pair<double, int32_t>> users;
  std::vector<double> most(size_t(core.count()), 0);
  double small = 0;
  for (int32_t v = 0; v < core.count(); ++v) {
    const size_t size = size_t(core.size(v));
    std::vector<double> use(size, 0);
    for (size_t k = core.firstPiece[v]; k < core.firstPiece[v + 1]; ++k)
      if (core.pieces[k].from <= point && point < core.pieces[k].to)
        for (size_t s = 0; s < size; ++s)
          use[s] += core.extras[core.pieces[k].extra + s];
    most[size_t(v)] = *std::max_element(use.begin(), use.end());
    if (most[size_t(v)] > 0)
      users.push_back({-most[size_t(v)], v});
  }
  std::sort(users.begin(), users.end());
  std::vector<char> large(size_t(core.count()), 0);
  for (size_t k = 0; k < users.size(); ++k) {
    const bool is = k < kMostMembers && -users[k].first >= std::max(bin, kLarge * room);
    large[size_t(users[k].second)] = is;
    if (!is)
      small += -users[k].first;
  }
  stride = size_t(room / bin) + 1;
  for (int32_t v = 0; v < core.count(); ++v) {
    if (!large[size_t(v)])
      continue;
    const size_t size = size_t(core.size(v));
    Member m{v, std::vector<int32_t>(size), {}, std::vector<double>(size), {}, {}};
    std::vector<double> use(size, 0);
    for (size_t k = core.firstPiece[v]; k < core.firstPiece[v + 1]; ++k)
      if (core.pieces[k].from <= point && point < core.pieces[k].to)
        for (size_t s = 0; s < size; ++s)
          use[s] += core.extras[core.pieces[k].extra + s];
    double remainder = 0;
    for (size_t s = 0; s < size; ++s) {
      // An option that does not fit alone may stay at the rim: it is only a bound.
      const double bins = std::min(std::floor(use[s] / bin), double(stride - 1));
      auto at = std::find(m.bins.begin(), m.bins.end(), int32_t(bins));
      m.level[s] = int32_t(at - m.bins.begin());
      if (at == m.bins.end())
        m.bins.push_back(int32_t(bins));
      m.costs[s] = -price * bins * bin;
      remainder = std::max(remainder, std::min(use[s], room) - bins * bin);
    }
    small += remainder;
    m.least.resize(m.bins.size());
    m.base = m.costs;
    work += 3 * double(m.bins.size()) * double(stride);
    members.push_back(std::move(m));
  }
  heads.assign((members.size() + 1) * stride, 0);
  tails.assign((members.size() + 1) * stride, 0);
  // What is left of the room goes to the small users as far as they can use it.
  for (size_t l = 0; l < stride; ++l)
    after(members.size())[l] = -price * std::min(small, room - double(l) * bin);
  for (Member &m : members)
    for (size_t s = 0; s < m.costs.size(); ++s)
      m.least[size_t(m.level[s])] = std::min(m.least[size_t(m.level[s])], m.costs[s]);
  for (bool direction : {false, true}) {
    begin(direction);
    for (size_t k = 0; k < members.size(); ++k) {
      const Member &m = members[direction ? k : members.size() - 1 - k];
      push(std::vector<double>(m.costs.size(), 0).data(), 0);
    }
  }
}

void Knapsack::begin(bool isForward) {
  forward = isForward;
  position = forward ? 0 : members.size();
}

/// to[l] = min over levels of from[l - bins] + least; tails are reversed and go the other way.
void Knapsack::advance(const Member &m, const double *from, double *to) const {
  std::fill(to, to + stride, std::numeric_limits<double>::infinity());
  for (size_t j = 0; j < m.bins.size(); ++j) {
    const size_t shift = size_t(m.bins[j]), n = stride - shift;
    const double cost = m.least[j];
    if (forward)
      for (size_t l = 0; l < n; ++l) {
        const double x = from[l] + cost;
        to[l + shift] = x < to[l + shift] ? x : to[l + shift];
      }
    else
      for (size_t l = 0; l < n; ++l) {
        const double x = from[l + shift] + cost;
        to[l] = x < to[l] ? x : to[l];
      }
  }
}

/// Per level the least sum of all, without the member's own cost.
void Knapsack::marginals(const Member &m, const double *head, const double *tail, std::vector<double> &out) const {
  out.resize(m.bins.size());
  for (size_t j = 0; j < m.bins.size(); ++j) {
    const double *t = tail + m.bins[j];
    const size_t n = stride - size_t(m.bins[j]);
    double lanes[4];
    std::fill_n(lanes, 4, std::numeric_limits<double>::infinity());
    size_t l = 0;
    for (; l + 4 <= n; l += 4)
      for (size_t i = 0; i < 4; ++i) {
        const double x = head[l + i] + t[l + i];
        lanes[i] = x < lanes[i] ? x : lanes[i];
      }
    for (; l < n; ++l)
      lanes[0] = std::min(lanes[0], head[l] + t[l]);
    out[j] = std::min(std::min(lanes[0], lanes[1]), std::min(lanes[2], lanes[3]));
  }
}

void Knapsack::pull(double *total) {
  const size_t k = forward ? position : position - 1;
  Member &m = members[k];
  marginals(m, before(k), after(k + 1), marginal);
  double best = std::numeric_limits<double>::infinity();
  for (size_t s = 0; s < m.costs.size(); ++s)
    best = std::min(best, marginal[size_t(m.level[s])] + m.costs[s]);
  for (size_t s = 0; s < m.costs.size(); ++s) {
    const double above = marginal[size_t(m.level[s])] + m.costs[s] - best;
    if (std::isfinite(above)) // else it never fits: no path goes through it, whatever it costs
      m.costs[s] -= above;
    total[s] += m.base[s] - m.costs[s];
  }
}

void Knapsack::push(const double *total, double share) {
  const size_t k = forward ? position : position - 1;
  Member &m = members[k];
  std::fill(m.least.begin(), m.least.end(), std::numeric_limits<double>::infinity());
  for (size_t s = 0; s < m.costs.size(); ++s) {
    m.costs[s] += share * total[s];
    m.least[size_t(m.level[s])] = std::min(m.least[size_t(m.level[s])], m.costs[s]);
  }
  if (forward) {
    advance(m, before(k), before(k + 1));
    ++position;
  } else {
    advance(m, after(k + 1), after(k));
    --position;
  }
  if (forward ? position == members.size() : position == 0) {
    const size_t end = forward ? members.size() : 0;
    const double *head = before(end), *tail = after(end);
    least = kFlatForbidden;
    for (size_t l = 0; l < stride; ++l)
      least = std::min(least, head[l] + tail[l]);
  }
}

void Knapsack::addReduced(std::vector<double> &reduced, const std::vector<size_t> &first) {
  // The sums of the other direction are those before the last pass.
  begin(!forward);
  std::vector<double> none;
  for (size_t k = 0; k < members.size(); ++k) {
    none.assign(members[forward ? k : members.size() - 1 - k].costs.size(), 0);
    push(none.data(), 0);
  }
  for (size_t k = 0; k < members.size(); ++k) {
    const Member &m = members[k];
    marginals(m, before(k), after(k + 1), marginal);
    for (size_t s = 0; s < m.costs.size(); ++s) {
      const double above = marginal[size_t(m.level[s])] + m.costs[s] - least;
      reduced[first[size_t(m.variable)] + s] += std::min(std::max(above, 0.0), kFlatForbidden);
    }
  }
}
