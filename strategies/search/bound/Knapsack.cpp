//===- Knapsack.cpp - the memory of one memory point as a factor of message passing ---------------===//
#include "strategies/search/bound/Knapsack.h"

#include <algorithm>
#include <cmath>

using namespace tessera::strategies;

namespace {
// Tuning. At the end of a line: what half and twice do to the cost (docs/adding-a-searcher.md).
constexpr double kBins = 1024;      // at least, for the room; bound +0.3/-0.5 %
constexpr double kLarge = 0.01;     // of the room: what a member's largest option uses, at least; bound +0.3/-0.5 %
constexpr size_t kMostMembers = 64; // the largest; same
// Counted work, steps:
constexpr double kBinWork = 3; // per bin of the room and distinct use of a member
} // namespace

Knapsack::Knapsack(const FlatProblem &flat, int32_t point, double price) {
  const double room = flat.room[size_t(point)];
  // Sizes of tensors are often multiples of powers of two: such bins lose little.
  const double bin = std::exp2(std::max(0.0, std::floor(std::log2(std::max(1.0, room / kBins)))));
  std::vector<std::pair<double, int32_t>> users;
  std::vector<double> most(size_t(flat.count()), 0);
  double small = 0;
  for (int32_t v = 0; v < flat.count(); ++v) {
    const size_t size = size_t(flat.size(v));
    std::vector<double> use(size, 0);
    for (size_t k = flat.firstPiece[v]; k < flat.firstPiece[v + 1]; ++k)
      if (flat.pieces[k].from <= point && point < flat.pieces[k].to)
        for (size_t s = 0; s < size; ++s)
          use[s] += flat.extras[flat.pieces[k].extra + s];
    most[size_t(v)] = *std::max_element(use.begin(), use.end());
    if (most[size_t(v)] > 0)
      users.push_back({-most[size_t(v)], v});
  }
  std::sort(users.begin(), users.end());
  std::vector<char> large(size_t(flat.count()), 0);
  for (size_t k = 0; k < users.size(); ++k) {
    const bool is = k < kMostMembers && -users[k].first >= std::max(bin, kLarge * room);
    large[size_t(users[k].second)] = is;
    if (!is)
      small += -users[k].first;
  }
  stride_ = size_t(room / bin) + 1;
  for (int32_t v = 0; v < flat.count(); ++v) {
    if (!large[size_t(v)])
      continue;
    const size_t size = size_t(flat.size(v));
    Member m{v, std::vector<int32_t>(size), {}, std::vector<double>(size), {}, {}};
    std::vector<double> use(size, 0);
    for (size_t k = flat.firstPiece[v]; k < flat.firstPiece[v + 1]; ++k)
      if (flat.pieces[k].from <= point && point < flat.pieces[k].to)
        for (size_t s = 0; s < size; ++s)
          use[s] += flat.extras[flat.pieces[k].extra + s];
    double remainder = 0;
    for (size_t s = 0; s < size; ++s) {
      // An option that alone exceeds the room counts as just filling it. The result is still a valid bound.
      const double bins = std::min(std::floor(use[s] / bin), double(stride_ - 1));
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
    work_ += kBinWork * double(m.bins.size()) * double(stride_);
    members_.push_back(std::move(m));
  }
  heads_.assign((members_.size() + 1) * stride_, 0);
  tails_.assign((members_.size() + 1) * stride_, 0);
  // The rest of the room is credited to the small users, as far as they can use it.
  for (size_t l = 0; l < stride_; ++l)
    after(members_.size())[l] = -price * std::min(small, room - double(l) * bin);
  for (Member &m : members_)
    for (size_t s = 0; s < m.costs.size(); ++s)
      m.least[size_t(m.level[s])] = std::min(m.least[size_t(m.level[s])], m.costs[s]);
  for (bool direction : {false, true}) {
    begin(direction);
    for (size_t k = 0; k < members_.size(); ++k) {
      const Member &m = members_[direction ? k : members_.size() - 1 - k];
      push(std::vector<double>(m.costs.size(), 0).data(), 0);
    }
  }
}

void Knapsack::begin(bool isForward) {
  forward_ = isForward;
  position_ = forward_ ? 0 : members_.size();
}

/// to[l] = min over levels of from[l - bins] + least; tails are reversed and go the other way.
void Knapsack::advance(const Member &m, const double *from, double *to) const {
  std::fill(to, to + stride_, std::numeric_limits<double>::infinity());
  for (size_t j = 0; j < m.bins.size(); ++j) {
    const size_t shift = size_t(m.bins[j]), n = stride_ - shift;
    const double cost = m.least[j];
    if (forward_)
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
    const size_t n = stride_ - size_t(m.bins[j]);
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
    out[j] = std::min({lanes[0], lanes[1], lanes[2], lanes[3]});
  }
}

void Knapsack::pull(double *total) {
  const size_t k = forward_ ? position_ : position_ - 1;
  Member &m = members_[k];
  marginals(m, before(k), after(k + 1), marginal_);
  double best = std::numeric_limits<double>::infinity();
  for (size_t s = 0; s < m.costs.size(); ++s)
    best = std::min(best, marginal_[size_t(m.level[s])] + m.costs[s]);
  for (size_t s = 0; s < m.costs.size(); ++s) {
    const double above = marginal_[size_t(m.level[s])] + m.costs[s] - best;
    if (std::isfinite(above)) // if no path through the option fits, its cost does not matter
      m.costs[s] -= above;
    total[s] += m.base[s] - m.costs[s];
  }
}

void Knapsack::push(const double *total, double share) {
  const size_t k = forward_ ? position_ : position_ - 1;
  Member &m = members_[k];
  std::fill(m.least.begin(), m.least.end(), std::numeric_limits<double>::infinity());
  for (size_t s = 0; s < m.costs.size(); ++s) {
    m.costs[s] += share * total[s];
    m.least[size_t(m.level[s])] = std::min(m.least[size_t(m.level[s])], m.costs[s]);
  }
  if (forward_) {
    advance(m, before(k), before(k + 1));
    ++position_;
  } else {
    advance(m, after(k + 1), after(k));
    --position_;
  }
  if (forward_ ? position_ == members_.size() : position_ == 0) {
    const size_t end = forward_ ? members_.size() : 0;
    const double *head = before(end), *tail = after(end);
    least_ = kFlatForbidden;
    for (size_t l = 0; l < stride_; ++l)
      least_ = std::min(least_, head[l] + tail[l]);
  }
}

void Knapsack::addReduced(std::vector<double> &reduced, const std::vector<size_t> &first) {
  // The sums of the other direction are still those before the last pass.
  begin(!forward_);
  std::vector<double> none;
  for (size_t k = 0; k < members_.size(); ++k) {
    none.assign(members_[forward_ ? k : members_.size() - 1 - k].costs.size(), 0);
    push(none.data(), 0);
  }
  for (size_t k = 0; k < members_.size(); ++k) {
    const Member &m = members_[k];
    marginals(m, before(k), after(k + 1), marginal_);
    for (size_t s = 0; s < m.costs.size(); ++s) {
      const double above = marginal_[size_t(m.level[s])] + m.costs[s] - least_;
      reduced[first[size_t(m.variable)] + s] += std::min(std::max(above, 0.0), kFlatForbidden);
    }
  }
}
