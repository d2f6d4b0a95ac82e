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

#include <algorithm>
#include <cmath>

using namespace tessera::strategies;

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&               \
    !defined(__SANITIZE_THREAD__)
#define TESSERA_CLONES __attribute__((target_clones("default", "arch=x86-64-v3")))
#else
#define TESSERA_CLONES
#endif

namespace {
constexpr size_t kMostKnapsacks = 6;
constexpr int kPatience = 12; // passes without a better bound before the price steps shorten
} // namespace

TESSERA_CLONES void tessera::strategies::minPlus(const double *m, const double *p, size_t rows, size_t columns,
                                                 double *q) {
  for (size_t s = 0; s < columns; ++s)
    q[s] = m[s] - p[0];
  for (size_t t = 1; t < rows; ++t) {
    const double *row = m + t * columns;
    const double x = p[t];
    for (size_t s = 0; s < columns; ++s) {
      double y = row[s] - x;
      q[s] = y < q[s] ? y : q[s];
    }
  }
}

Dual::Dual(const FlatProblem &core)
    : core(core), price(core.room.size(), 0), bestPrice(price), direction(core.room.size(), 0),
      cumulated(core.room.size() + 1, 0), unary(core.costs), message(core.places, 0), bestMessage(message),
      kept(core.costs.size(), 0), chosen(size_t(core.count()), 0), bestBound(-std::numeric_limits<double>::infinity()) {
  size_t most = 1;
  for (int32_t v = 0; v < core.count(); ++v)
    most = std::max(most, size_t(core.size(v)));
  sum.resize(2 * most);
  work =
      0.4 * double(core.matrices.size()) + 4 * double(core.places + core.extras.size()) + 4 * double(core.room.size());
}

void Dual::applyPrices() {
  for (size_t p = 0; p < price.size(); ++p)
    cumulated[p + 1] = cumulated[p] + price[p];
  unary = core.costs;
  for (int32_t v = 0; v < core.count(); ++v)
    for (size_t k = core.firstPiece[v]; k < core.firstPiece[v + 1]; ++k) {
      const FlatPiece &piece = core.pieces[k];
      double rate = cumulated[piece.to] - cumulated[piece.from];
      if (rate > 0)
        for (int32_t s = 0, n = core.size(v); s < n; ++s)
          unary[core.first[v] + size_t(s)] += rate * core.extras[piece.extra + size_t(s)];
    }
}

void Dual::dropKnapsacks() {
  knapsacks.clear();
  inKnapsack.clear();
  memberOf.clear();
  knapsackWork = 0;
}

bool Dual::addKnapsacks() {
  restoreBest();
  std::vector<std::pair<double, int32_t>> order;
  double all = 0, covered = 0;
  for (size_t p = 0; p < price.size(); ++p)
    if (price[p] > 0) {
      order.push_back({-price[p] * core.room[p], int32_t(p)});
      all -= order.back().first;
    }
  std::sort(order.begin(), order.end());
  order.resize(std::min(order.size(), kMostKnapsacks));
  for (auto [weight, p] : order)
    covered -= weight;
  if (covered < 0.5 * all)
    return false; // many points: each of them is nearly continuous
  memberOf.resize(size_t(core.count()));
  for (auto [weight, p] : order) {
    Knapsack knapsack(core, p, price[p]);
    if (knapsack.count() < 2)
      continue;
    for (size_t k = 0; k < knapsack.count(); ++k)
      memberOf[size_t(knapsack.variable(k))].push_back({int32_t(knapsacks.size()), int32_t(k)});
    knapsackWork += knapsack.passWork();
    inKnapsack.push_back(p);
    knapsacks.push_back(std::move(knapsack));
  }
  stalled = 0;
  return !knapsacks.empty();
}

void Dual::setPrices(std::vector<double> newPrices) {
  dropKnapsacks();
  price = std::move(newPrices);
  applyPrices();
}

