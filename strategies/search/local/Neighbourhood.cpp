//===- Neighbourhood.cpp - large neighbourhood search with exact subproblems ------------------===//
//
// Invariant between steps: `cost` and `load` are those of x. Costs are integers, so a subproblem
// whose bound exceeds the present cost minus one holds nothing better.
//
//===----------------------------------------------------------------------------------------------===//
#include "strategies/search/local/Neighbourhood.h"

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace tessera::strategies;

namespace {
constexpr int kRounds = 12;          // price steps per subproblem
constexpr double kBetter = 1 - 1e-3; // an improvement is at least one unit
constexpr size_t kMostFromHub = 6;   // neighbours taken from a variable of many
} // namespace

Neighbourhood::Neighbourhood(const FlatProblem &core, Answer start, const std::vector<double> &prices, uint64_t seed)
    : core(core), parts(core), random(seed), bestPrice(std::numeric_limits<double>::infinity()), prices(prices),
      weights(core.room.size(), 0), place(size_t(core.count()), -1), fixedLoad(core.room.size(), 0),
      subLoad(core.room.size() + 1, 0), rates(core.room.size(), 0), cumulated(core.room.size() + 1, 0) {
  std::fill_n(gained, kKinds, 1e-3);
  std::fill_n(spent, kKinds, 1e6);
  restart(std::move(start));
}

void Neighbourhood::setPrices(const std::vector<double> &newPrices) {
  prices = newPrices;
  for (size_t p = 0; p < weights.size(); ++p)
    weights[p] = std::max(weights[p], prices[p]);
}

void Neighbourhood::restart(Answer answer) {
  x = std::move(answer);
  cost = core.price(x);
  load = core.load(x);
  weights = prices;
  noteIfBest();
}

bool Neighbourhood::merge(const Answer &other, double &work) {
  if (!fits())
    return false;
  const Answer before = bestAnswer;
  std::vector<int32_t> members;
  Answer from, to;
  for (int32_t v = 0; v < core.count(); ++v)
    if (other[v] != before[v]) {
      members.push_back(v);
      from.push_back(before[v]);
      to.push_back(other[v]);
    }
  const double change = parts.choose(members, from, to, before, core.load(before), prices, prices, 0);
  work += parts.takeWork() + double(core.count());
  if (change > -kBetter)
    return false;
  Answer merged = before;
  for (size_t i = 0; i < members.size(); ++i)
    merged[members[i]] = to[i];
  restart(std::move(merged));
  return true;
}

void Neighbourhood::noteIfBest() {
  if (cost < bestPrice && cost < kFlatForbidden && core.excess(load) <= 0) {
    bestPrice = cost;
    bestAnswer = x;
  }
}

void Neighbourhood::chooseBall(size_t target) { growBall(int32_t(draw(size_t(core.count()))), target); }

void Neighbourhood::growBall(int32_t start, size_t target) {
  std::vector<int32_t> &list = sub.members;
  std::vector<int32_t> frontier{start};
  target += list.size();
  while (list.size() < target && !frontier.empty()) {
    size_t k = draw(frontier.size());
    int32_t v = frontier[k];
    frontier[k] = frontier.back();
    frontier.pop_back();
    if (place[v] >= 0)
      continue;
    place[v] = int32_t(list.size());
    list.push_back(v);
    const std::vector<FlatLink> &links = core.links[v];
    for (size_t i = 0, n = std::min(links.size(), kMostFromHub); i < n; ++i)
      frontier.push_back(links[links.size() <= kMostFromHub ? i : draw(links.size())].other);
  }
}

/// What follows one another in the program, half of the time without what hangs together with very much, and half of
/// the time a forest beside it.
void Neighbourhood::chooseWindow(size_t target) {
  const size_t n = size_t(core.count()), start = draw(n - target + 1);
  const bool all = draw(2), forest = draw(2);
  for (size_t v = start; v < start + target; ++v)
    if (all || core.links[v].size() <= kMostFromHub) {
      place[v] = int32_t(sub.members.size());
      sub.members.push_back(int32_t(v));
    }
  if (forest || sub.members.empty())
    chooseForest(sub.members.size() + 2 + draw(n));
}

