#include "strategies/search/wide/Undominated.h"

#include "strategies/search/problem/Clones.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace tessera::strategies {

namespace {

/// An option is compared with so many of the cheapest ones that are left. On ResNet-18 on three axes a comparison with
/// all options finds 2 % more that are dominated, and takes five times as long.
constexpr size_t kRivals = 150;

/// A sum above this contains kForbidden.
constexpr double kTooMuch = double(kForbidden) / 2;

// Work in steps:
constexpr double kTripleWork = 0.5;   // per pair of states of one end and state of the other
constexpr double kTellApartWork = 10; // per option: the options with the same states are found

/// d[x * n + y] = max over t of a[x * m + t] - b[t * n + y], for four rows x. Costs are exact in doubles.
TESSERA_CLONES void mostExcess(const double *a, const double *b, size_t m, size_t n, double *d) {
  double *__restrict d0 = d, *__restrict d1 = d + n, *__restrict d2 = d + 2 * n, *__restrict d3 = d + 3 * n;
  for (size_t t = 0; t < m; ++t) {
    const double x0 = a[t], x1 = a[m + t], x2 = a[2 * m + t], x3 = a[3 * m + t];
    const double *row = b + t * n;
    for (size_t y = 0; y < n; ++y) {
      const double e0 = x0 - row[y], e1 = x1 - row[y], e2 = x2 - row[y], e3 = x3 - row[y];
      d0[y] = e0 > d0[y] ? e0 : d0[y];
      d1[y] = e1 > d1[y] ? e1 : d1[y];
      d2[y] = e2 > d2[y] ? e2 : d2[y];
      d3[y] = e3 > d3[y] ? e3 : d3[y];
    }
  }
}

/// An edge seen from one end.
struct End {
  const WideEdge *edge;
  bool from; // it is the end `from`
  const std::vector<int32_t> &state() const { return from ? *edge->fromState : *edge->toState; }
  size_t states() const { return from ? edge->table->rows : edge->table->columns; }
  size_t otherStates() const { return from ? edge->table->columns : edge->table->rows; }
  Cost cost(size_t mine, size_t theirs) const {
    const StateTable &t = *edge->table;
    return from ? t.costs[mine * t.columns + theirs] : t.costs[theirs * t.columns + mine];
  }
};

class Pruning {
public:
  Pruning(const WideGraph &wide, const std::vector<int32_t> &protect, double &work)
      : wide_(wide), protect_(protect), work_(work), kept_(everyOption(wide)), ends_(wide.nodes.size()) {
    for (const WideEdge &edge : wide.edges) {
      ends_[size_t(edge.from)].push_back({&edge, true});
      ends_[size_t(edge.to)].push_back({&edge, false});
    }
  }

