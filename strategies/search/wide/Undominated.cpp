#include "strategies/search/wide/Undominated.h"

#include "strategies/search/problem/Clones.h"
#include "strategies/space/InParallel.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>

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

/// d[x * n + y] = max over t of a[x * m + t] - b[t * n + y], for four rows x. Costs are exact in doubles. Four terms at
/// once load and store d a quarter as often.
TESSERA_CLONES void mostExcess(const double *a, const double *b, size_t m, size_t n, double *d) {
  size_t t = 0;
  for (; t + 4 <= m; t += 4) {
    const double *b0 = b + t * n, *b1 = b0 + n, *b2 = b1 + n, *b3 = b2 + n;
    for (size_t x = 0; x < 4; x += 2) {
      const double *p = a + x * m + t, *q = p + m;
      const double p0 = p[0], p1 = p[1], p2 = p[2], p3 = p[3], q0 = q[0], q1 = q[1], q2 = q[2], q3 = q[3];
      double *__restrict mostP = d + x * n, *__restrict mostQ = mostP + n;
      for (size_t y = 0; y < n; ++y) {
        const double p01 = p0 - b0[y] > p1 - b1[y] ? p0 - b0[y] : p1 - b1[y];
        const double p23 = p2 - b2[y] > p3 - b3[y] ? p2 - b2[y] : p3 - b3[y];
        const double q01 = q0 - b0[y] > q1 - b1[y] ? q0 - b0[y] : q1 - b1[y];
        const double q23 = q2 - b2[y] > q3 - b3[y] ? q2 - b2[y] : q3 - b3[y];
        const double mp = p01 > p23 ? p01 : p23, mq = q01 > q23 ? q01 : q23;
        mostP[y] = mp > mostP[y] ? mp : mostP[y];
        mostQ[y] = mq > mostQ[y] ? mq : mostQ[y];
      }
    }
  }
  for (; t < m; ++t)
    for (size_t x = 0; x < 4; ++x) {
      double *__restrict most = d + x * n;
      for (size_t y = 0; y < n; ++y) {
        const double excess = a[x * m + t] - b[t * n + y];
        most[y] = excess > most[y] ? excess : most[y];
      }
    }
}

/// sums[j] = costs[j] - cost + rows[0][j] + rows[1][j] ...
TESSERA_CLONES void sumRows(const double *costs, double cost, const double *const *rows, size_t count,
                            double *__restrict sums) {
  for (size_t j = 0; j < kRivals; ++j)
    sums[j] = costs[j] - cost;
  for (size_t s = 0; s < count; ++s) {
    const double *row = rows[s];
    for (size_t j = 0; j < kRivals; ++j)
      sums[j] += row[j];
  }
}

/// Options that are summed up at once where they are few: at first, and then.
constexpr size_t kFirst = 8, kAtOnce = 48;

/// sums[j] = costs[j] - cost + rows[0][states[0][j]] + rows[1][states[1][j]] ..., for j < number
TESSERA_CLONES void sumByState(const double *costs, double cost, const double *const *rows,
                               const int32_t *const *states, size_t count, size_t number, double *__restrict sums) {
  for (size_t j = 0; j < number; ++j)
    sums[j] = costs[j] - cost;
  for (size_t s = 0; s < count; ++s) {
    const double *row = rows[s];
    const int32_t *state = states[s];
    for (size_t j = 0; j < number; ++j)
      sums[j] += row[state[j]];
  }
}

/// Makes what has more bytes infinite.
TESSERA_CLONES void leaveOutLarger(const double *bytes, double most, double *__restrict sums) {
  for (size_t j = 0; j < kRivals; ++j)
    sums[j] = bytes[j] > most ? std::numeric_limits<double>::infinity() : sums[j];
}

