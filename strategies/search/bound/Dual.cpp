//===- Dual.cpp - lower bounds by message passing and memory prices ---------------------------===//
//
// Reparametrisation: an edge (v, u) with matrix c has c(s, t) - message_v(s) - message_u(t), a node
// has its unary costs plus its messages. In a pass each node first pulls all it can out of the
// edges behind it (their least entry becomes 0 in every row), then pushes equal shares of its sum
// onto the edges ahead. At the end of a pass every edge was pulled by its later end, so all edges
// have the minimum 0 and the bound is the sum of the least kept node entries: valid whatever the
// messages were before.
//
//===----------------------------------------------------------------------------------------------===//
#include "strategies/search/bound/Dual.h"

#include "strategies/search/bound/SoftMinimum.h"
#include "strategies/search/problem/Clones.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

using namespace tessera::strategies;

namespace {
// Tuning. At the end of a line: what half and twice do to the cost (docs/adding-a-searcher.md).
// Steps that lowered the bound very much:
constexpr double kFallen = 0.2; // relative to the best bound; they are taken back; +20.0/+3.0 %
// Knapsacks:
constexpr size_t kMostKnapsacks = 6; // memory points, the dearest; same
constexpr double kCovered = 0.5;     // of all priced room, by those: with less each point is nearly continuous; same
// Counted work, steps:
constexpr double kEntryWork = 0.4; // per entry of a matrix: vector units take several at once
constexpr double kOptionWork = 4;  // per option at an end of an edge or in a piece
constexpr double kPointWork = 4;   // per memory point
constexpr double kSoftWork = 2.2;  // times a pass: one of soft minima

constexpr size_t kFewColumns = 96;  // of a matrix: more go through memory, where whole rows are read faster
constexpr double kMostMoved = 1e13; // what exceeds it excludes its option anyway; sums stay exact in doubles
} // namespace

namespace {

/// q[s] of kLanes columns times `Blocks`, which stay in registers, in two sets that take turns.
template <size_t Blocks>
[[gnu::always_inline]] inline void minPlusOf(const double *m, const double *p, size_t rows, size_t columns, double *q) {
  Lanes least[2][Blocks], next;
  for (size_t b = 0; b < Blocks; ++b)
    least[0][b] = least[1][b] = std::numeric_limits<double>::infinity() - Lanes{};
  auto lower = [&](Lanes *lanes, size_t t) {
    for (size_t b = 0; b < Blocks; ++b) {
      std::memcpy(&next, m + t * columns + b * kLanes, sizeof next);
      next -= p[t];
      lanes[b] = next < lanes[b] ? next : lanes[b];
    }
  };
  size_t t = 0;
  for (; t + 2 <= rows; t += 2) {
    lower(least[0], t);
    lower(least[1], t + 1);
  }
  if (t < rows)
    lower(least[0], t);
  for (size_t b = 0; b < Blocks; ++b) {
    next = least[1][b] < least[0][b] ? least[1][b] : least[0][b];
    std::memcpy(q + b * kLanes, &next, sizeof next);
  }
}

} // namespace

/// Few columns stay in registers; the last block of them may have some of those before it again. Of more columns four
/// rows at once load and store q a quarter as often.
TESSERA_CLONES void tessera::strategies::minPlus(const double *m, const double *p, size_t rows, size_t columns,
                                                 double *__restrict q) {
  if (columns >= kLanes && columns <= kFewColumns) {
    size_t s = 0;
    for (; s + 4 * kLanes <= columns; s += 4 * kLanes)
      minPlusOf<4>(m + s, p, rows, columns, q + s);
    for (; s + 2 * kLanes <= columns; s += 2 * kLanes)
      minPlusOf<2>(m + s, p, rows, columns, q + s);
    if (s + kLanes <= columns) {
      minPlusOf<1>(m + s, p, rows, columns, q + s);
      s += kLanes;
    }
    if (s < columns)
      minPlusOf<1>(m + columns - kLanes, p, rows, columns, q + columns - kLanes);
    return;
  }
  for (size_t s = 0; s < columns; ++s)
    q[s] = m[s] - p[0];
  size_t t = 1;
  for (; t + 4 <= rows; t += 4) {
    const double *a = m + t * columns, *b = a + columns, *c = b + columns, *d = c + columns;
    const double xa = p[t], xb = p[t + 1], xc = p[t + 2], xd = p[t + 3];
    for (size_t s = 0; s < columns; ++s) {
      const double ab = a[s] - xa < b[s] - xb ? a[s] - xa : b[s] - xb;
      const double cd = c[s] - xc < d[s] - xd ? c[s] - xc : d[s] - xd;
      const double y = ab < cd ? ab : cd;
      q[s] = y < q[s] ? y : q[s];
    }
  }
  for (; t < rows; ++t) {
    const double *row = m + t * columns;
    const double x = p[t];
    for (size_t s = 0; s < columns; ++s) {
      const double y = row[s] - x;
      q[s] = y < q[s] ? y : q[s];
    }
  }
}