double Dual::pass() {
  double bound = core.constant;
  for (size_t p = 0; p < price.size(); ++p)
    bound -= price[p] * core.room[p];
  for (size_t k = 0; k < knapsacks.size(); ++k) {
    bound += price[size_t(inKnapsack[k])] * core.room[size_t(inKnapsack[k])];
    knapsacks[k].begin(forward);
  }
  const int32_t n = core.count();
  for (int32_t i = 0; i < n; ++i) {
    const int32_t v = forward ? i : n - 1 - i;
    const size_t size = size_t(core.size(v)), first = core.first[v];
    double *total = sum.data(), *score = total + size;
    for (size_t s = 0; s < size; ++s)
      total[s] = score[s] = unary[first + s];
    size_t ahead = 0, behind = 0;
    for (const FlatLink &link : core.links[v]) {
      double *mine = &message[link.mine];
      if ((link.other > v) == forward) {
        ++ahead;
        for (size_t s = 0; s < size; ++s)
          score[s] += mine[s];
      } else {
        ++behind;
        minPlus(&core.matrices[link.from], &message[link.theirs], size_t(core.size(link.other)), size, mine);
        const double *row = &core.matrices[link.from + size_t(chosen[link.other]) * size];
        for (size_t s = 0; s < size; ++s)
          score[s] += row[s];
      }
      for (size_t s = 0; s < size; ++s)
        total[s] += mine[s];
    }
    if (!knapsacks.empty())
      for (auto [k, member] : memberOf[size_t(v)]) {
        knapsacks[size_t(k)].pull(total);
        const size_t last = knapsacks[size_t(k)].count() - 1;
        ahead += size_t(member) != (forward ? last : 0);
        behind += size_t(member) != (forward ? 0 : last);
      }
    chosen[v] = int32_t(std::min_element(score, score + size) - score);
    // Pushing all of it ahead when there is more ahead than behind keeps passes monotone.
    const double share = ahead ? 1.0 / double(std::max(ahead, behind)) : 0;
    const double rest = ahead ? 1 - double(ahead) * share : 1;
    double least = std::numeric_limits<double>::infinity();
    for (size_t s = 0; s < size; ++s) {
      kept[first + s] = rest * total[s];
      least = std::min(least, kept[first + s]);
    }
    bound += least;
    if (!knapsacks.empty())
      for (auto [k, member] : memberOf[size_t(v)]) {
        const size_t last = forward ? knapsacks[size_t(k)].count() - 1 : 0;
        knapsacks[size_t(k)].push(total, size_t(member) != last ? share : 0);
      }
    if (ahead)
      for (const FlatLink &link : core.links[v])
        if ((link.other > v) == forward)
          for (size_t s = 0; s < size; ++s)
            message[link.mine + s] -= share * total[s];
  }
  for (const Knapsack &knapsack : knapsacks)
    bound += knapsack.value();
  forward = !forward;
  last = bound;
  if (bound > bestBound) {
    if (bound > bestBound + 1e-9 * std::abs(bestBound)) {
      stalled = 0;
      stepFactor = std::min(1.05 * stepFactor, 1.5);
    }
    bestBound = bound;
    bestPrice = price;
    bestMessage = message;
  }
  if (++stalled % kPatience == 0)
    stepFactor = std::max(0.75 * stepFactor, 1e-6);
  return bound;
}

void Dual::restoreBest() {
  if (!knapsacks.empty())
    return; // no pass lowered it
  price = bestPrice;
  message = bestMessage;
  applyPrices();
}

void Dual::stepPrices(double target) {
  if (price.empty() || !knapsacks.empty())
    return;
  if (last < bestBound - 0.2 * std::abs(bestBound)) {
    restoreBest();
    stepFactor *= 0.6;
    std::fill(direction.begin(), direction.end(), 0.0);
    return;
  }
  // Deflected subgradient with Polyak's step; it shortens while the bound does not rise.
  std::vector<double> load = core.load(chosen);
  double norm = 0;
  for (size_t p = 0; p < price.size(); ++p) {
    direction[p] = 0.85 * direction[p] + 0.15 * (load[p] - core.room[p]);
    if (price[p] <= 0 && direction[p] < 0)
      continue;
    norm += direction[p] * direction[p];
  }
  if (norm <= 0)
    return;
  // Polyak's step, with two guards, as the answers are not exact minima: the target is never far above the
  // best bound, and a step that overshot does not make the next one longer.
  const double reach =
      std::min(std::max(target - bestBound, 1e-7 * std::abs(bestBound)), 0.02 * std::abs(bestBound) + 1);
  const double step = stepFactor * std::min(reach + bestBound - last, 3 * reach) / norm;
  for (size_t p = 0; p < price.size(); ++p)
    price[p] = std::max(0.0, price[p] + step * direction[p]);
  applyPrices();
}

void Dual::moveInto(Problem &problem) const {
  // What exceeds this excludes its option anyway; sums stay exact in doubles.
  const double most = 1e13;
  auto amount = [&](double x) { return Cost(std::floor(std::clamp(x, -most, most))); };
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
      atA.push_back(amount(message[place++]));
      move(a.costs[s], atA.back());
    }
    for (size_t t = 0; t < b.size(); ++t) {
      atB.push_back(amount(message[place++]));
      move(b.costs[t], atB.back());
    }
    for (size_t s = 0; s < a.size(); ++s)
      for (size_t t = 0; t < b.size(); ++t)
        move(edge.costs[s * b.size() + t], -(atA[s] + atB[t]));
    edge.normal = false;
  }
  for (int32_t v : core.variables) {
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
  const bool lastForward = !forward;
  std::vector<double> reduced(kept), row;
  for (int32_t v = 0; v < core.count(); ++v) {
    const size_t size = size_t(core.size(v)), first = core.first[v];
    double least = *std::min_element(&kept[first], &kept[first] + size);
    for (size_t s = 0; s < size; ++s)
      reduced[first + s] -= least;
    row.resize(size);
    for (const FlatLink &link : core.links[v]) {
      if ((link.other > v) != lastForward)
        continue;
      minPlus(&core.matrices[link.from], &message[link.theirs], size_t(core.size(link.other)), size, row.data());
      for (size_t s = 0; s < size; ++s)
        reduced[first + s] += row[s] - message[link.mine + s];
    }
  }
  for (Knapsack knapsack : knapsacks)
    knapsack.addReduced(reduced, core.first);
  return reduced;
}