/// An edge seen from one end.
struct End {
  const WideEdge *edge;
  bool from;                            // it is the end `from`
  const SharedCopies *shared = nullptr; // of an edge that shares copies with others
  size_t reader = 0;
  const WideShare *share = nullptr;
  const std::vector<int32_t> &state() const { return from ? *edge->fromState : *edge->toState; }
  size_t states() const { return from ? edge->table->rows : edge->table->columns; }
  size_t otherStates() const { return from ? edge->table->columns : edge->table->rows; }
  Cost cost(size_t mine, size_t theirs) const {
    const StateTable &t = *edge->table;
    return from ? t.costs[mine * t.columns + theirs] : t.costs[theirs * t.columns + mine];
  }
};

constexpr size_t kWord = 64; // bits
size_t wordsOf(size_t bits) { return (bits + kWord - 1) / kWord; }

/// Which states of the two ends of an edge may stand side by side: a bit each.
class AllowedPairs {
public:
  explicit AllowedPairs(const StateTable &table)
      : all_(std::none_of(table.costs.begin(), table.costs.end(), [](Cost c) { return c >= kForbidden; })) {
    if (all_)
      return;
    rows_.assign(table.rows * wordsOf(table.columns), 0);
    columns_.assign(table.columns * wordsOf(table.rows), 0);
    for (size_t r = 0; r < table.rows; ++r)
      for (size_t c = 0; c < table.columns; ++c) {
        const uint64_t may = table.costs[r * table.columns + c] < kForbidden;
        rows_[r * wordsOf(table.columns) + c / kWord] |= may << c % kWord;
        columns_[c * wordsOf(table.rows) + r / kWord] |= may << r % kWord;
      }
  }

  bool areAll() const { return all_; }
  /// Whether a state of the one end may stand beside one of these of the other.
  bool any(bool from, size_t state, const std::vector<uint64_t> &others) const {
    const uint64_t *may = &(from ? rows_ : columns_)[state * others.size()];
    uint64_t both = 0;
    for (size_t w = 0; w < others.size(); ++w)
      both |= may[w] & others[w];
    return both != 0;
  }

private:
  bool all_;
  std::vector<uint64_t> rows_, columns_; // by state of `from`; by state of `to`
};

class Pruning {
public:
  /// `among`: the other options are gone already.
  Pruning(const WideGraph &wide, Kept kept, bool among, const std::vector<int32_t> &protect, double &work)
      : wide_(wide), protect_(protect), work_(work), among_(among), kept_(std::move(kept)), ends_(wide.nodes.size()),
        amongOf_(wide.nodes.size()) {
    std::vector<std::pair<const WideShare *, size_t>> shared(wide.edges.size(), {nullptr, 0});
    for (const WideShare &share : wide.shares)
      for (size_t r = 0; r < share.edges.size(); ++r)
        shared[size_t(share.edges[r])] = {&share, r};
    for (size_t e = 0; e < wide.edges.size(); ++e) {
      const WideEdge &edge = wide.edges[e];
      const auto [share, reader] = shared[e];
      const SharedCopies *copies = share ? share->copies.get() : nullptr;
      ends_[size_t(edge.from)].push_back({&edge, true, copies, reader, share});
      ends_[size_t(edge.to)].push_back({&edge, false, copies, reader, share});
    }
  }

  Kept partners() {
    dropWithoutPartners();
    return std::move(kept_);
  }

