//===- ParetoElimination.cpp - exact minimisation under memory by elimination -------------------===//
//
// At a point that is closed the load is set to the room: the bound no longer counts the memory that stayed
// free as a gain, and all labels become alike there.
//
//===----------------------------------------------------------------------------------------------===//
#include "strategies/search/bound/ParetoElimination.h"

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace tessera::strategies;

namespace {
constexpr size_t kMostPoints = 12;     // of memory that a label carries
constexpr double kMostTable = 1 << 22; // rows of one bucket, times the variable's options
constexpr double kMostTotal = 1 << 24; // of all
constexpr int kPriceRounds = 25;
constexpr size_t kMostLabels = size_t(1) << 21; // of one bucket
constexpr double kPollSteps = 2e6;
} // namespace

ParetoElimination::ParetoElimination(const FlatProblem &core, const Dual &dual, double limit,
                                     std::function<bool()> stop)
    : core(core), dual(dual), limit(limit), points(core.room.size()), prices(dual.prices()), stop(std::move(stop)) {}

bool ParetoElimination::spend(double steps) {
  done += steps;
  if (done > polled + kPollSteps) {
    polled = done;
    stopped = stopped || stop();
  }
  return !stopped && done < maxDone;
}

void ParetoElimination::addPrices() {
  for (size_t v = 0; v < costs.size(); ++v)
    for (size_t s = 0; s < costs[v].size(); ++s)
      withPrices[v][s] = priced(costs[v][s], &loads[v][s * points]);
}

void ParetoElimination::toAnswer(const std::vector<int32_t> &positions, Answer &answer) const {
  answer.resize(positions.size());
  for (size_t v = 0; v < positions.size(); ++v)
    answer[v] = options[v][size_t(positions[v])];
}

bool ParetoElimination::plan() {
  const int32_t n = core.count();
  const std::vector<double> reduced = dual.reducedCosts();
  const double slack = limit - 1 - dual.bound() + 1e-9 * std::abs(limit) + 1e-3;
  std::vector<int32_t> sizes(size_t(n), 0);
  options.resize(size_t(n));
  costs.resize(size_t(n));
  withPrices.resize(size_t(n));
  loads.resize(size_t(n));
  for (int32_t v = 0; v < n; ++v) {
    for (int32_t s = 0; s < core.size(v); ++s) {
      std::vector<double> load(points, 0);
      core.addLoad(load, v, s, 1);
      if (reduced[core.first[v] + size_t(s)] > slack || core.excess(load) > 0)
        continue;
      options[v].push_back(s);
      costs[v].push_back(core.costs[core.first[v] + size_t(s)]);
      loads[v].insert(loads[v].end(), load.begin(), load.end());
    }
    withPrices[v].resize(options[v].size());
    sizes[v] = int32_t(options[v].size());
    if (options[v].empty())
      return true; // run() sees it
  }
  std::vector<EliminationEdge> edges;
  for (const FlatEdge &e : core.edges)
    edges.push_back({e.a, e.b, nullptr, nullptr});
  const EliminationLimits limits{kMostTable, std::min(kMostTotal, 0.1 * maxDone)};
  done += 100 * double(edges.size());
  if (!EliminationPlan(sizes, edges, limits).fits())
    return false;
  for (size_t e = 0; e < edges.size(); ++e) {
    const FlatEdge &edge = core.edges[e];
    const size_t columns = size_t(core.size(edge.b)), rowsA = size_t(sizes[edge.a]), rowsB = size_t(sizes[edge.b]);
    std::vector<double> a, b(rowsA * rowsB);
    a.reserve(rowsA * rowsB);
    for (size_t i = 0; i < rowsA; ++i)
      for (size_t j = 0; j < rowsB; ++j) {
        a.push_back(core.matrices[edge.to + size_t(options[edge.a][i]) * columns + size_t(options[edge.b][j])]);
        b[j * rowsA + i] = a.back();
      }
    done += 4 * double(a.size());
    matrices.push_back(std::move(a));
    edges[e].rowsA = matrices.back().data(); // moving a vector keeps its buffer
    matrices.push_back(std::move(b));
    edges[e].rowsB = matrices.back().data();
  }
  elimination.emplace(sizes, edges, limits);
  const EliminationPlan &order = *elimination;

  std::vector<int32_t> rank(static_cast<size_t>(n));
  buckets.resize(size_t(n) + 1);
  for (int32_t k = 0; k < n; ++k) {
    Bucket &bucket = buckets[k];
    bucket.variable = order.variable(size_t(k));
    bucket.scope = order.scope(size_t(k));
    rank[bucket.variable] = k;
    for (int32_t u : bucket.scope)
      bucket.table *= size_t(sizes[u]);
  }
  for (const EliminationEdge &e : edges)
    if (rank[e.a] < rank[e.b])
      buckets[size_t(rank[e.a])].edges.push_back({e.rowsB, e.b});
    else
      buckets[size_t(rank[e.b])].edges.push_back({e.rowsA, e.a});
  // The message of bucket k goes to the next of its scope that is eliminated, or to the last bucket.
  std::vector<std::vector<int32_t>> within(points); // per point: variables of the subtree, by bucket
  std::vector<int32_t> all(points, 0);
  for (size_t p = 0; p < points; ++p)
    within[p].assign(buckets.size(), 0);
  for (size_t k = 0; k < buckets.size(); ++k) {
    Bucket &bucket = buckets[k];
    if (bucket.variable >= 0)
      for (size_t j = core.firstPiece[bucket.variable]; j < core.firstPiece[bucket.variable + 1]; ++j)
        for (int32_t p = core.pieces[j].from; p < core.pieces[j].to; ++p) {
          ++within[p][k];
          ++all[p];
        }
  }
  for (size_t k = 0; k + 1 < buckets.size(); ++k) {
    const Bucket &bucket = buckets[k];
    size_t into = buckets.size() - 1;
    for (int32_t u : bucket.scope)
      into = std::min(into, size_t(rank[u]));
    Bucket &next = buckets[into];
    Child child{int32_t(k), std::vector<size_t>(next.scope.size(), 0), 0};
    size_t stride = 1;
    for (size_t d = bucket.scope.size(); d-- > 0; stride *= size_t(sizes[bucket.scope[d]])) {
      if (bucket.scope[d] == next.variable) {
        child.inner = stride;
        continue;
      }
      auto at = std::find(next.scope.begin(), next.scope.end(), bucket.scope[d]);
      child.strides[size_t(at - next.scope.begin())] = stride;
    }
    next.children.push_back(std::move(child));
    for (size_t p = 0; p < points; ++p) {
      if (within[p][k] && within[p][k] == all[p]) {
        buckets[k].closing.push_back(int32_t(p));
        all[p] = -1; // closed
      }
      within[p][into] += within[p][k];
    }
  }
  for (size_t p = 0; p < points; ++p)
    if (all[p] > 0)
      buckets.back().closing.push_back(int32_t(p));
  return true;
}