Dual::Dual(const FlatProblem &flat)
    : flat_(flat), prices_(flat), bestPrice_(flat.room.size(), 0), unary_(flat.costs), message_(flat.places, 0),
      bestMessage_(message_), kept_(flat.costs.size(), 0), chosen_(size_t(flat.count()), 0),
      bestBound_(-std::numeric_limits<double>::infinity()) {
  size_t most = 1;
  for (int32_t v = 0; v < flat.count(); ++v)
    most = std::max(most, size_t(flat.size(v)));
  sum_.resize(2 * most);
  work_ = kEntryWork * double(flat.matrices.size()) + kOptionWork * double(flat.places + flat.extras.size()) +
          kPointWork * double(flat.room.size());
  softWork_ = kSoftWork * work_;
}

void Dual::dropKnapsacks() {
  knapsacks_.clear();
  inKnapsack_.clear();
  memberOf_.clear();
  knapsackWork_ = 0;
}

bool Dual::addKnapsacks() {
  restoreBest();
  std::vector<std::pair<double, int32_t>> order;
  double all = 0, covered = 0;
  for (size_t p = 0; p < prices().size(); ++p)
    if (prices()[p] > 0) {
      order.push_back({-prices()[p] * flat_.room[p], int32_t(p)});
      all -= order.back().first;
    }
  std::sort(order.begin(), order.end());
  order.resize(std::min(order.size(), kMostKnapsacks));
  for (auto [weight, p] : order)
    covered -= weight;
  if (covered < kCovered * all)
    return false;
  memberOf_.resize(size_t(flat_.count()));
  for (auto [weight, p] : order) {
    Knapsack knapsack(flat_, p, prices()[size_t(p)]);
    if (knapsack.count() < 2)
      continue;
    for (size_t k = 0; k < knapsack.count(); ++k)
      memberOf_[size_t(knapsack.variable(k))].push_back({int32_t(knapsacks_.size()), int32_t(k)});
    knapsackWork_ += knapsack.passWork();
    inKnapsack_.push_back(p);
    knapsacks_.push_back(std::move(knapsack));
  }
  stalled_ = 0;
  return !knapsacks_.empty();
}

void Dual::setPrices(std::vector<double> newPrices) {
  dropKnapsacks();
  prices_.set(std::move(newPrices));
  prices_.price(unary_);
}

/// Before messages change in place.
void Dual::keepBest() {
  if (std::exchange(atBest_, false))
    bestMessage_ = message_;
}

