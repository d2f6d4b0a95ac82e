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
// Tuning. At the end of a line: what half and twice do to the cost (docs/adding-a-searcher.md).
// Sizes:
constexpr double kMostTable = 1 << 22;  // rows of one bucket, times the variable's options; same
constexpr double kMostTables = 1 << 24; // of all; same
constexpr double kMostTableShare = 0.1; // of all, in entries per step of the budget; bound 0/+0.3 %
constexpr size_t kMostLabels = 1 << 21; // of one bucket; same
constexpr size_t kLabelsToCompare = 16; // joined lists that are longer drop what is dominated at once; same
// Prices of memory before the labels, by plain elimination:
constexpr int kPriceRounds = 25;        // steps, at most; same
constexpr double kPriceShare = 0.5;     // of the budget, at most; same
constexpr double kShorterStep = 0.6;    // factor after a step without a better bound; same
constexpr double kFarthestTarget = 0.1; // how far above the bound the target is at most, relative to the bound; same
// Counted work, steps:
constexpr double kOrderWork = 100; // per edge: the order of elimination
constexpr double kEntryWork = 4;   // per entry of a matrix that is copied
constexpr double kOptionWork = 10; // per option, when an answer is priced
constexpr double kOutsideWork = 5; // per entry: what lies outside each bucket at least
constexpr double kJoinWork = 10;   // per row
constexpr double kPairWork = 4;    // per pair of labels, and one per memory point
constexpr double kCompareWork = 2; // per label that was kept
constexpr double kRowWork = 20;    // per row or label, besides

constexpr size_t kMostPoints = 12; // of memory that a label carries
constexpr double kPollSteps = 2e6; // between two looks at the clock
} // namespace

ParetoElimination::ParetoElimination(const FlatProblem &flat, const Dual &dual, double limit,
                                     std::function<bool()> stop)
    : flat_(flat), dual_(dual), limit_(limit), points_(flat.room.size()), prices_(dual.prices()),
      stop_(std::move(stop)) {}

bool ParetoElimination::spend(double steps) {
  done_ += steps;
  if (done_ > polled_ + kPollSteps) {
    polled_ = done_;
    stopped_ = stopped_ || stop_();
  }
  return !stopped_ && done_ < maxDone_;
}

void ParetoElimination::addPrices() {
  for (size_t v = 0; v < costs_.size(); ++v)
    for (size_t s = 0; s < costs_[v].size(); ++s)
      withPrices_[v][s] = priced(costs_[v][s], &loads_[v][s * points_]);
}

void ParetoElimination::toAnswer(const std::vector<int32_t> &positions, Answer &answer) const {
  answer.resize(positions.size());
  for (size_t v = 0; v < positions.size(); ++v)
    answer[v] = options_[v][size_t(positions[v])];
}