/// Raises the bound by prices, for plain elimination; true if nothing better than `limit` is left. Answers
/// that fit lower the limit.
bool ParetoElimination::priceMemory(Answer &answer) {
  std::vector<const double *> unary;
  for (const std::vector<double> &list : withPrices)
    unary.push_back(list.data());
  std::vector<int32_t> positions;
  std::vector<double> best = prices;
  double bestBound = -std::numeric_limits<double>::infinity(), factor = 1;
  for (int round = 0; round < kPriceRounds; ++round) {
    addPrices();
    double bound = elimination->run(unary, positions) - most() + limit; // against `limit`
    const bool goOn = spend(elimination->entries() + 10 * double(core.costs.size()));
    if (bound > limit)
      return true;
    if (bound > bestBound) {
      bestBound = bound;
      best = prices;
    } else {
      factor *= 0.6;
    }
    Answer now;
    toAnswer(positions, now);
    const std::vector<double> load = core.load(now);
    if (core.excess(load) <= 0) {
      const double cost = core.price(now);
      if (cost < limit) {
        limit = cost;
        answer = std::move(now);
        found = true;
      }
    }
    double norm = 0;
    for (size_t p = 0; p < points; ++p)
      if (load[p] > core.room[p] || prices[p] > 0)
        norm += (load[p] - core.room[p]) * (load[p] - core.room[p]);
    if (norm <= 0 || !goOn || done > 0.5 * maxDone)
      break;
    // Polyak's step; the target is never far above the bound.
    const double reach = std::min(limit - bound, 0.1 * std::abs(bound) + 1);
    for (size_t p = 0; p < points; ++p)
      prices[p] = std::max(0.0, prices[p] + factor * reach / norm * (load[p] - core.room[p]));
  }
  prices = best;
  addPrices();
  double bound = elimination->run(unary, positions);
  elimination->outside(outside);
  spend(5 * elimination->entries());
  return bound > most();
}