double Dual::pass() {
  // The messages of the best bound stay as they are: others are made beside them.
  if (atBest_)
    std::swap(message_, bestMessage_);
  const double *const before = atBest_ ? bestMessage_.data() : message_.data();
  double bound = flat_.constant;
  for (size_t p = 0; p < prices().size(); ++p)
    bound -= prices()[p] * flat_.room[p];
  for (size_t k = 0; k < knapsacks_.size(); ++k) {
    bound += prices()[size_t(inKnapsack_[k])] * flat_.room[size_t(inKnapsack_[k])];
    knapsacks_[k].begin(forward_);
  }
  const int32_t n = flat_.count();
  for (int32_t i = 0; i < n; ++i) {
    const int32_t v = forward_ ? i : n - 1 - i;
    const size_t size = size_t(flat_.size(v)), first = flat_.first[v];
    double *total = sum_.data(), *score = total + size;
    for (size_t s = 0; s < size; ++s)
      total[s] = score[s] = unary_[first + s];
    size_t ahead = 0, behind = 0;
    for (const FlatLink &link : flat_.links[v]) {
      const double *mine = before + link.mine;
      if ((link.other > v) == forward_) {
        ++ahead;
        for (size_t s = 0; s < size; ++s)
          score[s] += mine[s];
      } else {
        ++behind;
        mine = &message_[link.mine];
        minPlus(&flat_.matrices[link.from], &message_[link.theirs], size_t(flat_.size(link.other)), size,
                &message_[link.mine]);
        const double *row = &flat_.matrices[link.from + size_t(chosen_[link.other]) * size];
        for (size_t s = 0; s < size; ++s)
          score[s] += row[s];
      }
      for (size_t s = 0; s < size; ++s)
        total[s] += mine[s];
    }
    if (!knapsacks_.empty())
      for (auto [k, member] : memberOf_[size_t(v)]) {
        knapsacks_[size_t(k)].pull(total);
        const size_t last = knapsacks_[size_t(k)].count() - 1;
        ahead += size_t(member) != (forward_ ? last : 0);
        behind += size_t(member) != (forward_ ? 0 : last);
      }
    chosen_[v] = int32_t(std::min_element(score, score + size) - score);
    // Pushing all of it ahead when there is more ahead than behind keeps passes monotone.
    const double share = ahead ? 1.0 / double(std::max(ahead, behind)) : 0;
    const double rest = ahead ? 1 - double(ahead) * share : 1;
    double least = std::numeric_limits<double>::infinity();
    for (size_t s = 0; s < size; ++s) {
      kept_[first + s] = rest * total[s];
      least = std::min(least, kept_[first + s]);
    }
    bound += least;
    if (!knapsacks_.empty())
      for (auto [k, member] : memberOf_[size_t(v)]) {
        const size_t last = forward_ ? knapsacks_[size_t(k)].count() - 1 : 0;
        knapsacks_[size_t(k)].push(total, size_t(member) != last ? share : 0);
      }
    if (ahead)
      for (const FlatLink &link : flat_.links[v])
        if ((link.other > v) == forward_)
#pragma GCC ivdep
          for (size_t s = 0; s < size; ++s)
            message_[link.mine + s] = before[link.mine + s] - share * total[s];
  }
  for (const Knapsack &knapsack : knapsacks_)
    bound += knapsack.value();
  forward_ = !forward_;
  last_ = bound;
  atBest_ = bound > bestBound_;
  if (atBest_) {
    if (bound > bestBound_ + kRelativeRounding * std::abs(bestBound_)) {
      stalled_ = 0;
      prices_.rose();
    }
    bestBound_ = bound;
    bestPrice_ = prices();
  }
  prices_.stalled(++stalled_);
  return bound;
}

/// The same sweep as pass(). Where minima choose an option, each option has a weight here. The smooth bound is concave,
/// and its derivative by a price is the memory that the weights expect, less the room.
void Dual::softPass(double temperature, std::vector<double> &excess) {
  keepBest();
  excess.assign(flat_.room.size() + 1, 0); // differences, first
  const int32_t n = flat_.count();
  for (int32_t i = 0; i < n; ++i) {
    const int32_t v = forward_ ? i : n - 1 - i;
    const size_t size = size_t(flat_.size(v)), first = flat_.first[size_t(v)];
    double *total = sum_.data(), *weight = total + size;
    std::copy_n(&unary_[first], size, total);
    size_t ahead = 0, behind = 0;
    for (const FlatLink &link : flat_.links[size_t(v)]) {
      double *mine = &message_[link.mine];
      if ((link.other > v) == forward_) {
        ++ahead;
      } else {
        ++behind;
        softMinPlus(&flat_.matrices[link.from], &message_[link.theirs], size_t(flat_.size(link.other)), size,
                    temperature, mine, weight);
      }
      for (size_t s = 0; s < size; ++s)
        total[s] += mine[s];
    }
    // Each of the chains that meet here has an equal part of the sum.
    const double share = 1.0 / double(std::max({ahead, behind, size_t(1)}));
    const double least = *std::min_element(total, total + size);
    double all = 0;
    for (size_t s = 0; s < size; ++s)
      all += weight[s] = powerOfTwo((least - total[s]) * share / temperature);
    for (size_t k = flat_.firstPiece[size_t(v)]; k < flat_.firstPiece[size_t(v) + 1]; ++k) {
      const FlatPiece &piece = flat_.pieces[k];
      double expected = 0;
      for (size_t s = 0; s < size; ++s)
        expected += weight[s] * flat_.extras[piece.extra + s];
      excess[size_t(piece.from)] += expected / all;
      excess[size_t(piece.to)] -= expected / all;
    }
    if (ahead)
      for (const FlatLink &link : flat_.links[size_t(v)])
        if ((link.other > v) == forward_)
          for (size_t s = 0; s < size; ++s)
            message_[link.mine + s] -= share * total[s];
  }
  excess.pop_back();
  double sum = 0;
  for (size_t p = 0; p < excess.size(); ++p) {
    sum += excess[p];
    excess[p] = sum - flat_.room[p];
  }
  forward_ = !forward_;
}