bool ParetoElimination::plan() {
  const int32_t n = flat_.count();
  const std::vector<double> reduced = dual_.reducedCosts();
  const double slack = limit_ - 1 - dual_.bound() + kRelativeRounding * std::abs(limit_) + kRoundingUnits;
  std::vector<int32_t> sizes(size_t(n), 0);
  options_.resize(size_t(n));
  costs_.resize(size_t(n));
  withPrices_.resize(size_t(n));
  loads_.resize(size_t(n));
  for (int32_t v = 0; v < n; ++v) {
    for (int32_t s = 0; s < flat_.size(v); ++s) {
      std::vector<double> load(points_, 0);
      flat_.addLoad(load, v, s, 1);
      if (reduced[flat_.first[v] + size_t(s)] > slack || flat_.excess(load) > 0)
        continue;
      options_[v].push_back(s);
      costs_[v].push_back(flat_.costs[flat_.first[v] + size_t(s)]);
      loads_[v].insert(loads_[v].end(), load.begin(), load.end());
    }
    withPrices_[v].resize(options_[v].size());
    sizes[v] = int32_t(options_[v].size());
    if (options_[v].empty())
      return true; // run() checks it
  }
  std::vector<EliminationEdge> edges;
  for (const FlatEdge &e : flat_.edges)
    edges.push_back({e.a, e.b, nullptr, nullptr});
  const EliminationLimits limits{kMostTable, std::min(kMostTables, kMostTableShare * maxDone_)};
  done_ += kOrderWork * double(edges.size());
  if (!EliminationPlan(sizes, edges, limits).fits())
    return false;
  for (size_t e = 0; e < edges.size(); ++e) {
    const FlatEdge &edge = flat_.edges[e];
    const size_t columns = size_t(flat_.size(edge.b)), rowsA = size_t(sizes[edge.a]), rowsB = size_t(sizes[edge.b]);
    std::vector<double> a, b(rowsA * rowsB);
    a.reserve(rowsA * rowsB);
    for (size_t i = 0; i < rowsA; ++i)
      for (size_t j = 0; j < rowsB; ++j) {
        a.push_back(flat_.matrices[edge.to + size_t(options_[edge.a][i]) * columns + size_t(options_[edge.b][j])]);
        b[j * rowsA + i] = a.back();
      }
    done_ += kEntryWork * double(a.size());
    matrices_.push_back(std::move(a));
    edges[e].rowsA = matrices_.back().data(); // moving a vector keeps its buffer
    matrices_.push_back(std::move(b));
    edges[e].rowsB = matrices_.back().data();
  }
  elimination_.emplace(sizes, edges, limits);
  const EliminationPlan &order = *elimination_;

  std::vector<int32_t> rank(static_cast<size_t>(n));
  buckets_.resize(size_t(n) + 1);
  for (int32_t k = 0; k < n; ++k) {
    Bucket &bucket = buckets_[k];
    bucket.variable = order.variable(size_t(k));
    bucket.scope = order.scope(size_t(k));
    rank[bucket.variable] = k;
    for (int32_t u : bucket.scope)
      bucket.table *= size_t(sizes[u]);
  }
  for (const EliminationEdge &e : edges)
    if (rank[e.a] < rank[e.b])
      buckets_[size_t(rank[e.a])].edges.push_back({e.rowsB, e.b});
    else
      buckets_[size_t(rank[e.b])].edges.push_back({e.rowsA, e.a});
  // The message of bucket k goes to the next of its scope that is eliminated, or to the last bucket.
  std::vector<std::vector<int32_t>> within(points_); // per point: variables of the subtree, by bucket
  std::vector<int32_t> all(points_, 0);
  for (size_t p = 0; p < points_; ++p)
    within[p].assign(buckets_.size(), 0);
  for (size_t k = 0; k < buckets_.size(); ++k) {
    Bucket &bucket = buckets_[k];
    if (bucket.variable >= 0)
      for (size_t j = flat_.firstPiece[bucket.variable]; j < flat_.firstPiece[bucket.variable + 1]; ++j)
        for (int32_t p = flat_.pieces[j].from; p < flat_.pieces[j].to; ++p) {
          ++within[p][k];
          ++all[p];
        }
  }
  for (size_t k = 0; k + 1 < buckets_.size(); ++k) {
    const Bucket &bucket = buckets_[k];
    size_t into = buckets_.size() - 1;
    for (int32_t u : bucket.scope)
      into = std::min(into, size_t(rank[u]));
    Bucket &next = buckets_[into];
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
    for (size_t p = 0; p < points_; ++p) {
      if (within[p][k] && within[p][k] == all[p]) {
        buckets_[k].closing.push_back(int32_t(p));
        all[p] = -1; // closed
      }
      within[p][into] += within[p][k];
    }
  }
  for (size_t p = 0; p < points_; ++p)
    if (all[p] > 0)
      buckets_.back().closing.push_back(int32_t(p));
  return true;
}

/// Raises the bound with prices, by plain elimination. True if nothing better than `limit` is left. Answers that fit
/// lower the limit.
bool ParetoElimination::priceMemory(Answer &answer) {
  std::vector<const double *> unary;
  for (const std::vector<double> &list : withPrices_)
    unary.push_back(list.data());
  std::vector<int32_t> positions;
  std::vector<double> best = prices_;
  double bestBound = -std::numeric_limits<double>::infinity(), factor = 1;
  for (int round = 0; round < kPriceRounds; ++round) {
    addPrices();
    double bound = elimination_->run(unary, positions) - most() + limit_; // against `limit`
    const bool goOn = spend(elimination_->entries() + kOptionWork * double(flat_.costs.size()));
    if (bound > limit_)
      return true;
    if (bound > bestBound) {
      bestBound = bound;
      best = prices_;
    } else {
      factor *= kShorterStep;
    }
    Answer now;
    toAnswer(positions, now);
    const std::vector<double> load = flat_.load(now);
    if (flat_.excess(load) <= 0) {
      const double cost = flat_.price(now);
      if (cost < limit_) {
        limit_ = cost;
        answer = std::move(now);
        found_ = true;
      }
    }
    double norm = 0;
    for (size_t p = 0; p < points_; ++p)
      if (load[p] > flat_.room[p] || prices_[p] > 0)
        norm += (load[p] - flat_.room[p]) * (load[p] - flat_.room[p]);
    if (norm <= 0 || !goOn || done_ > kPriceShare * maxDone_)
      break;
    // Polyak's step.
    const double reach = std::min(limit_ - bound, kFarthestTarget * std::abs(bound) + 1);
    for (size_t p = 0; p < points_; ++p)
      prices_[p] = std::max(0.0, prices_[p] + factor * reach / norm * (load[p] - flat_.room[p]));
  }
  prices_ = best;
  addPrices();
  double bound = elimination_->run(unary, positions);
  elimination_->outside(outside_);
  spend(kOutsideWork * elimination_->entries());
  return bound > most();
}

