//===- Eliminate.cpp - exact minimisation by variable elimination
//--------------------------------===//
//
// Invariant: the scope of a bucket is sorted so that its last dimension is eliminated next. A
// message thus enters the bucket of its last dimension, where that dimension is the inner,
// contiguous one; the matrix of an edge is taken in the orientation that gives the same.
//
//===----------------------------------------------------------------------------------------------===//
#include "strategies/search/Eliminate.h"

#include <algorithm>
#include <limits>
#include <set>

using namespace tessera::strategies;

EliminationPlan::EliminationPlan(std::vector<int32_t> sizesIn,
                                 const std::vector<EliminationEdge> &edges,
                                 const EliminationLimits &limits)
    : sizes(std::move(sizesIn)) {
  const int32_t n = int32_t(sizes.size());
  std::vector<std::vector<int32_t>> near(n); // sorted
  auto link = [&](int32_t a, int32_t b) {
    auto at = std::lower_bound(near[a].begin(), near[a].end(), b);
    if (at == near[a].end() || *at != b)
      near[a].insert(at, b);
  };
  for (const EliminationEdge &e : edges) {
    link(e.a, e.b);
    link(e.b, e.a);
  }
  auto weight = [&](int32_t v) {
    double w = sizes[v];
    for (int32_t u : near[v])
      w *= sizes[u];
    return w;
  };
  std::vector<double> weights(n);
  std::set<std::pair<double, int32_t>> queue;
  for (int32_t v = 0; v < n; ++v)
    queue.insert({weights[v] = weight(v), v});
  std::vector<int32_t> rank(n);
  while (!queue.empty()) {
    auto [w, v] = *queue.begin();
    queue.erase(queue.begin());
    total += w;
    if (w > limits.table || total > limits.total || sizes[v] > UINT16_MAX)
      return;
    rank[v] = int32_t(buckets.size());
    buckets.push_back({v, near[v], 1, {}, {}, {}});
    for (int32_t u : near[v])
      near[u].erase(std::lower_bound(near[u].begin(), near[u].end(), v));
    for (int32_t u : buckets.back().scope) {
      for (int32_t t : buckets.back().scope)
        if (t != u)
          link(u, t);
      queue.erase({weights[u], u});
      queue.insert({weights[u] = weight(u), u});
    }
  }
  for (Bucket &bucket : buckets) {
    std::sort(bucket.scope.begin(), bucket.scope.end(),
              [&](int32_t a, int32_t b) { return rank[a] > rank[b]; });
    for (int32_t u : bucket.scope)
      bucket.table *= size_t(sizes[u]);
  }
  // Which factor enters which bucket, and how it strides there.
  for (const EliminationEdge &e : edges) {
    bool aFirst = rank[e.a] < rank[e.b];
    Bucket &bucket = buckets[rank[aFirst ? e.a : e.b]];
    int32_t outer = aFirst ? e.b : e.a;
    Factor factor;
    factor.fixed = aFirst ? e.rowsB : e.rowsA;
    factor.strides.assign(bucket.scope.size(), 0);
    for (size_t d = 0; d < bucket.scope.size(); ++d)
      if (bucket.scope[d] == outer)
        factor.strides[d] = size_t(sizes[bucket.variable]);
    bucket.factors.push_back(std::move(factor));
  }
  for (size_t k = 0; k < buckets.size(); ++k) {
    const std::vector<int32_t> &scope = buckets[k].scope;
    if (scope.empty())
      continue;
    Bucket &into = buckets[rank[scope.back()]];
    Factor factor;
    factor.message = int32_t(k);
    factor.strides.assign(into.scope.size(), 0);
    size_t stride = size_t(sizes[scope.back()]);
    for (size_t d = scope.size() - 1; d-- > 0;) {
      size_t place =
          size_t(std::find(into.scope.begin(), into.scope.end(), scope[d]) - into.scope.begin());
      factor.strides[place] = stride;
      stride *= size_t(sizes[scope[d]]);
    }
    into.factors.push_back(std::move(factor));
  }
  fit = true;
}

double EliminationPlan::run(const std::vector<const double *> &unary,
                            std::vector<int32_t> &answer) {
  double least = 0;
  std::vector<double> sum;
  std::vector<size_t> digit, place;
  std::vector<const double *> data;
  for (Bucket &bucket : buckets) {
    const size_t n = size_t(sizes[bucket.variable]), dims = bucket.scope.size();
    bucket.message.resize(bucket.table);
    bucket.best.resize(bucket.table);
    sum.resize(n);
    digit.assign(dims, 0);
    data.clear();
    for (const Factor &f : bucket.factors)
      data.push_back(f.fixed ? f.fixed : buckets[f.message].message.data());
    place.assign(data.size(), 0);
    const double *own = unary[bucket.variable];
    for (size_t row = 0;; ++row) {
      std::copy(own, own + n, sum.begin());
      for (size_t f = 0; f < data.size(); ++f) {
        const double *from = data[f] + place[f];
        double *to = sum.data();
        for (size_t s = 0; s < n; ++s)
          to[s] += from[s];
      }
      size_t best = 0;
      for (size_t s = 1; s < n; ++s)
        if (sum[s] < sum[best])
          best = s;
      bucket.message[row] = sum[best];
      bucket.best[row] = uint16_t(best);
      size_t d = dims;
      while (d > 0) {
        --d;
        bool carry = ++digit[d] == size_t(sizes[bucket.scope[d]]);
        for (size_t f = 0; f < data.size(); ++f)
          if (carry)
            place[f] -= (digit[d] - 1) * bucket.factors[f].strides[d];
          else
            place[f] += bucket.factors[f].strides[d];
        if (!carry) {
          ++d;
          break;
        }
        digit[d] = 0;
      }
      if (row + 1 == bucket.table)
        break;
    }
    if (dims == 0)
      least += bucket.message[0];
  }
  answer.assign(sizes.size(), 0);
  for (auto bucket = buckets.rbegin(); bucket != buckets.rend(); ++bucket) {
    size_t row = 0;
    for (int32_t u : bucket->scope)
      row = row * size_t(sizes[u]) + size_t(answer[u]);
    answer[bucket->variable] = bucket->best[row];
  }
  return least;
}