/// Variables in random order, each taken unless it closes a cycle.
void Neighbourhood::chooseForest(size_t target) {
  std::vector<int32_t> &list = sub.members;
  std::vector<int32_t> tree(size_t(core.count()));
  std::iota(tree.begin(), tree.end(), 0);
  for (int32_t v : list)
    tree[v] = list[0]; // what is there already counts as one piece
  auto root = [&](int32_t v) {
    while (tree[v] != v)
      v = tree[v] = tree[tree[v]];
    return v;
  };
  std::vector<int32_t> seen;
  // Growing from a random start along a random order keeps the pieces large.
  std::vector<int32_t> order(tree);
  std::shuffle(order.begin(), order.end(), random);
  for (int32_t v : order) {
    if (list.size() >= target)
      break;
    if (place[v] >= 0)
      continue;
    seen.clear();
    bool cycle = false;
    for (const FlatLink &link : core.links[v])
      if (place[link.other] >= 0) {
        int32_t r = root(link.other);
        if (std::find(seen.begin(), seen.end(), r) != seen.end()) {
          cycle = true;
          break;
        }
        seen.push_back(r);
      }
    if (cycle)
      continue;
    place[v] = int32_t(list.size());
    list.push_back(v);
    for (int32_t r : seen)
      tree[r] = v;
  }
}

/// A random memory point, preferably one without slack.
int32_t Neighbourhood::tightPoint() {
  size_t point = draw(core.room.size());
  for (int i = 0; i < 8; ++i) {
    size_t p = draw(core.room.size());
    if (load[p] - core.room[p] > load[point] - core.room[point])
      point = p;
  }
  return int32_t(point);
}

/// Small balls around some variables that use memory at one memory point: memory moves between them.
void Neighbourhood::chooseBallsAt(size_t target) {
  choosePoint(2 + draw(6));
  const std::vector<int32_t> starts = sub.members;
  for (int32_t v : starts)
    place[v] = -1;
  sub.members.clear();
  for (int32_t v : starts)
    growBall(v, 1 + target / starts.size());
}

/// Variables that can change the memory at one memory point.
void Neighbourhood::choosePoint(size_t target) {
  if (core.room.empty())
    return chooseBall(target);
  const int32_t point = tightPoint();
  const int32_t n = core.count(), start = int32_t(draw(size_t(n)));
  std::vector<int32_t> able;
  for (int32_t i = 0; i < n && able.size() < 4 * target; ++i) {
    int32_t v = (start + i) % n;
    for (size_t k = core.firstPiece[v]; k < core.firstPiece[v + 1]; ++k)
      if (core.pieces[k].from <= point && point < core.pieces[k].to) {
        able.push_back(v);
        break;
      }
  }
  std::shuffle(able.begin(), able.end(), random);
  for (int32_t v : able)
    if (sub.members.size() < target && place[v] < 0) {
      place[v] = int32_t(sub.members.size());
      sub.members.push_back(v);
    }
}

/// The subproblem of the members given the rest.
void Neighbourhood::build() {
  const size_t n = sub.members.size();
  sub.own.resize(n);
  sub.edges.clear();
  sub.from = int32_t(core.room.size());
  sub.to = 0;
  for (size_t i = 0; i < n; ++i) {
    const int32_t v = sub.members[i];
    const size_t size = size_t(core.size(v));
    sub.own[i].assign(&core.costs[core.first[v]], &core.costs[core.first[v]] + size);
    for (const FlatLink &link : core.links[v]) {
      int32_t j = place[link.other];
      if (j > int32_t(i)) {
        sub.edges.push_back({int32_t(i), j, &core.matrices[link.to], &core.matrices[link.from]});
      } else if (j < 0) {
        const double *row = &core.matrices[link.from + size_t(x[link.other]) * size];
        for (size_t s = 0; s < size; ++s)
          sub.own[i][s] += row[s];
      }
    }
    for (size_t k = core.firstPiece[v]; k < core.firstPiece[v + 1]; ++k) {
      sub.from = std::min(sub.from, core.pieces[k].from);
      sub.to = std::max(sub.to, core.pieces[k].to);
    }
  }
  sub.from = std::min(sub.from, sub.to);
  if (guidance > 0) {
    for (int32_t p = sub.from; p < sub.to; ++p)
      cumulated[p + 1] = cumulated[p] + guidance * prices[p];
    for (size_t i = 0; i < n; ++i)
      for (size_t k = core.firstPiece[sub.members[i]]; k < core.firstPiece[sub.members[i] + 1]; ++k) {
        const FlatPiece &piece = core.pieces[k];
        double rate = cumulated[piece.to] - cumulated[piece.from];
        for (size_t s = 0; s < sub.own[i].size() && rate > 0; ++s)
          sub.own[i][s] += rate * core.extras[piece.extra + s];
      }
  }
  sub.work = 4 * double(sub.to - sub.from);
  for (size_t i = 0; i < n; ++i) {
    const int32_t v = sub.members[i];
    sub.work += 2 * double(core.firstPiece[v + 1] - core.firstPiece[v]) * double(core.size(v)) +
                40 * double(core.links[v].size());
    stepWork += double(core.links[v].size()) * (20 + double(core.size(v)));
  }
}