bool ParetoElimination::join(const Labels &list, size_t backsOf, const Bucket &child, size_t row, double rest,
                             Labels &out) {
  const size_t from = child.starts[row], to = child.starts[row + 1];
  double load[kMostPoints];
  const double within = most() - rest;
  done_ += kJoinWork;
  for (size_t i = 0; i < list.count(); ++i) {
    for (size_t j = from; j < to; ++j) {
      bool fits = true;
      for (size_t p = 0; p < points_; ++p) {
        load[p] = list.loads[i * points_ + p] + child.labels.loads[j * points_ + p];
        fits &= load[p] <= flat_.room[p];
      }
      const double cost = list.costs[i] + child.labels.costs[j];
      if (!fits || priced(cost, load) > within)
        continue;
      out.costs.push_back(cost);
      out.loads.insert(out.loads.end(), load, load + points_);
      out.backs.insert(out.backs.end(), &list.backs[i * backsOf], &list.backs[i * backsOf] + backsOf);
      out.backs.push_back(int32_t(j));
    }
    if (!spend(double(to - from) * (kPairWork + double(points_))) || out.count() >= kMostLabels)
      return false;
  }
  return true;
}

/// Drops labels from place `from` on that are dominated: another label is nowhere worse. False if the budget ended
/// before.
bool ParetoElimination::keepPareto(Labels &list, size_t backsOf, size_t from) {
  const size_t n = list.count() - from;
  if (n < 2)
    return true;
  std::vector<size_t> order(n), kept;
  std::iota(order.begin(), order.end(), from);
  auto before = [&](size_t a, size_t b) {
    if (list.costs[a] != list.costs[b])
      return list.costs[a] < list.costs[b];
    return std::lexicographical_compare(&list.loads[a * points_], &list.loads[a * points_] + points_,
                                        &list.loads[b * points_], &list.loads[b * points_] + points_);
  };
  std::stable_sort(order.begin(), order.end(), before);
  for (size_t k : order) {
    bool dominated = false;
    for (size_t i = 0; i < kept.size() && !dominated; ++i) {
      dominated = true;
      for (size_t p = 0; p < points_ && dominated; ++p)
        dominated = list.loads[kept[i] * points_ + p] <= list.loads[k * points_ + p];
    }
    if (!spend(double(kept.size()) * kCompareWork + kRowWork))
      return false;
    if (!dominated)
      kept.push_back(k);
  }
  Labels pick;
  for (size_t k : kept) {
    pick.costs.push_back(list.costs[k]);
    pick.loads.insert(pick.loads.end(), &list.loads[k * points_], &list.loads[k * points_] + points_);
    pick.backs.insert(pick.backs.end(), &list.backs[k * backsOf], &list.backs[k * backsOf] + backsOf);
  }
  list.costs.resize(from);
  list.loads.resize(from * points_);
  list.backs.resize(from * backsOf);
  list.costs.insert(list.costs.end(), pick.costs.begin(), pick.costs.end());
  list.loads.insert(list.loads.end(), pick.loads.begin(), pick.loads.end());
  list.backs.insert(list.backs.end(), pick.backs.begin(), pick.backs.end());
  return true;
}