  Kept run(int threads) {
    dropWithoutPartners();
    std::vector<const std::vector<int32_t> *> found;
    if (!among_)
      found = findUndominated(threads);
    for (size_t n = 0; n < kept_.size(); ++n)
      if (kept_[n].size() > 1)
        keep(n, among_ ? undominatedOf(n, work_) : *found[n]);
    return std::move(kept_);
  }

private:
  void dropWithoutPartners() {
    for (size_t n = 0; n < kept_.size(); ++n)
      std::erase_if(kept_[n], [&](int32_t k) { return (*wide_.nodes[n].costs)[size_t(k)] >= kForbidden; });
    std::unordered_map<const StateTable *, AllowedPairs> allowedBy; // looked up only
    auto pairsOf = [&](const StateTable &table) -> const AllowedPairs & {
      auto it = allowedBy.find(&table);
      return it == allowedBy.end() ? allowedBy.emplace(&table, table).first->second : it->second;
    };
    std::vector<uint64_t> used;
    std::vector<char> allowed;
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t n = 0; n < kept_.size(); ++n)
        for (const End &end : ends_[n]) {
          const size_t other = size_t(end.from ? end.edge->to : end.edge->from);
          const std::vector<int32_t> &theirs = end.from ? *end.edge->toState : *end.edge->fromState;
          const AllowedPairs &pairs = pairsOf(*end.edge->table);
          if (pairs.areAll())
            continue;
          used.assign(wordsOf(end.otherStates()), 0);
          for (int32_t k : kept_[other])
            used[size_t(theirs[size_t(k)]) / kWord] |= uint64_t(1) << (size_t(theirs[size_t(k)]) % kWord);
          allowed.assign(end.states(), 0);
          for (size_t s = 0; s < allowed.size(); ++s)
            allowed[s] = pairs.any(end.from, s, used);
          work_ += double(end.states() * end.otherStates() + kept_[n].size());
          changed |= std::erase_if(kept_[n], [&](int32_t k) { return !allowed[size_t(end.state()[size_t(k)])]; }) > 0;
        }
    }
  }

  using Edge = std::tuple<const StateTable *, bool, const SharedCopies *, size_t>;
  static Edge edgeOf(const End &end) { return {end.edge->table.get(), end.from, end.shared, end.reader}; }

  /// [y * states + x]: what x costs more than y at most, whatever state the other end has and whatever other readers of
  /// a share want; kTooMuch or more where that forbids x alone, -infinity where y cannot stand anywhere. One y is held
  /// against many x, which lie side by side.
  static std::vector<double> excess(const End &end, double &work) {
    std::vector<double> d;
    if (end.shared && end.from && wantsSeveral(end)) {
      excessOfProducer(end, d, work);
      return d;
    }
    constexpr size_t kRows = 4;
    const size_t n = end.states(), m = end.otherStates(), rows = (n + kRows - 1) / kRows * kRows;
    std::vector<double> x(rows * m, 0), y(m * n), byX(rows * n, -kInfinity);
    for (size_t s = 0; s < n; ++s)
      for (size_t t = 0; t < m; ++t) {
        const Cost cost = end.cost(s, t);
        x[s * m + t] = double(cost);
        y[t * n + s] = cost >= kForbidden ? kInfinity : double(cost);
      }
    if (end.shared && !end.from)
      leaveOwnPrices(end, y);
    for (size_t s = 0; s < rows; s += kRows)
      mostExcess(&x[s * m], y.data(), m, n, &byX[s * n]);
    d.resize(n * n);
    for (size_t s = 0; s < n; ++s)
      for (size_t t = 0; t < n; ++t)
        d[t * n + s] = byX[s * n + t];
    work += kTripleWork * double(n * n * m);
    if (end.shared && end.from)
      for (double &excess : d)
        excess = saved(end, excess);
    if (end.shared && !end.from)
      for (size_t s = 0; s < n; ++s)
        d[s * n + s] = std::min(0.0, d[s * n + s]); // the same copies, whoever pays
    return d;
  }

  /// The number of a list. Equal lists have one.
  template <typename T> static int32_t numberOf(std::map<std::vector<T>, int32_t> &numbers, std::vector<T> list) {
    return numbers.try_emplace(std::move(list), int32_t(numbers.size())).first->second;
  }

  /// The states of the options that are left, ascending, and the number of this list.
  struct Among {
    const std::vector<int32_t> *of; // by option
    std::vector<int32_t> states;
    int32_t number;
  };
  /// The reference is valid until options of the node go.
  const Among &statesAmong(size_t node, const std::vector<int32_t> &state, size_t count) {
    for (const Among &known : amongOf_[node])
      if (known.of == &state)
        return known;
    seen_.assign(count, 0);
    for (int32_t k : kept_[node])
      seen_[size_t(state[size_t(k)])] = 1;
    std::vector<int32_t> states;
    for (size_t s = 0; s < count; ++s)
      if (seen_[s])
        states.push_back(int32_t(s));
    const int32_t number = numberOf(listNumbers_, states);
    amongOf_[node].push_back({&state, std::move(states), number});
    return amongOf_[node].back();
  }

  /// Like `excess`, for the options that are left.
  const std::vector<double> &excessAmong(size_t node, const End &end) {
    const size_t other = size_t(end.from ? end.edge->to : end.edge->from), n = end.states();
    const Among &ofMine = statesAmong(node, end.state(), n);
    const Among &ofTheirs = statesAmong(other, end.from ? *end.edge->toState : *end.edge->fromState, end.otherStates());
    const std::vector<int32_t> &mine = ofMine.states, &theirs = ofTheirs.states;
    std::vector<char> wanted; // by other readers, by copy
    if (end.shared && !end.from) {
      wanted.resize(end.shared->prices.columns, 0);
      for (size_t r = 0; r < end.share->edges.size(); ++r) {
        const WideEdge &edge = wide_.edges[size_t(end.share->edges[r])];
        if (r == end.reader)
          continue;
        for (int32_t state : statesAmong(size_t(edge.to), *edge.toState, edge.table->columns).states)
          for (int32_t copy : end.shared->wants[r][size_t(state)])
            wanted[size_t(copy)] = 1;
      }
    }
    auto [it, fresh] =
        excessAmong_.try_emplace({edgeOf(end), ofMine.number, ofTheirs.number, numberOf(wantedNumbers_, wanted)});
    std::vector<double> &d = it->second;
    if (!fresh)
      return d;
    d.assign(n * n, -kInfinity);
    constexpr size_t kRows = 4;
    const size_t few = mine.size(), others = theirs.size(), rows = (few + kRows - 1) / kRows * kRows;
    const bool copyByCopy = end.shared && end.from && wantsSeveral(end);
    // By own state and other state, and the other way round what is paid in any case.
    std::vector<double> paid(rows * others, 0), least(others * few), byX(rows * few, -kInfinity);
    for (size_t t = 0; t < others && !copyByCopy; ++t)
      for (size_t y = 0; y < few; ++y) {
        double &sum = least[t * few + y];
        const Cost cost = end.cost(size_t(mine[y]), size_t(theirs[t]));
        paid[y * others + t] = double(cost);
        sum = cost >= kForbidden ? kInfinity : double(cost);
        if (!wanted.empty() && sum < kInfinity)
          for (int32_t copy : end.shared->wants[end.reader][size_t(mine[y])])
            if (wanted[size_t(copy)])
              sum -= priceOf(end, size_t(theirs[t]), copy);
      }
    for (size_t x = 0; x < rows && !copyByCopy; x += kRows)
      mostExcess(&paid[x * others], least.data(), others, few, &byX[x * few]);
    for (size_t x = 0; x < few; ++x)
      for (size_t y = 0; y < few; ++y) {
        double &most = d[size_t(mine[y]) * n + size_t(mine[x])];
        most = byX[x * few + y];
        for (size_t t = 0; t < others && copyByCopy; ++t)
          most = std::max(most, excessBeside(end, size_t(mine[x]), size_t(mine[y]), size_t(theirs[t])));
        if (end.shared && end.from && !copyByCopy)
          most = saved(end, most);
        if (end.shared && !end.from && x == y)
          most = std::min(0.0, most);
      }
    work_ += double(mine.size() * mine.size() * theirs.size());
    return d;
  }

  /// What a producer saves beside one reader: that reader's part at least, where all readers want the same copy.
  static double saved(const End &end, double excess) {
    return excess < 0 ? excess / double(end.shared->wants.size()) : excess;
  }
  static bool wantsSeveral(const End &end) {
    const auto &wants = end.shared->wants[end.reader];
    return std::any_of(wants.begin(), wants.end(), [](const auto &copies) { return copies.size() > 1; });
  }
  static double priceOf(const End &end, size_t row, int32_t copy) {
    const Cost cost = end.shared->prices.costs[row * end.shared->prices.columns + size_t(copy)];
    return cost >= kForbidden ? kInfinity : double(cost);
  }

  /// Makes `y`, by state of the producer and of this reader, what the reader pays even if other readers want all that
  /// they may.
  static void leaveOwnPrices(const End &end, std::vector<double> &y) {
    const size_t n = end.states();
    std::vector<char> others(end.shared->prices.columns, 0);
    for (size_t r = 0; r < end.shared->wants.size(); ++r)
      for (const auto &copies : end.shared->wants[r])
        for (int32_t copy : copies)
          others[size_t(copy)] |= r != end.reader;
    for (size_t row = 0; row < end.otherStates(); ++row)
      for (size_t s = 0; s < n; ++s)
        for (int32_t copy : end.shared->wants[end.reader][s])
          if (double &sum = y[row * n + s]; sum < kInfinity && others[size_t(copy)])
            sum -= priceOf(end, row, copy);
  }

  /// The same where a reader may want several copies at once: copy by copy.
  static void excessOfProducer(const End &end, std::vector<double> &d, double &work) {
    const size_t n = end.states();
    d.assign(n * n, -kInfinity);
    for (size_t x = 0; x < n; ++x)
      for (size_t y = 0; y < n; ++y)
        for (size_t t = 0; t < end.otherStates(); ++t)
          d[y * n + x] = std::max(d[y * n + x], excessBeside(end, x, y, t));
    work += 2 * double(n * n * end.otherStates());
  }
  /// Of a producer in state x over state y beside a reader in state t.
  static double excessBeside(const End &end, size_t x, size_t y, size_t t) {
    double sum = 0;
    for (int32_t copy : end.shared->wants[end.reader][t]) {
      const double mine = priceOf(end, x, copy), other = priceOf(end, y, copy);
      if (other == kInfinity)
        return -kInfinity;
      sum += mine == kInfinity ? 2 * kTooMuch : saved(end, mine - other);
    }
    return sum;
  }

  /// Leaves the undominated options of a node, and the protected one.
  void keep(size_t n, std::vector<int32_t> undominated) {
    std::vector<int32_t> &mine = kept_[n];
    const int32_t stays = protect_.empty() ? -1 : protect_[n];
    if (stays >= 0 && std::binary_search(mine.begin(), mine.end(), stays) &&
        !std::binary_search(undominated.begin(), undominated.end(), stays))
      undominated.insert(std::lower_bound(undominated.begin(), undominated.end(), stays), stays);
    mine = std::move(undominated);
    amongOf_[n].clear();
  }

  /// Equal in nodes that keep the same options.
  using Key = std::pair<std::vector<const void *>, std::vector<int32_t>>;
  Key keyOf(size_t n) const {
    const WideNode &node = wide_.nodes[n];
    std::vector<const void *> key = {node.costs.get()};
    for (const WideUse &use : node.uses)
      key.push_back(use.bytes.get());
    for (const End &end : ends_[n]) {
      key.push_back(end.edge->table.get());
      key.push_back(&end.state());
      key.push_back(end.from ? this : nullptr); // any mark that is no table
      key.push_back(end.shared ? &end.shared->wants[end.reader] : nullptr);
    }
    return {std::move(key), kept_[n]};
  }

  /// By node what it keeps, which does not depend on what others keep: so each is a piece of work.
  std::vector<const std::vector<int32_t> *> findUndominated(int threads) {
    struct Node {
      size_t number;
      std::vector<int32_t> *kept;
      double work = 0;
    };
    struct Table {
      const End *end;
      std::vector<double> *excess;
      double work = 0;
    };
    std::vector<const std::vector<int32_t> *> found(kept_.size(), nullptr);
    std::vector<Node> nodes;
    std::vector<Table> tables;
    for (size_t n = 0; n < kept_.size(); ++n) {
      if (kept_[n].size() < 2)
        continue;
      auto [it, fresh] = known_.try_emplace(keyOf(n));
      found[n] = &it->second;
      if (!fresh)
        continue;
      nodes.push_back({n, &it->second});
      for (const End &end : ends_[n])
        if (auto [at, first] = excess_.try_emplace(edgeOf(end)); first)
          tables.push_back({&end, &at->second});
    }
    inParallel(threads, tables.size(), [&](size_t i) { *tables[i].excess = excess(*tables[i].end, tables[i].work); });
    inParallel(threads, nodes.size(),
               [&](size_t i) { *nodes[i].kept = undominatedOf(nodes[i].number, nodes[i].work); });
    for (const Table &table : tables)
      work_ += table.work;
    for (const Node &node : nodes)
      work_ += node.work;
    return found;
  }

  /// Where in a table of slots the pair is looked for first.
  static size_t slotOf(int32_t number, int64_t value) {
    uint64_t mixed = (uint64_t(value) ^ uint64_t(number) << 40) * 0x9E3779B97F4A7C15; // by Fibonacci hashing
    return size_t(mixed ^ mixed >> 32);
  }

  /// Keeps the first of all options that have the same states and bytes, which is the cheapest.
  std::vector<int32_t> cheapestByState(size_t n, const std::vector<int32_t> &order, double &work) const {
    // A number, and a state or bytes: a number for both together. Slots have the place of its first option.
    std::vector<int32_t> number(order.size(), 0), both(order.size()), first;
    std::vector<int32_t> slots(std::bit_ceil(2 * order.size() + 1));
    auto tell = [&](auto valueOf) {
      std::fill(slots.begin(), slots.end(), -1);
      int32_t numbers = 0;
      for (size_t i = 0; i < order.size(); ++i) {
        const int64_t value = valueOf(size_t(order[i]));
        size_t at = slotOf(number[i], value) & (slots.size() - 1);
        while (slots[at] >= 0 &&
               (number[size_t(slots[at])] != number[i] || valueOf(size_t(order[size_t(slots[at])])) != value))
          at = (at + 1) & (slots.size() - 1);
        if (slots[at] < 0) {
          slots[at] = int32_t(i);
          both[i] = numbers++;
        } else {
          both[i] = both[size_t(slots[at])];
        }
      }
      std::swap(number, both);
    };
    for (const End &end : ends_[n])
      if (end.states() > 1)
        tell([&](size_t k) { return int64_t(end.state()[k]); });
    for (const WideUse &use : wide_.nodes[n].uses)
      tell([&](size_t k) { return (*use.bytes)[k]; });
    // Numbers count up in the order of their first option.
    for (size_t i = 0, next = 0; i < order.size(); ++i)
      if (size_t(number[i]) == next) {
        first.push_back(order[i]);
        ++next;
      }
    work += kTellApartWork * double(order.size());
    return first;
  }

  /// What one option costs more than others beside one edge.
  struct Side {
    const std::vector<double> *excess;
    size_t states;
    std::vector<int32_t> state; // by place in `order`
    const double *row;          // of the option that is held against others
  };

  /// The cheapest options that are left, once there are kRivals of them: with these all others are compared. What they
  /// cost more than an option is a sum of rows, one for each edge, of which the option's states say which.
  class Rivals {
  public:
    /// `first`: their places in `order`.
    Rivals(const WideNode &node, const std::vector<Side> &sides, const std::vector<int32_t> &order,
           const std::vector<size_t> &first)
        : node_(node), sides_(sides), order_(order), rows_(sides.size()), sums_(kRivals), taken_(sides.size()) {
      for (size_t s = 0; s < sides.size(); ++s) {
        rows_[s].resize(sides[s].states);
        for (size_t j : first)
          states_.push_back(sides[s].state[j]);
      }
      for (size_t j : first)
        costs_.push_back(double((*node.costs)[size_t(order[j])]));
      for (const WideUse &use : node.uses)
        for (size_t j : first)
          bytes_.push_back(double((*use.bytes)[size_t(order[j])]));
    }

    /// The number of the first of them that may dominate the option at place i, from `from` on; kRivals: none does.
    size_t next(size_t i, size_t from) {
      if (from == 0)
        sum(i);
      while (from < kRivals && sums_[from] > 0)
        ++from;
      return from;
    }

  private:
    void sum(size_t i) {
      for (size_t s = 0; s < sides_.size(); ++s)
        taken_[s] = row(s, size_t(sides_[s].state[i]));
      const size_t option = size_t(order_[i]);
      sumRows(costs_.data(), double((*node_.costs)[option]), taken_.data(), taken_.size(), sums_.data());
      for (size_t u = 0; u < node_.uses.size(); ++u)
        leaveOutLarger(&bytes_[u * kRivals], double((*node_.uses[u].bytes)[option]), sums_.data());
    }
    /// By rival, what it costs more beside the edge than an option in this state. Infinities where one of them alone is
    /// allowed; where they meet, the sum is no number.
    const double *row(size_t s, size_t state) {
      std::vector<double> &made = rows_[s][state];
      if (!made.empty())
        return made.data();
      made.resize(kRivals);
      const double *excess = &(*sides_[s].excess)[state * sides_[s].states];
      for (size_t r = 0; r < kRivals; ++r) {
        const double x = excess[states_[s * kRivals + r]];
        made[r] = x >= kTooMuch ? kInfinity : x < -kTooMuch ? -kInfinity : x;
      }
      return made.data();
    }

    const WideNode &node_;
    const std::vector<Side> &sides_;
    const std::vector<int32_t> &order_;
    std::vector<double> costs_, bytes_;                  // by rival; by use and rival
    std::vector<int32_t> states_;                        // by side and rival
    std::vector<std::vector<std::vector<double>>> rows_; // by side, state and rival; empty until it is needed
    std::vector<double> sums_;                           // by rival
    std::vector<const double *> taken_;
  };

  std::vector<int32_t> undominatedOf(size_t n, double &work) {
    const WideNode &node = wide_.nodes[n];
    const std::vector<Cost> &costs = *node.costs;
    std::vector<int32_t> order = kept_[n];
    std::stable_sort(order.begin(), order.end(),
                     [&](int32_t a, int32_t b) { return costs[size_t(a)] < costs[size_t(b)]; });
    order = cheapestByState(n, order, work);
    std::vector<Side> sides;
    for (const End &end : ends_[n]) {
      const std::vector<double> &excess = among_ ? excessAmong(n, end) : excess_.at(edgeOf(end));
      Side &side = sides.emplace_back(Side{&excess, end.states(), {}, nullptr});
      for (int32_t k : order)
        side.state.push_back(end.state()[size_t(k)]);
    }
    auto dominates = [&](size_t j, size_t i) {
      for (const WideUse &use : node.uses)
        if ((*use.bytes)[size_t(order[j])] > (*use.bytes)[size_t(order[i])])
          return false;
      double sum = double(costs[size_t(order[j])] - costs[size_t(order[i])]);
      for (const Side &side : sides) {
        const double x = side.row[size_t(side.state[j])];
        if (x >= kTooMuch)
          return false;
        if (x < -kTooMuch)
          return true; // no choice of the neighbour allows i
        sum += x;
      }
      return sum <= 0;
    };
    // What dominates an option that has gone dominates whatever that one did. Of two that dominate each other the later
    // one stays. Options are held against the cheapest ones that are left: those before them, and while these are few
    // those behind them, too. Once there are enough before them, all others are held against the same ones.
    std::vector<int32_t> result;
    std::vector<size_t> left; // places of the first of them
    // Their costs and, by side, their states; and the same of all options.
    std::vector<double> costsOfLeft, costsOfAll;
    std::vector<std::vector<int32_t>> statesOfLeft(sides.size());
    for (int32_t k : order)
      costsOfAll.push_back(double(costs[size_t(k)]));
    std::vector<const double *> rows(sides.size());
    std::vector<const int32_t *> states(sides.size());
    double sums[kAtOnce];
    // The number of the first of `number` options that dominates the one at place i; `number`: none does. Their places
    // are placeOf(0), placeOf(1) ..., their costs lie side by side, and so do their states on each side. A sum that is
    // positive says that an option does not dominate it.
    auto firstOf = [&](size_t i, size_t number, const double *costsOf, auto statesOf, auto placeOf) {
      for (size_t begin = 0, some; begin < number; begin += some) {
        some = std::min(begin ? kAtOnce : kFirst, number - begin); // one of the cheapest often does
        for (size_t s = 0; s < sides.size(); ++s)
          states[s] = statesOf(s) + begin;
        sumByState(costsOf + begin, costsOfAll[i], rows.data(), states.data(), sides.size(), some, sums);
        for (size_t r = 0; r < some; ++r)
          if (!(sums[r] > 0) && dominates(placeOf(begin + r), i))
            return begin + r;
      }
      return number;
    };
    std::optional<Rivals> rivals;
    size_t pairs = 0;
    for (size_t i = 0; i < order.size(); ++i) {
      for (size_t s = 0; s < sides.size(); ++s)
        rows[s] = sides[s].row = &(*sides[s].excess)[size_t(sides[s].state[i]) * sides[s].states];
      bool gone = false;
      if (left.size() == kRivals) {
        if (!rivals)
          rivals.emplace(node, sides, order, left);
        size_t r = rivals->next(i, 0);
        while (r < kRivals && !dominates(left[r], i))
          r = rivals->next(i, r + 1);
        gone = r < kRivals;
        pairs += gone ? r + 1 : r;
      } else {
        const size_t behind = std::min(kRivals - left.size(), order.size() - (i + 1));
        size_t r = firstOf(
            i, left.size(), costsOfLeft.data(), [&](size_t s) { return statesOfLeft[s].data(); },
            [&](size_t at) { return left[at]; });
        if (r == left.size())
          r += firstOf(
              i, behind, costsOfAll.data() + i + 1, [&](size_t s) { return sides[s].state.data() + i + 1; },
              [&](size_t at) { return i + 1 + at; });
        gone = r < left.size() + behind;
        pairs += gone ? r + 1 : r;
      }
      if (gone)
        continue;
      if (left.size() < kRivals) {
        left.push_back(i);
        costsOfLeft.push_back(costsOfAll[i]);
        for (size_t s = 0; s < sides.size(); ++s)
          statesOfLeft[s].push_back(sides[s].state[i]);
      }
      result.push_back(order[i]);
    }
    work += double(pairs) * double(1 + sides.size());
    std::sort(result.begin(), result.end());
    return result;
  }

  const WideGraph &wide_;
  const std::vector<int32_t> &protect_;
  double &work_;
  const bool among_;
  Kept kept_;
  std::vector<std::vector<End>> ends_;
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::map<Edge, std::vector<double>> excess_;
  std::map<std::tuple<Edge, int32_t, int32_t, int32_t>, std::vector<double>> excessAmong_; // lists by their numbers
  std::map<std::vector<int32_t>, int32_t> listNumbers_;
  std::map<std::vector<char>, int32_t> wantedNumbers_;
  std::vector<std::deque<Among>> amongOf_; // by node
  std::vector<char> seen_;
  std::map<Key, std::vector<int32_t>> known_;
};

} // namespace

Kept withPartners(const WideGraph &wide, double &work) {
  return Pruning(wide, everyOption(wide), false, {}, work).partners();
}

Kept undominated(const WideGraph &wide, const std::vector<int32_t> &protect, double &work, int threads) {
  return Pruning(wide, everyOption(wide), false, protect, work).run(threads);
}

Kept undominatedAmong(const WideGraph &wide, Kept kept, const std::vector<int32_t> &protect, double &work) {
  return Pruning(wide, std::move(kept), true, protect, work).run(1);
}

} // namespace tessera::strategies
