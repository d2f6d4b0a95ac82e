#include "strategies/search/wide/WideDual.h"

#include "strategies/search/bound/Dual.h"
#include "strategies/search/problem/Clones.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

namespace tessera::strategies {

namespace {

/// Stands for kForbidden: eleven days in nanoseconds. Sums with it keep their digits in doubles.
constexpr double kNever = 1e15;
/// Smaller parts of prices stay where they are: nanoseconds.
constexpr double kLeastPart = 1;
/// The share of what a reader does not need that it gives away after a sweep.
constexpr double kMovedPart = 0.5;
/// Stands for what a reader can give away of a copy that it never wants.
constexpr double kNotWanted = -std::numeric_limits<double>::infinity();

/// sums[i * columns + j] = a[i] + b[j], or the larger of that and itself
TESSERA_CLONES void mostSums(const double *a, const double *b, size_t rows, size_t columns, bool first, double *sums) {
  for (size_t i = 0; i < rows; ++i) {
    double *__restrict row = sums + i * columns;
    const double ai = a[i];
    if (first)
      for (size_t j = 0; j < columns; ++j)
        row[j] = ai + b[j];
    else
      for (size_t j = 0; j < columns; ++j)
        row[j] = ai + b[j] > row[j] ? ai + b[j] : row[j];
  }
}

/// least[i] = costs[i] - least[i], or 0 if that is negative
TESSERA_CLONES void beyond(const double *costs, size_t count, double *__restrict least) {
  for (size_t i = 0; i < count; ++i) {
    const double more = costs[i] - least[i];
    least[i] = more > 0 ? more : 0;
  }
}

/// least[i] = min(itself, slack[i] / number)
TESSERA_CLONES void lowerTo(const double *slack, double number, size_t count, double *__restrict least) {
  for (size_t i = 0; i < count; ++i) {
    const double each = slack[i] / number;
    least[i] = each < least[i] ? each : least[i];
  }
}

/// What one reader gives away of its parts of prices, and whether it needs more.
TESSERA_CLONES void giveAway(const double *free, size_t count, double *__restrict given, double *__restrict needing) {
  for (size_t i = 0; i < count; ++i) {
    given[i] += free[i] >= kLeastPart ? kMovedPart * free[i] : 0;
    needing[i] += free[i] < kLeastPart && free[i] != kNotWanted ? 1 : 0;
  }
}

/// A pass below the best bound by this part of it has stepped too far: its step is taken back. bound/Dual.cpp has the
/// same number and what half and twice of it do.
constexpr double kFallen = 0.2;

// Work in steps, as bound/Dual.cpp counts it:
constexpr double kEntryWork = 0.4; // per entry of a table: vector units take several at once
constexpr double kOptionWork = 4;  // per option at an end of an edge or with memory

/// turned[j * rows + i] = table[i * columns + j], by squares that stay in the cache.
void turn(const std::vector<double> &table, size_t rows, size_t columns, std::vector<double> &turned) {
  constexpr size_t kSquare = 16;
  turned.resize(rows * columns);
  for (size_t i0 = 0; i0 < rows; i0 += kSquare)
    for (size_t j0 = 0; j0 < columns; j0 += kSquare)
      for (size_t i = i0; i < std::min(rows, i0 + kSquare); ++i)
        for (size_t j = j0; j < std::min(columns, j0 + kSquare); ++j)
          turned[j * rows + i] = table[i * columns + j];
}

/// a[i] += x[state[i]] and b[i] += y[state[i]]
TESSERA_CLONES void addByState(const double *x, const double *y, const int32_t *state, size_t count,
                               double *__restrict a, double *__restrict b) {
  for (size_t i = 0; i < count; ++i) {
    a[i] += x[state[i]];
    b[i] += y[state[i]];
  }
}

/// a[i] += x[state[i]] and b[i] += x[state[i]]
TESSERA_CLONES void addToBoth(const double *x, const int32_t *state, size_t count, double *__restrict a,
                              double *__restrict b) {
  for (size_t i = 0; i < count; ++i) {
    const double more = x[state[i]];
    a[i] += more;
    b[i] += more;
  }
}

/// a[i] += x[state[i]]
TESSERA_CLONES void addOneByState(const double *x, const int32_t *state, size_t count, double *__restrict a) {
  for (size_t i = 0; i < count; ++i)
    a[i] += x[state[i]];
}

/// a[i] -= x[state[i]]
TESSERA_CLONES void takeByState(const double *x, const int32_t *state, size_t count, double *__restrict a) {
  for (size_t i = 0; i < count; ++i)
    a[i] -= x[state[i]];
}

/// Lists among which leastByState divides options.
constexpr size_t kTurns = 4;

/// least[t] = min over i with state[i] = t of a[i]. Every state has an option. Options side by side often have one
/// state, and each would wait for the one before it: so several lists take turns where options are many more than
/// states. `least` has room for all lists.
void leastByState(const double *a, const int32_t *state, size_t count, size_t states, double *least) {
  std::fill_n(least, states * kTurns, std::numeric_limits<double>::infinity());
  auto lower = [&](size_t i, double *list) {
    double &at = list[state[i]];
    at = std::min(at, a[i]);
  };
  if (count < 2 * kTurns * states) {
    for (size_t i = 0; i < count; ++i)
      lower(i, least);
    return;
  }
  size_t i = 0;
  for (; i + kTurns <= count; i += kTurns)
    for (size_t turn = 0; turn < kTurns; ++turn)
      lower(i + turn, least + turn * states);
  for (; i < count; ++i)
    lower(i, least);
  for (size_t turn = 1; turn < kTurns; ++turn)
    for (size_t t = 0; t < states; ++t)
      least[t] = std::min(least[t], least[turn * states + t]);
}

/// The least of `count` numbers, one at least. The last lanes may have some of those before them again.
TESSERA_CLONES double leastOf(const double *a, size_t count) {
  double least = a[0];
  if (count < kLanes) {
    for (size_t i = 1; i < count; ++i)
      least = a[i] < least ? a[i] : least;
    return least;
  }
  Lanes lanes = least - Lanes{};
  for (size_t i = 0;; i = i + 2 * kLanes <= count ? i + kLanes : count - kLanes) {
    Lanes next;
    std::memcpy(&next, a + i, sizeof next);
    lanes = next < lanes ? next : lanes;
    if (i + kLanes == count)
      break;
  }
  for (size_t lane = 0; lane < kLanes; ++lane)
    least = lanes[lane] < least ? lanes[lane] : least;
  return least;
}

/// The nodes among the kept options, without edges.
FlatProblem nodesOf(const WideGraph &wide, const Kept &kept) {
  WideGraph nodes;
  nodes.nodes = wide.nodes;
  nodes.memoryLimit = wide.memoryLimit;
  return FlatProblem(Problem(denseGraph(nodes, kept)));
}

} // namespace

WideDual::WideDual(const WideGraph &wide, const Kept &kept)
    : flat_(nodesOf(wide, kept)), options_(kept), numShares_(wide.shares.size()), prices_(flat_),
      kept_(flat_.costs.size(), 0), chosen_(wide.nodes.size(), 0), best_(-std::numeric_limits<double>::infinity()) {
  // Equal lists of kept states, and equal tables, are made once.
  std::map<std::vector<int32_t>, size_t> lists;
  std::vector<size_t> listOf; // by node
  for (const std::vector<int32_t> &options : kept)
    listOf.push_back(lists.try_emplace(options, lists.size()).first->second);
  std::map<std::pair<const std::vector<int32_t> *, size_t>, const States *> known;
  auto statesOf = [&](const std::vector<int32_t> &state, int32_t node) {
    const std::vector<int32_t> &options = kept[size_t(node)];
    const States *&made = known[{&state, listOf[size_t(node)]}];
    if (!made) {
      States &states = states_.emplace_back();
      std::map<int32_t, int32_t> numbers;
      for (int32_t k : options) {
        auto [it, fresh] = numbers.try_emplace(state[size_t(k)], int32_t(numbers.size()));
        if (fresh)
          states.inTable.push_back(state[size_t(k)]);
        states.ofOption.push_back(it->second);
      }
      made = &states;
    }
    return made;
  };
  std::map<std::tuple<const StateTable *, const States *, const States *>, const WideTable *> tables;
  for (const WideNode &node : wide.nodes)
    sizes_.push_back(node.costs->size());
  size_t places = 0, most = 1, states = 1;
  std::vector<std::pair<const States *, const States *>> ends;
  std::vector<std::pair<size_t, size_t>> messages;
  std::vector<const WideTable *> tableOf;
  for (const WideEdge &edge : wide.edges) {
    const States *from = statesOf(*edge.fromState, edge.from);
    const States *to = statesOf(*edge.toState, edge.to);
    const size_t rows = from->inTable.size(), columns = to->inTable.size();
    const WideTable *&table = tables[{edge.table.get(), from, to}];
    if (!table) {
      WideTable &made = tables_.emplace_back();
      made.costs.resize(rows * columns);
      for (size_t r = 0; r < rows; ++r) {
        const Cost *all = &edge.table->costs[size_t(from->inTable[r]) * edge.table->columns];
        double *row = &made.costs[r * columns];
        for (size_t c = 0; c < columns; ++c) {
          const Cost cost = all[to->inTable[c]];
          row[c] = cost >= kForbidden ? kNever : double(cost);
        }
      }
      turn(made.costs, rows, columns, made.turned);
      table = &made;
    }
    ends.push_back({from, to});
    messages.push_back({places, places + rows});
    edges_.push_back({{edge.table->rows, edge.table->columns}, {from, to}, places});
    tableOf.push_back(table);
    places += rows + columns;
    states = std::max({states, rows, columns});
    work_ += kEntryWork * double(rows * columns) + kOptionWork * double(from->ofOption.size() + to->ofOption.size());
  }
  addShares(wide, ends, messages, tableOf);
  firstLink_.assign(wide.nodes.size() + 1, 0);
  for (const WideEdge &edge : wide.edges)
    for (int32_t end : {edge.from, edge.to})
      ++firstLink_[size_t(end) + 1];
  std::partial_sum(firstLink_.begin(), firstLink_.end(), firstLink_.begin());
  links_.resize(2 * wide.edges.size());
  std::vector<size_t> next(firstLink_.begin(), firstLink_.end() - 1);
  for (size_t e = 0; e < wide.edges.size(); ++e) {
    const WideEdge &edge = wide.edges[e];
    const auto [from, to] = ends[e];
    const auto [atFrom, atTo] = messages[e];
    const size_t rows = from->inTable.size(), columns = to->inTable.size();
    const int32_t *const ofFrom = from->ofOption.data(), *const ofTo = to->ofOption.data();
    links_[next[size_t(edge.from)]++] = {edge.to, tableOf[e]->turned.data(), rows, columns, ofFrom, ofTo, atFrom, atTo};
    links_[next[size_t(edge.to)]++] = {edge.from, tableOf[e]->costs.data(), columns, rows, ofTo, ofFrom, atTo, atFrom};
  }
  for (int32_t v = 0; v < flat_.count(); ++v)
    most = std::max(most, size_t(flat_.size(v)));
  work_ += kOptionWork * double(flat_.costs.size() + flat_.extras.size());
  message_.assign(places, 0);
  bestMessage_ = message_;
  total_.resize(most);
  score_.resize(most);
  pushed_.resize(kTurns * states);
  prices_.price(unary_);
}

void WideDual::addShares(const WideGraph &wide, const Ends &ends,
                         const std::vector<std::pair<size_t, size_t>> &messages,
                         std::vector<const WideTable *> &tableOf) {
  std::map<std::pair<const SharedCopies *, std::vector<const States *>>, Shared *> known;
  for (size_t s = 0; s < wide.shares.size(); ++s) {
    const WideShare &share = wide.shares[s];
    std::vector<const States *> states = {ends[size_t(share.edges.front())].first};
    Member member{s, wide.edges[size_t(share.edges.front())].from, {}, {}};
    for (int32_t e : share.edges) {
      states.push_back(ends[size_t(e)].second);
      member.to.push_back(wide.edges[size_t(e)].to);
      member.messages.push_back(messages[size_t(e)]);
    }
    auto [it, fresh] = known.try_emplace({share.copies.get(), states}, nullptr);
    if (fresh) {
      Shared &made = shared_.emplace_back();
      it->second = &made;
      made.handed = states.front();
      for (size_t r = 1; r < states.size(); ++r)
        made.readers.emplace_back().states = states[r];
      divide(*share.copies, made);
    }
    Shared &shared = *it->second;
    shared.disjoint &= share.disjoint(wide);
    if (shared.copies.empty())
      continue;
    for (size_t r = 0; r < share.edges.size(); ++r) {
      tableOf[size_t(share.edges[r])] = &shared.readers[r].table;
      work_ += 0.6 * double(shared.readers[r].table.costs.size());
    }
    shared.members.push_back(std::move(member));
  }
}

/// Finds the copies that two readers may want still, and divides their prices evenly.
void WideDual::divide(const SharedCopies &all, Shared &shared) {
  const size_t rows = shared.handed->inTable.size();
  auto wants = [&](size_t r, size_t state) -> const std::vector<int32_t> & {
    return all.wants[r][size_t(shared.readers[r].states->inTable[state])];
  };
  auto price = [&](size_t row, int32_t copy) {
    return all.prices.costs[size_t(shared.handed->inTable[row]) * all.prices.columns + size_t(copy)];
  };
  std::vector<int> wanting(all.prices.columns, 0);
  for (size_t r = 0; r < shared.readers.size(); ++r) {
    std::vector<char> wanted(all.prices.columns, 0);
    for (size_t t = 0; t < shared.readers[r].states->inTable.size(); ++t)
      for (int32_t copy : wants(r, t))
        wanted[size_t(copy)] = 1;
    for (size_t copy = 0; copy < wanting.size(); ++copy)
      wanting[copy] += wanted[copy];
  }
  std::vector<int32_t> place(wanting.size(), -1);
  for (int32_t copy = 0; copy < int32_t(wanting.size()); ++copy) {
    bool costs = false;
    for (size_t row = 0; row < rows && !costs; ++row)
      costs = price(row, copy) > 0 && price(row, copy) < kForbidden;
    if (wanting[size_t(copy)] > 1 && costs) {
      place[size_t(copy)] = int32_t(shared.copies.size());
      shared.copies.push_back(copy);
    }
  }
  const size_t copies = shared.copies.size();
  std::vector<Cost> full(wanting.size() * rows); // by copy and state of the producer
  for (size_t row = 0; row < rows; ++row)
    for (size_t copy = 0; copy < wanting.size(); ++copy)
      full[copy * rows + row] = price(row, int32_t(copy));
  for (int32_t copy : shared.copies)
    for (size_t row = 0; row < rows; ++row) {
      const Cost cost = full[size_t(copy) * rows + row];
      shared.costs.push_back(cost > 0 && cost < kForbidden);
    }
  for (size_t r = 0; r < shared.readers.size(); ++r) {
    Reader &reader = shared.readers[r];
    const size_t columns = reader.states->inTable.size();
    reader.with.resize(copies);
    reader.wants.assign(columns, 0);
    reader.part.assign(rows * copies, 0);
    reader.table.turned.assign(rows * columns, 0);
    for (size_t t = 0; t < columns; ++t)
      for (int32_t copy : wants(r, t)) {
        const int32_t at = place[size_t(copy)];
        if (at >= 0) {
          reader.with[size_t(at)].push_back(int32_t(t));
          reader.wanted.push_back({int32_t(t), at});
          ++reader.wants[t];
        }
        double *costs = &reader.table.turned[t * rows];
        const Cost *prices = &full[size_t(copy) * rows];
        const double parts = at < 0 ? 1 : wanting[size_t(copy)];
        for (size_t row = 0; row < rows; ++row)
          costs[row] =
              prices[row] >= kForbidden || costs[row] >= kNever ? kNever : costs[row] + double(prices[row]) / parts;
      }
    turn(reader.table.turned, columns, rows, reader.table.costs);
    for (size_t c = 0; c < copies; ++c)
      for (size_t row = 0; row < rows; ++row)
        if (shared.costs[c * rows + row] && !reader.with[c].empty())
          reader.part[c * rows + row] =
              double(full[size_t(shared.copies[c]) * rows + row]) / wanting[size_t(shared.copies[c])];
  }
}

/// Calls `visit` with each edge, each state of its ends as Known has them, and the place of the message here.
template <typename Visit> void WideDual::eachMessage(Visit visit) const {
  for (size_t e = 0; e < edges_.size(); ++e) {
    const Edge &edge = edges_[e];
    size_t begin = 0, place = edge.messages;
    for (int end : {0, 1}) {
      for (int32_t state : edge.ends[end]->inTable)
        visit(e, begin + size_t(state), place++);
      begin = edge.states[0];
    }
  }
}

WideDual::Known WideDual::known() const {
  Known known;
  known.forward = forward_;
  for (const Edge &edge : edges_)
    known.messages.emplace_back(edge.states[0] + edge.states[1], 0);
  eachMessage([&](size_t edge, size_t state, size_t place) { known.messages[edge][state] = message_[place]; });
  known.shares.resize(numShares_);
  for (const Shared &shared : shared_) {
    if (shared.members.empty())
      continue;
    auto parts = std::make_shared<Known::Parts>(Known::Parts{shared.copies, shared.handed->inTable, {}});
    for (const Reader &reader : shared.readers)
      parts->parts.push_back(reader.part);
    for (const Member &member : shared.members)
      known.shares[member.share] = parts;
  }
  return known;
}

void WideDual::begin(const Known &known) {
  forward_ = known.forward;
  eachMessage([&](size_t edge, size_t state, size_t place) { message_[place] = known.messages[edge][state]; });
  atBest_ = true;
  for (Shared &shared : shared_)
    if (!shared.members.empty())
      if (const auto &parts = known.shares[shared.members.front().share])
        takeParts(shared, *parts);
}

/// Divides prices as before. What readers had that do not want the copy any more goes to the others, evenly.
void WideDual::takeParts(Shared &shared, const Known::Parts &before) {
  const size_t rows = shared.handed->inTable.size();
  auto placesIn = [](const std::vector<int32_t> &list) {
    std::map<int32_t, size_t> places;
    for (size_t i = 0; i < list.size(); ++i)
      places[list[i]] = i;
    return places;
  };
  const std::map<int32_t, size_t> copies = placesIn(before.copies), handed = placesIn(before.rows);
  for (size_t c = 0; c < shared.copies.size(); ++c)
    for (size_t row = 0; row < rows; ++row) {
      const auto copy = copies.find(shared.copies[c]);
      const auto at = handed.find(shared.handed->inTable[row]);
      if (!shared.costs[c * rows + row] || copy == copies.end() || at == handed.end())
        continue;
      const size_t place = copy->second * before.rows.size() + at->second;
      double price = 0, known = 0, wanting = 0;
      for (size_t r = 0; r < shared.readers.size(); ++r)
        if (const Reader &reader = shared.readers[r]; !reader.with[c].empty()) {
          price += reader.part[c * rows + row];
          known += before.parts[r][place];
          ++wanting;
        }
      for (size_t r = 0; r < shared.readers.size(); ++r)
        if (Reader &reader = shared.readers[r]; !reader.with[c].empty())
          changePart(shared, reader, row, c,
                     before.parts[r][place] + (price - known) / wanting - reader.part[c * rows + row]);
    }
}

void WideDual::changePart(const Shared &shared, Reader &reader, size_t row, size_t copy, double amount) {
  const size_t rows = shared.handed->inTable.size(), columns = reader.wants.size();
  reader.part[copy * rows + row] += amount;
  for (int32_t t : reader.with[copy]) {
    reader.table.costs[row * columns + size_t(t)] += amount;
    reader.table.turned[size_t(t) * rows + row] += amount;
  }
}

/// Sets slack_, by state of the reader and of the producer: what the edge costs beyond the messages, in the member
/// where that is least.
void WideDual::leastSlack(const Shared &shared, size_t r) {
  const Reader &reader = shared.readers[r];
  const size_t rows = shared.handed->inTable.size(), columns = reader.wants.size();
  slack_.resize(rows * columns);
  for (const Member &member : shared.members)
    mostSums(&message_[member.messages[r].second], &message_[member.messages[r].first], columns, rows,
             &member == &shared.members.front(), slack_.data());
  beyond(reader.table.turned.data(), slack_.size(), slack_.data());
}

void WideDual::moveParts() {
  for (Shared &shared : shared_) {
    const size_t rows = shared.handed->inTable.size(), copies = shared.copies.size();
    if (copies == 0)
      continue;
    free_.resize(std::max(free_.size(), shared.readers.size())); // by reader, by copy and state
    given_.assign(copies * rows, 0);   // what is given away by those that need less than their part
    needing_.assign(copies * rows, 0); // how many need more
    for (size_t r = 0; r < shared.readers.size(); ++r) {
      const Reader &reader = shared.readers[r];
      leastSlack(shared, r);
      std::vector<double> &free = free_[r];
      free = reader.part;
      for (auto [t, c] : reader.wanted)
        lowerTo(&slack_[size_t(t) * rows], double(reader.wants[size_t(t)]), rows, &free[size_t(c) * rows]);
      for (size_t c = 0; c < copies; ++c)
        if (reader.with[c].empty())
          std::fill_n(&free[c * rows], rows, kNotWanted);
      giveAway(free.data(), free.size(), given_.data(), needing_.data());
    }
    for (size_t i = 0; i < copies * rows; ++i) {
      if (!shared.costs[i] || given_[i] <= 0 || needing_[i] <= 0)
        continue;
      for (size_t r = 0; r < shared.readers.size(); ++r)
        if (const double free = free_[r][i]; free != kNotWanted)
          changePart(shared, shared.readers[r], i % rows, i / rows,
                     free >= kLeastPart ? -kMovedPart * free : given_[i] / needing_[i]);
    }
  }
}

void WideDual::pull(const Link &link) {
  minPlus(link.table, &message_[link.theirs], link.theirStates, link.states, &message_[link.mine]);
}

double WideDual::pass(bool answers) {
  // The messages of the best bound stay as they are: others are made beside them.
  if (atBest_)
    std::swap(message_, bestMessage_);
  const double *const before = atBest_ ? bestMessage_.data() : message_.data();
  double bound = flat_.constant + prices_.constant();
  const int32_t n = flat_.count();
  for (int32_t i = 0; i < n; ++i) {
    const int32_t v = forward_ ? i : n - 1 - i;
    const size_t size = size_t(flat_.size(v)), first = flat_.first[size_t(v)];
    std::copy_n(&unary_[first], size, total_.begin());
    if (answers)
      std::copy_n(&unary_[first], size, score_.begin());
    size_t ahead = 0, behind = 0;
    const std::span<const Link> links = linksOf(v);
    for (const Link &link : links) {
      if ((link.other > v) == forward_) {
        ++ahead;
        if (answers)
          addToBoth(before + link.mine, link.state, size, score_.data(), total_.data());
        else
          addOneByState(before + link.mine, link.state, size, total_.data());
        continue;
      }
      ++behind;
      pull(link);
      const double *mine = &message_[link.mine];
      if (!answers) {
        addOneByState(mine, link.state, size, total_.data());
        continue;
      }
      // The other node has chosen already, and the row of its state is what the edge costs.
      const double *row = link.table + size_t(link.theirState[chosen_[size_t(link.other)]]) * link.states;
      addByState(row, mine, link.state, size, score_.data(), total_.data());
    }
    if (answers) {
      const double least = leastOf(score_.data(), size);
      chosen_[size_t(v)] = int32_t(std::find(score_.begin(), score_.begin() + long(size), least) - score_.begin());
    }
    const double share = ahead ? 1.0 / double(std::max(ahead, behind)) : 0;
    double *kept = &kept_[first];
    std::copy_n(total_.begin(), size, kept);
    const int32_t *pushedBy = nullptr; // edges to the readers of one value have the same states
    if (ahead)
      for (const Link &link : links)
        if ((link.other > v) == forward_) {
          if (std::exchange(pushedBy, link.state) != link.state) {
            leastByState(total_.data(), link.state, size, link.states, pushed_.data());
            for (size_t t = 0; t < link.states; ++t)
              pushed_[t] = std::min(kNever, share * pushed_[t]);
          }
#pragma GCC ivdep
          for (size_t t = 0; t < link.states; ++t)
            message_[link.mine + t] = before[link.mine + t] - pushed_[t];
          takeByState(pushed_.data(), link.state, size, kept);
        }
    bound += leastOf(kept, size);
  }
  forward_ = !forward_;
  last_ = bound;
  moveParts();
  atBest_ = bound > best_;
  if (atBest_) {
    if (bound > best_ + kRelativeRounding * std::abs(best_)) {
      stalled_ = 0;
      prices_.rose();
    }
    best_ = bound;
    bestPrices_ = prices_.values();
  }
  prices_.stalled(++stalled_);
  return bound;
}

void WideDual::restoreBest() {
  if (!std::exchange(atBest_, true))
    std::swap(message_, bestMessage_);
  prices_.set(bestPrices_);
  prices_.price(unary_);
}

void WideDual::setPrices(const std::vector<double> &prices) {
  if (prices.size() != flat_.room.size())
    return;
  prices_.set(prices);
  prices_.price(unary_);
}

void WideDual::stepPrices(double target) {
  if (!hasMemory())
    return;
  if (last_ < best_ - kFallen * std::abs(best_)) {
    restoreBest();
    prices_.retreat();
    return;
  }
  if (prices_.step(chosen_, last_, best_, target))
    prices_.price(unary_);
}

std::vector<double> WideDual::reducedCosts() const {
  // Rows of an edge at its later end have the minimum 0; at the other end the minimum may be positive.
  const bool lastForward = !forward_;
  std::vector<double> reduced(kept_), row;
  for (int32_t v = 0; v < flat_.count(); ++v) {
    const size_t size = size_t(flat_.size(v)), first = flat_.first[size_t(v)];
    const double least = *std::min_element(kept_.begin() + long(first), kept_.begin() + long(first + size));
    for (size_t s = 0; s < size; ++s)
      reduced[first + s] -= least;
    for (const Link &link : linksOf(v)) {
      if ((link.other > v) != lastForward)
        continue;
      row.resize(link.states);
      minPlus(link.table, &message_[link.theirs], link.theirStates, link.states, row.data());
      for (size_t s = 0; s < size; ++s)
        reduced[first + s] += row[size_t(link.state[s])] - message_[link.mine + size_t(link.state[s])];
    }
  }
  return reduced;
}

Offers WideDual::offers(double limit, size_t most) const {
  Offers offers{std::vector<std::vector<Offer>>(numShares_), limit, std::vector<std::vector<double>>(sizes_.size())};
  // By node and option beyond the node's least.
  std::vector<double> own(kept_);
  for (int32_t v = 0; v < flat_.count(); ++v) {
    const auto first = own.begin() + long(flat_.first[size_t(v)]), last = first + flat_.size(v);
    const double least = *std::min_element(first, last);
    std::for_each(first, last, [&](double &cost) { cost -= least; });
  }
  auto leastOfStates = [&](int32_t v, const States &states) {
    std::vector<double> least(states.inTable.size(), kNever);
    for (size_t s = 0; s < states.ofOption.size(); ++s)
      least[size_t(states.ofOption[s])] = std::min(least[size_t(states.ofOption[s])], own[flat_.first[size_t(v)] + s]);
    return least;
  };
  for (const Shared &shared : shared_)
    for (const Member &member : shared.members) {
      const size_t rows = shared.handed->inTable.size(), copies = shared.copies.size();
      // By state and copy: the least two over the readers.
      std::vector<std::pair<double, double>> two(rows * copies, {kNever, kNever});
      const std::vector<double> ofProducer = leastOfStates(member.from, *shared.handed);
      for (size_t r = 0; r < shared.readers.size(); ++r) {
        const Reader &reader = shared.readers[r];
        const size_t columns = reader.wants.size();
        const std::vector<double> ofReader = leastOfStates(member.to[r], *reader.states);
        const double *mine = &message_[member.messages[r].first], *theirs = &message_[member.messages[r].second];
        for (size_t row = 0; row < rows; ++row)
          for (size_t c = 0; c < copies; ++c) {
            double least = kNever;
            for (int32_t state : reader.with[c]) {
              const size_t t = size_t(state);
              const double slack = reader.table.costs[row * columns + t] - mine[row] - theirs[t];
              least = std::min(least, std::max(0.0, slack) + ofReader[t]);
            }
            auto &[first, second] = two[row * copies + c];
            second = std::min(second, std::max(first, least));
            first = std::min(first, least);
          }
      }
      // Where no node wants two copies, what both readers cost beyond the bound adds up.
      for (auto &[first, second] : two)
        second = shared.disjoint && second < kNever / 2 ? first + second : second;
      std::vector<Offer> &list = offers.list[member.share];
      for (size_t row = 0; row < rows; ++row) {
        std::vector<std::pair<double, int32_t>> order;
        for (size_t c = 0; c < copies; ++c)
          if (const double beyond = two[row * copies + c].second;
              shared.costs[c * rows + row] && beyond < kNever / 2 && ofProducer[row] + beyond <= limit)
            order.push_back({beyond, shared.copies[c]});
        std::sort(order.begin(), order.end());
        order.resize(std::min(order.size(), most));
        for (auto [beyond, copy] : order)
          list.push_back({shared.handed->inTable[row], copy, beyond, ofProducer[row] + beyond});
      }
      std::sort(list.begin(), list.end(),
                [](const Offer &a, const Offer &b) { return std::pair(a.state, a.copy) < std::pair(b.state, b.copy); });
      const size_t producer = size_t(member.from);
      if (std::vector<double> &beyond = offers.option[producer]; beyond.empty()) {
        beyond.assign(sizes_[producer], 0);
        for (size_t s = 0; s < options_[producer].size(); ++s)
          beyond[size_t(options_[producer][s])] = own[flat_.first[producer] + s];
      }
    }
  return offers;
}

} // namespace tessera::strategies
