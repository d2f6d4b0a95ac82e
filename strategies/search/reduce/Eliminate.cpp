//===- Eliminate.cpp - exact minimisation by variable elimination -----------------------------===//
//
// Invariant: the scope of a bucket is sorted so that its last dimension is eliminated next. A
// message thus enters the bucket of its last dimension, where that dimension is the inner,
// contiguous one; the matrix of an edge is taken in the orientation that gives the same.
//
//===----------------------------------------------------------------------------------------------===//
#include "strategies/search/reduce/Eliminate.h"

#include "strategies/search/problem/Clones.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>

using namespace tessera::strategies;

EliminationPlan::EliminationPlan(std::vector<int32_t> sizesIn, const std::vector<EliminationEdge> &edges,
                                 const EliminationLimits &limits)
    : sizes_(std::move(sizesIn)) {
  const int32_t n = int32_t(sizes_.size());
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
    double w = sizes_[v];
    for (int32_t u : near[v])
      w *= sizes_[u];
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
    total_ += w;
    if (w > limits.table || total_ > limits.total)
      return;
    rank[v] = int32_t(buckets_.size());
    buckets_.push_back({v, near[v], 1, {}, {}, {}, {}});
    for (int32_t u : near[v])
      near[u].erase(std::lower_bound(near[u].begin(), near[u].end(), v));
    for (int32_t u : buckets_.back().scope) {
      for (int32_t t : buckets_.back().scope)
        if (t != u)
          link(u, t);
      queue.erase({weights[u], u});
      queue.insert({weights[u] = weight(u), u});
    }
  }
  for (Bucket &bucket : buckets_) {
    std::sort(bucket.scope.begin(), bucket.scope.end(), [&](int32_t a, int32_t b) { return rank[a] > rank[b]; });
    for (int32_t u : bucket.scope)
      bucket.table *= size_t(sizes_[u]);
  }
  // Enters every factor into its bucket, with its strides there.
  for (const EliminationEdge &e : edges) {
    bool aFirst = rank[e.a] < rank[e.b];
    Bucket &bucket = buckets_[rank[aFirst ? e.a : e.b]];
    int32_t outer = aFirst ? e.b : e.a;
    Factor factor;
    factor.fixed = aFirst ? e.rowsB : e.rowsA;
    factor.strides.assign(bucket.scope.size(), 0);
    for (size_t d = 0; d < bucket.scope.size(); ++d)
      if (bucket.scope[d] == outer)
        factor.strides[d] = size_t(sizes_[bucket.variable]);
    bucket.factors.push_back(std::move(factor));
  }
  for (size_t k = 0; k < buckets_.size(); ++k) {
    const std::vector<int32_t> &scope = buckets_[k].scope;
    if (scope.empty())
      continue;
    Bucket &into = buckets_[rank[scope.back()]];
    Factor factor;
    factor.message = int32_t(k);
    factor.strides.assign(into.scope.size(), 0);
    size_t stride = size_t(sizes_[scope.back()]);
    for (size_t d = scope.size() - 1; d-- > 0;) {
      size_t place = size_t(std::find(into.scope.begin(), into.scope.end(), scope[d]) - into.scope.begin());
      factor.strides[place] = stride;
      stride *= size_t(sizes_[scope[d]]);
    }
    into.factors.push_back(std::move(factor));
  }
  fit_ = true;
}

namespace {

/// least[j] = min over s of own[s] + f[0][j * strides[0] + s] + f[1][j * strides[1] + s] + ..., for j < rows. Options
/// are taken by lanes, since compilers do not vectorise a minimum. The last lanes may have some of those before them
/// again.
TESSERA_CLONES void leastOfSums(const double *own, const double *const *f, const size_t *strides, size_t count,
                                size_t n, size_t rows, double *__restrict least) {
  for (size_t j = 0; j < rows; ++j) {
    double lowest = std::numeric_limits<double>::infinity();
    if (n < kLanes)
      for (size_t s = 0; s < n; ++s) {
        double sum = own[s];
        for (size_t k = 0; k < count; ++k)
          sum += f[k][j * strides[k] + s];
        lowest = sum < lowest ? sum : lowest;
      }
    else {
      Lanes lanes = lowest - Lanes{};
      for (size_t s = 0;; s = s + 2 * kLanes <= n ? s + kLanes : n - kLanes) {
        Lanes sum, next;
        std::memcpy(&sum, own + s, sizeof sum);
        for (size_t k = 0; k < count; ++k) {
          std::memcpy(&next, f[k] + j * strides[k] + s, sizeof next);
          sum += next;
        }
        lanes = sum < lanes ? sum : lanes;
        if (s + kLanes == n)
          break;
      }
      for (size_t lane = 0; lane < kLanes; ++lane)
        lowest = lanes[lane] < lowest ? lanes[lane] : lowest;
    }
    least[j] = lowest;
  }
}

} // namespace