bool ParetoElimination::join(const Labels &list, size_t backsOf, const Bucket &child, size_t row, double rest,
                             Labels &out) {
  const size_t from = child.starts[row], to = child.starts[row + 1];
  double load[kMostPoints];
  const double within = most() - rest;
  done += 10;
  for (size_t i = 0; i < list.count(); ++i) {
    for (size_t j = from; j < to; ++j) {
      bool fits = true;
      for (size_t p = 0; p < points; ++p) {
        load[p] = list.loads[i * points + p] + child.labels.loads[j * points + p];
        fits &= load[p] <= core.room[p];
      }
      const double cost = list.costs[i] + child.labels.costs[j];
      if (!fits || priced(cost, load) > within)
        continue;
      out.costs.push_back(cost);
      out.loads.insert(out.loads.end(), load, load + points);
      out.backs.insert(out.backs.end(), &list.backs[i * backsOf], &list.backs[i * backsOf] + backsOf);
      out.backs.push_back(int32_t(j));
    }
    if (!spend(double(to - from) * double(4 + points)) || out.count() >= kMostLabels)
      return false;
  }
  return true;
}

/// Drops labels from place `from` on that another is nowhere worse than; false if the budget ended before.
bool ParetoElimination::keepPareto(Labels &list, size_t backsOf, size_t from) {
  const size_t n = list.count() - from;
  if (n < 2)
    return true;
  std::vector<size_t> order(n), kept;
  std::iota(order.begin(), order.end(), from);
  auto before = [&](size_t a, size_t b) {
    if (list.costs[a] != list.costs[b])
      return list.costs[a] < list.costs[b];
    return std::lexicographical_compare(&list.loads[a * points], &list.loads[a * points] + points,
                                        &list.loads[b * points], &list.loads[b * points] + points);
  };
  std::stable_sort(order.begin(), order.end(), before);
  for (size_t k : order) {
    bool dominated = false;
    for (size_t i = 0; i < kept.size() && !dominated; ++i) {
      dominated = true;
      for (size_t p = 0; p < points && dominated; ++p)
        dominated = list.loads[kept[i] * points + p] <= list.loads[k * points + p];
    }
    if (!spend(double(kept.size()) * 2 + 20))
      return false;
    if (!dominated)
      kept.push_back(k);
  }
  Labels pick;
  for (size_t k : kept) {
    pick.costs.push_back(list.costs[k]);
    pick.loads.insert(pick.loads.end(), &list.loads[k * points], &list.loads[k * points] + points);
    pick.backs.insert(pick.backs.end(), &list.backs[k * backsOf], &list.backs[k * backsOf] + backsOf);
  }
  list.costs.resize(from);
  list.loads.resize(from * points);
  list.backs.resize(from * backsOf);
  list.costs.insert(list.costs.end(), pick.costs.begin(), pick.costs.end());
  list.loads.insert(list.loads.end(), pick.loads.begin(), pick.loads.end());
  list.backs.insert(list.backs.end(), pick.backs.begin(), pick.backs.end());
  return true;
}