double Neighbourhood::priceOf(const Answer &y) const {
  double total = 0;
  for (size_t i = 0; i < y.size(); ++i)
    total += sub.own[i][size_t(y[i])];
  for (const EliminationEdge &e : sub.edges)
    total += e.rowsA[size_t(y[e.a]) * size_t(core.size(sub.members[e.b])) + size_t(y[e.b])];
  return total;
}

/// The members' memory at points sub.from <= p < sub.to.
void Neighbourhood::loadOf(const Answer &y, std::vector<double> &out) const {
  std::fill(out.begin() + sub.from, out.begin() + sub.to + 1, 0.0);
  for (size_t i = 0; i < y.size(); ++i) {
    const int32_t v = sub.members[i];
    for (size_t k = core.firstPiece[v]; k < core.firstPiece[v + 1]; ++k) {
      double e = core.extras[core.pieces[k].extra + size_t(y[i])];
      out[core.pieces[k].from] += e;
      out[core.pieces[k].to] -= e;
    }
  }
  for (int32_t p = sub.from + 1; p < sub.to; ++p)
    out[p] += out[p - 1];
}

/// Least sum of costs and priced memory over the members.
double Neighbourhood::solve(EliminationPlan &plan, const std::vector<double> &rates, Answer &y) {
  const size_t n = sub.members.size();
  std::vector<std::vector<double>> priced(sub.own);
  std::vector<const double *> unary(n);
  for (int32_t p = sub.from; p < sub.to; ++p)
    cumulated[p + 1] = cumulated[p] + rates[p];
  for (size_t i = 0; i < n; ++i) {
    const int32_t v = sub.members[i];
    for (size_t k = core.firstPiece[v]; k < core.firstPiece[v + 1]; ++k) {
      const FlatPiece &piece = core.pieces[k];
      double rate = cumulated[piece.to] - cumulated[piece.from];
      if (rate > 0)
        for (size_t s = 0; s < priced[i].size(); ++s)
          priced[i][s] += rate * core.extras[piece.extra + s];
    }
    unary[i] = priced[i].data();
  }
  stepWork += sub.work + plan.entries();
  return plan.run(unary, y);
}

void Neighbourhood::accept(const Answer &y, double change) {
  for (size_t i = 0; i < y.size(); ++i)
    x[sub.members[i]] = y[i];
  for (int32_t p = sub.from; p < sub.to; ++p)
    load[p] = fixedLoad[p] + subLoad[p];
  // Sums that contain forbidden costs have lost their small digits, and guidance is no cost.
  cost = guidance > 0 || cost >= kFlatForbidden ? core.price(x) : cost + change;
}

bool Neighbourhood::improveFitting(EliminationPlan &plan) {
  Answer y, found;
  Answer old(sub.members.size());
  for (size_t i = 0; i < old.size(); ++i)
    old[i] = x[sub.members[i]];
  const double before = priceOf(old);
  double least = before;
  std::copy(prices.begin() + sub.from, prices.begin() + sub.to, rates.begin() + sub.from);
  double factor = 1;
  for (int round = 0; round < kRounds; ++round) {
    double bound = solve(plan, rates, y);
    for (int32_t p = sub.from; p < sub.to; ++p)
      bound -= rates[p] * (core.room[p] - fixedLoad[p]);
    if (bound > least - kBetter)
      break; // proven: nothing better here
    loadOf(y, subLoad);
    double norm = 0;
    bool fitting = true;
    for (int32_t p = sub.from; p < sub.to; ++p) {
      double over = subLoad[p] + fixedLoad[p] - core.room[p];
      fitting &= over <= 0;
      if (over > 0 || rates[p] > 0)
        norm += over * over;
    }
    if (fitting) {
      double price = priceOf(y);
      if (price < least - kBetter) {
        least = price;
        found = y;
      }
    } else {
      const double change = parts.choose(sub.members, old, y, x, load, rates, prices, guidance);
      stepWork += parts.takeWork();
      if (before + change < least - kBetter) {
        least = before + change;
        found = y;
      }
    }
    if (norm <= 0)
      break;
    double step = factor * (least - bound) / norm;
    factor *= 0.9;
    for (int32_t p = sub.from; p < sub.to; ++p)
      rates[p] = std::max(0.0, rates[p] + step * (subLoad[p] + fixedLoad[p] - core.room[p]));
  }
  if (found.empty())
    return false;
  loadOf(found, subLoad);
  accept(found, least - before);
  return true;
}