double EliminationPlan::run(const std::vector<const double *> &unary, std::vector<int32_t> &answer) {
  double least = 0;
  std::vector<double> still;
  std::vector<size_t> digit, strides, step, moving;
  std::vector<const double *> data, from; // moves along the rows
  for (Bucket &bucket : buckets_) {
    const size_t n = size_t(sizes_[bucket.variable]), dims = bucket.scope.size();
    bucket.message.resize(bucket.table);
    bucket.own.assign(unary[bucket.variable], unary[bucket.variable] + n);
    bucket.alone = bucket.own;
    still.resize(n);
    digit.assign(dims, 0);
    data.clear();
    strides.clear();
    for (const Factor &f : bucket.factors) {
      const double *from = f.fixed ? f.fixed : buckets_[f.message].message.data();
      bool constant = true;
      for (size_t stride : f.strides)
        constant &= stride == 0;
      if (constant) {
        for (size_t s = 0; s < n; ++s)
          bucket.own[s] += from[s];
        continue;
      }
      data.push_back(from);
      strides.insert(strides.end(), f.strides.begin(), f.strides.end());
    }
    // Rows that differ in the last dimension alone stand side by side. What does not depend on it is added up once.
    const size_t count = data.size(), rows = dims ? size_t(sizes_[bucket.scope[dims - 1]]) : 1;
    moving.clear();
    for (size_t f = 0; f < count; ++f)
      if (strides[f * dims + dims - 1] > 0)
        moving.push_back(f);
    step.clear();
    for (size_t f : moving)
      step.push_back(strides[f * dims + dims - 1]);
    from.resize(moving.size());
    for (size_t row = 0;; row += rows) {
      const double *own = bucket.own.data();
      if (moving.size() < count) {
        std::copy_n(own, n, still.data());
        for (size_t f = 0, m = 0; f < count; ++f)
          if (m < moving.size() && moving[m] == f)
            ++m;
          else
            for (size_t s = 0; s < n; ++s)
              still[s] += data[f][s];
        own = still.data();
      }
      for (size_t m = 0; m < moving.size(); ++m)
        from[m] = data[moving[m]];
      leastOfSums(own, from.data(), step.data(), from.size(), n, rows, &bucket.message[row]);
      if (row + rows == bucket.table)
        break;
      size_t d = dims - 2;
      while (++digit[d] == size_t(sizes_[bucket.scope[d]])) {
        for (size_t f = 0; f < count; ++f)
          data[f] -= (digit[d] - 1) * strides[f * dims + d];
        digit[d--] = 0;
      }
      for (size_t f = 0; f < count; ++f)
        data[f] += strides[f * dims + d];
    }
    if (dims == 0)
      least += bucket.message[0];
  }
  // The choices are computed again for the one row that matters, which is cheaper than to store all of them.
  answer.assign(sizes_.size(), 0);
  for (auto bucket = buckets_.rbegin(); bucket != buckets_.rend(); ++bucket) {
    const size_t n = size_t(sizes_[bucket->variable]);
    for (const Factor &f : bucket->factors) {
      const double *from = f.fixed ? f.fixed : buckets_[f.message].message.data();
      bool constant = true;
      for (size_t d = 0; d < f.strides.size(); ++d) {
        constant &= f.strides[d] == 0;
        from += size_t(answer[bucket->scope[d]]) * f.strides[d];
      }
      for (size_t s = 0; s < n && !constant; ++s)
        bucket->own[s] += from[s];
    }
    answer[bucket->variable] = int32_t(std::min_element(bucket->own.begin(), bucket->own.end()) - bucket->own.begin());
  }
  return least;
}

void EliminationPlan::outside(std::vector<std::vector<double>> &rest) const {
  const double infinity = std::numeric_limits<double>::infinity();
  double whole = 0;
  rest.resize(buckets_.size());
  for (size_t k = 0; k < buckets_.size(); ++k) {
    rest[k].assign(buckets_[k].table, infinity);
    if (buckets_[k].scope.empty())
      whole += buckets_[k].message[0];
  }
  std::vector<const double *> data;
  std::vector<double *> out;
  std::vector<size_t> digit;
  for (size_t k = buckets_.size(); k-- > 0;) {
    const Bucket &bucket = buckets_[k];
    const size_t n = size_t(sizes_[bucket.variable]), dims = bucket.scope.size();
    if (dims == 0)
      rest[k][0] = whole - bucket.message[0];
    else // it held the least sums of everything
      for (size_t row = 0; row < bucket.table; ++row)
        rest[k][row] -= bucket.message[row];
    // A row with an option of the variable is complete: each child gets the least that projects to its row.
    data.clear();
    out.clear();
    for (const Factor &f : bucket.factors) {
      data.push_back(f.fixed ? f.fixed : buckets_[size_t(f.message)].message.data());
      out.push_back(f.fixed ? nullptr : rest[size_t(f.message)].data());
    }
    digit.assign(dims, 0);
    for (size_t row = 0;; ++row) {
      for (size_t s = 0; s < n; ++s) {
        double sum = rest[k][row] + bucket.alone[s];
        for (const double *d : data)
          sum += d[s];
        for (double *o : out)
          if (o && sum < o[s])
            o[s] = sum;
      }
      if (row + 1 == bucket.table)
        break;
      size_t d = dims - 1;
      auto move = [&](size_t factor, ptrdiff_t by) {
        data[factor] += by;
        if (out[factor])
          out[factor] += by;
      };
      while (++digit[d] == size_t(sizes_[bucket.scope[d]])) {
        for (size_t f = 0; f < data.size(); ++f)
          move(f, -ptrdiff_t((digit[d] - 1) * bucket.factors[f].strides[d]));
        digit[d--] = 0;
      }
      for (size_t f = 0; f < data.size(); ++f)
        move(f, ptrdiff_t(bucket.factors[f].strides[d]));
    }
  }
}