bool ParetoElimination::eliminate(size_t k) {
  Bucket &bucket = buckets[k];
  const bool last = bucket.variable < 0;
  const size_t n = last ? 1 : options[bucket.variable].size(), dims = bucket.scope.size();
  const size_t children = bucket.children.size(), backsOf = 1 + children;
  const double within = most();
  std::vector<size_t> digit(dims, 0), rows(children);
  std::vector<double> edgeCost(n);
  bucket.starts.assign(1, 0);
  Labels &all = bucket.labels;
  Labels list, next;
  for (size_t row = 0; row < bucket.table; ++row) {
    const size_t from = all.count();
    const double beyond = last ? 0 : outside[k][row];
    std::fill(edgeCost.begin(), edgeCost.end(), 0.0);
    for (const Table &edge : bucket.edges) {
      size_t d = size_t(std::find(bucket.scope.begin(), bucket.scope.end(), edge.outer) - bucket.scope.begin());
      const double *costs = &edge.costs[digit[d] * n];
      for (size_t s = 0; s < n; ++s)
        edgeCost[s] += costs[s];
    }
    if (!spend(double(n) * double(1 + bucket.edges.size() + children) + 20))
      return false;
    for (size_t s = 0; s < n; ++s) {
      // What the children add at least decides most cases without joining.
      list.costs.assign(1, last ? 0 : costs[bucket.variable][s] + edgeCost[s]);
      list.backs.assign(1, int32_t(s));
      list.loads.assign(points, 0);
      if (!last)
        std::copy_n(&loads[bucket.variable][s * points], points, list.loads.begin());
      double rest = beyond;
      for (size_t c = 0; c < children; ++c) {
        const Child &child = bucket.children[c];
        rows[c] = s * child.inner;
        for (size_t d = 0; d < dims; ++d)
          rows[c] += digit[d] * child.strides[d];
        rest += buckets[size_t(child.bucket)].least[rows[c]];
      }
      if (!(priced(list.costs[0], list.loads.data()) + rest <= within))
        continue;
      for (size_t c = 0; c < children && list.count(); ++c) {
        // Summed anew: differences of large sums would lose what decides.
        rest = beyond;
        for (size_t later = c + 1; later < children; ++later)
          rest += buckets[size_t(bucket.children[later].bucket)].least[rows[later]];
        next = {};
        if (!join(list, 1 + c, buckets[size_t(bucket.children[c].bucket)], rows[c], rest, next))
          return false;
        if (next.count() > 16 && !keepPareto(next, 2 + c, 0))
          return false;
        std::swap(list, next);
      }
      if (!list.count())
        continue;
      all.costs.insert(all.costs.end(), list.costs.begin(), list.costs.end());
      all.loads.insert(all.loads.end(), list.loads.begin(), list.loads.end());
      all.backs.insert(all.backs.end(), list.backs.begin(), list.backs.end());
    }
    size_t fitting = from;
    for (size_t i = from; i < all.count(); ++i) {
      for (int32_t p : bucket.closing)
        all.loads[i * points + size_t(p)] = core.room[size_t(p)];
      if (!(priced(all.costs[i], &all.loads[i * points]) + beyond <= within))
        continue;
      all.costs[fitting] = all.costs[i];
      std::copy_n(&all.loads[i * points], points, &all.loads[fitting * points]);
      std::copy_n(&all.backs[i * backsOf], backsOf, &all.backs[fitting * backsOf]);
      ++fitting;
    }
    all.costs.resize(fitting);
    all.loads.resize(fitting * points);
    all.backs.resize(fitting * backsOf);
    if (!keepPareto(all, backsOf, from) || all.count() > kMostLabels)
      return false;
    double least = std::numeric_limits<double>::infinity();
    for (size_t i = from; i < all.count(); ++i)
      least = std::min(least, priced(all.costs[i], &all.loads[i * points]));
    bucket.least.push_back(least);
    bucket.starts.push_back(all.count());
    for (size_t d = dims; d-- > 0;) {
      if (++digit[d] < options[bucket.scope[d]].size())
        break;
      digit[d] = 0;
    }
  }
  return true;
}

/// Labels from the first bucket to the last; false if there are too many.
bool ParetoElimination::search(Answer &answer) {
  for (size_t k = 0; k < buckets.size(); ++k)
    if (!eliminate(k))
      return false;
  const Labels &ends = buckets.back().labels;
  if (!ends.count())
    return true;
  // The points are all closed: one label is left, the cheapest.
  std::vector<size_t> label(buckets.size(), 0);
  Answer best(size_t(core.count()), 0);
  for (size_t k = buckets.size(); k-- > 0;) {
    const Bucket &bucket = buckets[k];
    const int32_t *back = &bucket.labels.backs[label[k] * (1 + bucket.children.size())];
    if (bucket.variable >= 0)
      best[size_t(bucket.variable)] = options[size_t(bucket.variable)][size_t(back[0])];
    for (size_t c = 0; c < bucket.children.size(); ++c)
      label[size_t(bucket.children[c].bucket)] = size_t(back[1 + c]);
  }
  // What may be rounding let it pass; the price itself is exact.
  if (core.price(best) < limit) {
    answer = std::move(best);
    found = true;
  }
  return true;
}

ParetoElimination::Result ParetoElimination::run(double maxWork, double &work, Answer &answer) {
  maxDone = maxWork;
  if (points > kMostPoints)
    return TooLarge;
  const bool fits = plan();
  bool complete = false;
  for (const std::vector<int32_t> &list : options)
    complete |= list.empty();
  if (fits && !complete)
    complete = priceMemory(answer) || search(answer);
  work += done;
  return !complete ? TooLarge : found ? Found : Nothing;
}