bool Neighbourhood::improveExceeding(EliminationPlan &plan) {
  Answer y;
  Answer old(sub.members.size());
  for (size_t i = 0; i < old.size(); ++i)
    old[i] = x[sub.members[i]];
  auto merit = [&](double price) { // with the members' memory in subLoad
    for (int32_t p = sub.from; p < sub.to; ++p)
      price += weights[p] * std::max(0.0, subLoad[p] + fixedLoad[p] - core.room[p]);
    return price;
  };
  loadOf(old, subLoad);
  const double before = priceOf(old), meritBefore = merit(before);
  for (int32_t p = sub.from; p < sub.to; ++p)
    rates[p] = load[p] > core.room[p] ? weights[p] : prices[p];
  for (int round = 0; round < 4; ++round) {
    solve(plan, rates, y);
    loadOf(y, subLoad);
    double price = priceOf(y);
    if (merit(price) < meritBefore - 1e-9 * std::abs(meritBefore)) {
      accept(y, price - before);
      return true;
    }
    bool changed = false;
    for (int32_t p = sub.from; p < sub.to; ++p)
      if (subLoad[p] + fixedLoad[p] > core.room[p] && rates[p] < weights[p]) {
        rates[p] = weights[p];
        changed = true;
      }
    if (!changed)
      break;
  }
  return false;
}

bool Neighbourhood::step(double &work) {
  stepWork = 2e4;
  const double costBefore = cost;
  const bool exceeding = core.excess(load) > 0;
  // The kind that gains most per work, or, in every fourth step, the one that had the least work.
  int kind = 0;
  // Stretches are dear: worth it for cost, not for the many small steps into the memory.
  for (int k = 1; k < (exceeding ? kWindow : kKinds); ++k)
    if (draws % 4 == 0 ? used[k] < used[kind] : gained[k] * spent[kind] > gained[kind] * spent[k])
      kind = k;
  ++draws;

  sub.members.clear();
  const size_t n = size_t(core.count());
  if (kind == 0)
    chooseBall(std::min(n, 2 + draw(2 * ballSize)));
  else if (kind == 1)
    chooseForest(2 + draw(n));
  else if (kind == 2)
    choosePoint(std::min(n, 2 + draw(2 * ballSize)));
  else if (kind == 3)
    chooseBallsAt(2 + draw(6 * ballSize));
  else
    chooseWindow(std::min(n, size_t(20 * std::exp2(double(draw(600)) / 100))));
  EliminationLimits limits{double(1 << 14), double(1 << 17)};
  if (kind == 1)
    limits = {double(1 << 22), double(1 << 24)};
  if (kind == kWindow)
    limits = {double(1 << 17), double(1 << 20)};
  while (true) {
    build();
    std::vector<int32_t> sizes;
    for (int32_t v : sub.members)
      sizes.push_back(core.size(v));
    EliminationPlan plan(sizes, sub.edges, limits);
    if (!plan.fits() && sub.members.size() > 1) {
      size_t keep = sub.members.size() * 2 / 3;
      for (size_t i = keep; i < sub.members.size(); ++i)
        place[sub.members[i]] = -1;
      sub.members.resize(keep);
      continue;
    }
    if (!plan.fits()) {
      limits = {1e9, 1e9};
      continue;
    }
    Answer old(sub.members.size());
    for (size_t i = 0; i < old.size(); ++i)
      old[i] = x[sub.members[i]];
    loadOf(old, subLoad);
    for (int32_t p = sub.from; p < sub.to; ++p)
      fixedLoad[p] = load[p] - subLoad[p];
    if (exceeding && guidance > 0) { // weights take its part
      guidance = 0;
      build();
    }
    bool better = exceeding ? improveExceeding(plan) : improveFitting(plan);
    for (int32_t v : sub.members)
      place[v] = -1;
    work += stepWork;
    used[kind] += stepWork;
    spent[kind] = 0.98 * spent[kind] + stepWork;
    // While memory is exceeded the cost may rise: every step forward counts the same.
    gained[kind] = 0.98 * gained[kind] + (!better     ? 0
                                          : exceeding ? 1e-4
                                                      : std::abs(costBefore - cost) / (std::abs(cost) + 1));
    if (better) {
      failures = 0;
      noteIfBest();
    } else if (++failures % 32 == 0 && exceeding) {
      for (size_t p = 0; p < weights.size(); ++p)
        if (load[p] > core.room[p])
          weights[p] = 1.5 * weights[p] + std::max(prices[p], 1e-3 * std::abs(cost) / std::max(1.0, core.room[p]));
    }
    return better;
  }
}