void Dual::restoreBest() {
  if (!knapsacks_.empty())
    return; // no pass lowered it
  prices_.set(bestPrice_);
  if (!std::exchange(atBest_, true))
    std::swap(message_, bestMessage_);
  prices_.price(unary_);
}

void Dual::goTo(const Position &position) {
  keepBest();
  message_ = position.messages;
  setPrices(position.prices);
}

void Dual::stepPrices(double target) {
  if (flat_.room.empty() || !knapsacks_.empty())
    return;
  if (last_ < bestBound_ - kFallen * std::abs(bestBound_)) {
    restoreBest();
    prices_.retreat();
    return;
  }
  if (prices_.step(chosen_, last_, bestBound_, target))
    prices_.price(unary_);
}

void Dual::moveInto(Problem &problem) const {
  auto amount = [&](double x) { return Cost(std::floor(std::clamp(x, -kMostMoved, kMostMoved))); };
  auto move = [](Cost &to, Cost by) {
    if (to < kForbidden)
      to = std::min(to + by, kForbidden);
  };
  size_t place = 0;
  std::vector<Cost> atA, atB;
  for (Edge &edge : problem.edges) {
    if (!edge.alive)
      continue;
    Variable &a = problem.variables[size_t(edge.a)], &b = problem.variables[size_t(edge.b)];
    atA.clear();
    atB.clear();
    for (size_t s = 0; s < a.size(); ++s) {
      atA.push_back(amount(message_[place++]));
      move(a.costs[s], atA.back());
    }
    for (size_t t = 0; t < b.size(); ++t) {
      atB.push_back(amount(message_[place++]));
      move(b.costs[t], atB.back());
    }
    for (size_t s = 0; s < a.size(); ++s)
      for (size_t t = 0; t < b.size(); ++t)
        move(edge.costs[s * b.size() + t], -(atA[s] + atB[t]));
    edge.normal = false;
  }
  for (int32_t v : flat_.variables) {
    std::vector<Cost> &costs = problem.variables[size_t(v)].costs;
    const Cost least = *std::min_element(costs.begin(), costs.end());
    if (least >= kForbidden)
      continue;
    for (Cost &cost : costs)
      if (cost < kForbidden)
        cost -= least;
    problem.constant = addCosts(problem.constant, least);
  }
}

std::vector<double> Dual::reducedCosts() const {
  // Rows of an edge at its later end have the minimum 0; at the other end the minimum may be
  // positive.
  const bool lastForward = !forward_;
  std::vector<double> reduced(kept_), row;
  for (int32_t v = 0; v < flat_.count(); ++v) {
    const size_t size = size_t(flat_.size(v)), first = flat_.first[v];
    double least = *std::min_element(&kept_[first], &kept_[first] + size);
    for (size_t s = 0; s < size; ++s)
      reduced[first + s] -= least;
    row.resize(size);
    for (const FlatLink &link : flat_.links[v]) {
      if ((link.other > v) != lastForward)
        continue;
      minPlus(&flat_.matrices[link.from], &message_[link.theirs], size_t(flat_.size(link.other)), size, row.data());
      for (size_t s = 0; s < size; ++s)
        reduced[first + s] += row[s] - message_[link.mine + s];
    }
  }
  for (Knapsack knapsack : knapsacks_)
    knapsack.addReduced(reduced, flat_.first);
  return reduced;
}