  Kept run() {
    dropWithoutPartners();
    for (size_t n = 0; n < kept_.size(); ++n)
      dropDominated(n);
    return std::move(kept_);
  }

private:
  void dropWithoutPartners() {
    for (size_t n = 0; n < kept_.size(); ++n)
      std::erase_if(kept_[n], [&](int32_t k) { return (*wide_.nodes[n].costs)[size_t(k)] >= kForbidden; });
    std::vector<char> used, allowed;
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t n = 0; n < kept_.size(); ++n)
        for (const End &end : ends_[n]) {
          const size_t other = size_t(end.from ? end.edge->to : end.edge->from);
          const std::vector<int32_t> &theirs = end.from ? *end.edge->toState : *end.edge->fromState;
          if (std::none_of(end.edge->table->costs.begin(), end.edge->table->costs.end(),
                           [](Cost c) { return c >= kForbidden; }))
            continue;
          used.assign(end.otherStates(), 0);
          for (int32_t k : kept_[other])
            used[size_t(theirs[size_t(k)])] = 1;
          allowed.assign(end.states(), 0);
          for (size_t s = 0; s < allowed.size(); ++s)
            for (size_t t = 0; t < used.size() && !allowed[s]; ++t)
              allowed[s] = used[t] && end.cost(s, t) < kForbidden;
          work_ += double(allowed.size() * used.size() + kept_[n].size());
          changed |= std::erase_if(kept_[n], [&](int32_t k) { return !allowed[size_t(end.state()[size_t(k)])]; }) > 0;
        }
    }
  }

  /// [x * states + y]: what x costs more than y at most, whatever state the other end has; kTooMuch or more where that
  /// forbids x alone, -infinity where y cannot stand anywhere.
  const std::vector<double> &excess(const End &end) {
    auto [it, fresh] = excess_.try_emplace({end.edge->table.get(), end.from});
    std::vector<double> &d = it->second;
    if (!fresh)
      return d;
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    constexpr size_t kRows = 4;
    const size_t n = end.states(), m = end.otherStates(), rows = (n + kRows - 1) / kRows * kRows;
    std::vector<double> x(rows * m, 0), y(m * n);
    for (size_t s = 0; s < n; ++s)
      for (size_t t = 0; t < m; ++t) {
        const Cost cost = end.cost(s, t);
        x[s * m + t] = double(cost);
        y[t * n + s] = cost >= kForbidden ? kInfinity : double(cost);
      }
    d.assign(rows * n, -kInfinity);
    for (size_t s = 0; s < rows; s += kRows)
      mostExcess(&x[s * m], y.data(), m, n, &d[s * n]);
    work_ += kTripleWork * double(n * n * m);
    return d;
  }

  void dropDominated(size_t n) {
    std::vector<int32_t> &mine = kept_[n];
    if (mine.size() < 2)
      return;
    const WideNode &node = wide_.nodes[n];
    const int32_t protectedOption = protect_.empty() ? -1 : protect_[n];
    std::vector<const void *> key = {node.costs.get()};
    for (const WideUse &use : node.uses)
      key.push_back(use.bytes.get());
    for (const End &end : ends_[n]) {
      key.push_back(end.edge->table.get());
      key.push_back(&end.state());
      key.push_back(end.from ? end.edge : nullptr);
      if (end.from)
        key.back() = this; // any mark that is no table
    }
    auto [it, fresh] = known_.try_emplace({std::move(key), mine});
    if (fresh)
      it->second = undominatedOf(n);
    std::vector<int32_t> result = it->second;
    if (protectedOption >= 0 && std::binary_search(mine.begin(), mine.end(), protectedOption) &&
        !std::binary_search(result.begin(), result.end(), protectedOption))
      result.insert(std::lower_bound(result.begin(), result.end(), protectedOption), protectedOption);
    mine = std::move(result);
  }

  /// Keeps the first of all options that have the same states and bytes, which is the cheapest.
  std::vector<int32_t> cheapestByState(size_t n, const std::vector<int32_t> &order) {
    // A number, and a state or bytes: a number for both together.
    std::map<std::pair<int32_t, int64_t>, int32_t> pairs;
    std::vector<int32_t> number(order.size(), 0), first;
    auto tell = [&](auto valueOf) {
      pairs.clear();
      for (size_t i = 0; i < order.size(); ++i)
        number[i] = pairs.try_emplace({number[i], valueOf(size_t(order[i]))}, int32_t(pairs.size())).first->second;
    };
    for (const End &end : ends_[n])
      tell([&](size_t k) { return int64_t(end.state()[k]); });
    for (const WideUse &use : wide_.nodes[n].uses)
      tell([&](size_t k) { return (*use.bytes)[k]; });
    // Numbers count up in the order of their first option.
    for (size_t i = 0, next = 0; i < order.size(); ++i)
      if (size_t(number[i]) == next) {
        first.push_back(order[i]);
        ++next;
      }
    work_ += kTellApartWork * double(order.size());
    return first;
  }

  std::vector<int32_t> undominatedOf(size_t n) {
    const WideNode &node = wide_.nodes[n];
    const std::vector<Cost> &costs = *node.costs;
    std::vector<int32_t> order = kept_[n];
    std::stable_sort(order.begin(), order.end(),
                     [&](int32_t a, int32_t b) { return costs[size_t(a)] < costs[size_t(b)]; });
    std::vector<std::pair<const std::vector<double> *, const End *>> edges;
    for (const End &end : ends_[n])
      edges.push_back({&excess(end), &end});
    auto dominates = [&](int32_t j, int32_t i) {
      for (const WideUse &use : node.uses)
        if ((*use.bytes)[size_t(j)] > (*use.bytes)[size_t(i)])
          return false;
      double sum = double(costs[size_t(j)] - costs[size_t(i)]);
      for (auto [d, end] : edges) {
        const double x = (*d)[size_t(end->state()[size_t(j)]) * end->states() + size_t(end->state()[size_t(i)])];
        if (x >= kTooMuch)
          return false;
        if (x < -kTooMuch)
          return true; // no choice of the neighbour allows i
        sum += x;
      }
      return sum <= 0;
    };
    order = cheapestByState(n, order);
    // What dominates an option that has gone dominates whatever that one did. Of two that dominate each other the later
    // one stays.
    std::vector<char> gone(order.size(), 0);
    size_t pairs = 0;
    for (size_t i = 0; i < order.size(); ++i)
      for (size_t j = 0, rivals = 0; j < order.size() && rivals < kRivals; ++j) {
        if (i == j || gone[j])
          continue;
        ++rivals;
        ++pairs;
        if (dominates(order[j], order[i])) {
          gone[i] = 1;
          break;
        }
      }
    work_ += double(pairs) * double(1 + edges.size());
    std::vector<int32_t> result;
    for (size_t i = 0; i < order.size(); ++i)
      if (!gone[i])
        result.push_back(order[i]);
    std::sort(result.begin(), result.end());
    return result;
  }

  const WideGraph &wide_;
  const std::vector<int32_t> &protect_;
  double &work_;
  Kept kept_;
  std::vector<std::vector<End>> ends_;
  std::map<std::pair<const StateTable *, bool>, std::vector<double>> excess_;
  std::map<std::pair<std::vector<const void *>, std::vector<int32_t>>, std::vector<int32_t>> known_;
};

} // namespace

Kept undominated(const WideGraph &wide, const std::vector<int32_t> &protect, double &work) {
  return Pruning(wide, protect, work).run();
}

} // namespace tessera::strategies