bool ParetoElimination::eliminate(size_t k) {
  Bucket &bucket = buckets_[k];
  const bool last = bucket.variable < 0;
  const size_t n = last ? 1 : options_[bucket.variable].size(), dims = bucket.scope.size();
  const size_t children = bucket.children.size(), backsOf = 1 + children;
  const double within = most();
  std::vector<size_t> digit(dims, 0), rows(children);
  std::vector<double> edgeCost(n);
  bucket.starts.assign(1, 0);
  Labels &all = bucket.labels;
  Labels list, next;
  for (size_t row = 0; row < bucket.table; ++row) {
    const size_t from = all.count();
    const double beyond = last ? 0 : outside_[k][row];
    std::fill(edgeCost.begin(), edgeCost.end(), 0.0);
    for (const Table &edge : bucket.edges) {
      size_t d = size_t(std::find(bucket.scope.begin(), bucket.scope.end(), edge.outer) - bucket.scope.begin());
      const double *costs = &edge.costs[digit[d] * n];
      for (size_t s = 0; s < n; ++s)
        edgeCost[s] += costs[s];
    }
    if (!spend(double(n) * double(1 + bucket.edges.size() + children) + kRowWork))
      return false;
    for (size_t s = 0; s < n; ++s) {
      // The least that the children add decides most cases, so that labels need not be joined.
      list.costs.assign(1, last ? 0 : costs_[bucket.variable][s] + edgeCost[s]);
      list.backs.assign(1, int32_t(s));
      list.loads.assign(points_, 0);
      if (!last)
        std::copy_n(&loads_[bucket.variable][s * points_], points_, list.loads.begin());
      double rest = beyond;
      for (size_t c = 0; c < children; ++c) {
        const Child &child = bucket.children[c];
        rows[c] = s * child.inner;
        for (size_t d = 0; d < dims; ++d)
          rows[c] += digit[d] * child.strides[d];
        rest += buckets_[size_t(child.bucket)].least[rows[c]];
      }
      if (!(priced(list.costs[0], list.loads.data()) + rest <= within))
        continue;
      for (size_t c = 0; c < children && list.count(); ++c) {
        // The rest is summed anew: differences of large sums would lose the digits that decide.
        rest = beyond;
        for (size_t later = c + 1; later < children; ++later)
          rest += buckets_[size_t(bucket.children[later].bucket)].least[rows[later]];
        next = {};
        if (!join(list, 1 + c, buckets_[size_t(bucket.children[c].bucket)], rows[c], rest, next))
          return false;
        if (next.count() > kLabelsToCompare && !keepPareto(next, 2 + c, 0))
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
        all.loads[i * points_ + size_t(p)] = flat_.room[size_t(p)];
      if (!(priced(all.costs[i], &all.loads[i * points_]) + beyond <= within))
        continue;
      all.costs[fitting] = all.costs[i];
      std::copy_n(&all.loads[i * points_], points_, &all.loads[fitting * points_]);
      std::copy_n(&all.backs[i * backsOf], backsOf, &all.backs[fitting * backsOf]);
      ++fitting;
    }
    all.costs.resize(fitting);
    all.loads.resize(fitting * points_);
    all.backs.resize(fitting * backsOf);
    if (!keepPareto(all, backsOf, from) || all.count() > kMostLabels)
      return false;
    double least = std::numeric_limits<double>::infinity();
    for (size_t i = from; i < all.count(); ++i)
      least = std::min(least, priced(all.costs[i], &all.loads[i * points_]));
    bucket.least.push_back(least);
    bucket.starts.push_back(all.count());
    for (size_t d = dims; d-- > 0;) {
      if (++digit[d] < options_[bucket.scope[d]].size())
        break;
      digit[d] = 0;
    }
  }
  return true;
}

/// Makes the labels of all buckets from the first to the last. False if there are too many.
bool ParetoElimination::search(Answer &answer) {
  for (size_t k = 0; k < buckets_.size(); ++k)
    if (!eliminate(k))
      return false;
  const Labels &ends = buckets_.back().labels;
  if (!ends.count())
    return true;
  // All memory points are closed, so one label is left, which is the cheapest.
  std::vector<size_t> label(buckets_.size(), 0);
  Answer best(size_t(flat_.count()), 0);
  for (size_t k = buckets_.size(); k-- > 0;) {
    const Bucket &bucket = buckets_[k];
    const int32_t *back = &bucket.labels.backs[label[k] * (1 + bucket.children.size())];
    if (bucket.variable >= 0)
      best[size_t(bucket.variable)] = options_[size_t(bucket.variable)][size_t(back[0])];
    for (size_t c = 0; c < bucket.children.size(); ++c)
      label[size_t(bucket.children[c].bucket)] = size_t(back[1 + c]);
  }
  // Rounding may have let the label pass. The answer's own price is exact.
  if (flat_.price(best) < limit_) {
    answer = std::move(best);
    found_ = true;
  }
  return true;
}

ParetoElimination::Result ParetoElimination::run(double maxWork, double &work, Answer &answer) {
  maxDone_ = maxWork;
  if (points_ > kMostPoints)
    return TooLarge;
  const bool fits = plan();
  bool complete = false;
  for (const std::vector<int32_t> &list : options_)
    complete |= list.empty();
  if (fits && !complete)
    complete = priceMemory(answer) || search(answer);
  work += done_;
  return !complete ? TooLarge : found_ ? Found : Nothing;
}
