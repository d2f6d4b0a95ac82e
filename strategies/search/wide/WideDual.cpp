#include "strategies/search/wide/WideDual.h"

#include "strategies/search/bound/Dual.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace tessera::strategies {

namespace {

/// Stands for kForbidden: eleven days in nanoseconds. Sums with it keep their digits in doubles.
constexpr double kNever = 1e15;

/// A pass below the best bound by this part of it has stepped too far: its step is taken back. bound/Dual.cpp has the
/// same number and what half and twice of it do.
constexpr double kFallen = 0.2;

// Work in steps, as bound/Dual.cpp counts it:
constexpr double kEntryWork = 0.4; // per entry of a table: vector units take several at once
constexpr double kOptionWork = 4;  // per option at an end of an edge or with memory

/// The nodes among the kept options, without edges.
FlatProblem nodesOf(const WideGraph &wide, const Kept &kept) {
  WideGraph nodes;
  nodes.nodes = wide.nodes;
  nodes.memoryLimit = wide.memoryLimit;
  return FlatProblem(Problem(denseGraph(nodes, kept)));
}

} // namespace

WideDual::WideDual(const WideGraph &wide, const Kept &kept)
    : flat_(nodesOf(wide, kept)), links_(wide.nodes.size()), prices_(flat_), kept_(flat_.costs.size(), 0),
      chosen_(wide.nodes.size(), 0), best_(-std::numeric_limits<double>::infinity()) {
  // Equal lists of kept states, and equal tables, are made once.
  std::map<std::pair<const std::vector<int32_t> *, std::vector<int32_t>>, const States *> known;
  auto statesOf = [&](const std::vector<int32_t> &state, const std::vector<int32_t> &options) {
    const States *&made = known[{&state, options}];
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
  size_t places = 0, most = 1, states = 1;
  for (const WideEdge &edge : wide.edges) {
    const States *from = statesOf(*edge.fromState, kept[size_t(edge.from)]);
    const States *to = statesOf(*edge.toState, kept[size_t(edge.to)]);
    const size_t rows = from->inTable.size(), columns = to->inTable.size();
    const WideTable *&table = tables[{edge.table.get(), from, to}];
    if (!table) {
      WideTable &made = tables_.emplace_back();
      made.turned.resize(rows * columns);
      for (size_t r = 0; r < rows; ++r)
        for (size_t c = 0; c < columns; ++c) {
          const Cost cost = edge.table->costs[size_t(from->inTable[r]) * edge.table->columns + size_t(to->inTable[c])];
          made.costs.push_back(cost >= kForbidden ? kNever : double(cost));
          made.turned[c * rows + r] = made.costs.back();
        }
      table = &made;
    }
    const size_t atFrom = places, atTo = places + rows;
    links_[size_t(edge.from)].push_back(
        {edge.to, table->turned.data(), rows, columns, &from->ofOption, &to->ofOption, atFrom, atTo});
    links_[size_t(edge.to)].push_back(
        {edge.from, table->costs.data(), columns, rows, &to->ofOption, &from->ofOption, atTo, atFrom});
    places += rows + columns;
    states = std::max({states, rows, columns});
    work_ += kEntryWork * double(rows * columns) + kOptionWork * double(from->ofOption.size() + to->ofOption.size());
  }
  for (int32_t v = 0; v < flat_.count(); ++v)
    most = std::max(most, size_t(flat_.size(v)));
  work_ += kOptionWork * double(flat_.costs.size() + flat_.extras.size());
  message_.assign(places, 0);
  bestMessage_ = message_;
  total_.resize(most);
  score_.resize(most);
  pushed_.resize(states);
  prices_.price(unary_);
}

void WideDual::pull(const Link &link) {
  minPlus(link.table, &message_[link.theirs], link.theirStates, link.states, &message_[link.mine]);
}

double WideDual::pass() {
  double bound = flat_.constant + prices_.constant();
  const int32_t n = flat_.count();
  for (int32_t i = 0; i < n; ++i) {
    const int32_t v = forward_ ? i : n - 1 - i;
    const size_t size = size_t(flat_.size(v)), first = flat_.first[size_t(v)];
    for (size_t s = 0; s < size; ++s)
      total_[s] = score_[s] = unary_[first + s];
    size_t ahead = 0, behind = 0;
    for (const Link &link : links_[size_t(v)]) {
      const std::vector<int32_t> &state = *link.state;
      double *mine = &message_[link.mine];
      if ((link.other > v) == forward_) {
        ++ahead;
        for (size_t s = 0; s < size; ++s)
          score_[s] += mine[state[s]];
      } else {
        ++behind;
        pull(link);
        // The other node has chosen already, and the row of its state is what the edge costs.
        const double *row = link.table + size_t((*link.theirState)[size_t(chosen_[size_t(link.other)])]) * link.states;
        for (size_t s = 0; s < size; ++s)
          score_[s] += row[state[s]];
      }
      for (size_t s = 0; s < size; ++s)
        total_[s] += mine[state[s]];
    }
    chosen_[size_t(v)] = int32_t(std::min_element(score_.begin(), score_.begin() + long(size)) - score_.begin());
    const double share = ahead ? 1.0 / double(std::max(ahead, behind)) : 0;
    std::copy_n(total_.begin(), size, kept_.begin() + long(first));
    if (ahead)
      for (const Link &link : links_[size_t(v)])
        if ((link.other > v) == forward_) {
          const std::vector<int32_t> &state = *link.state;
          std::fill_n(pushed_.begin(), link.states, kNever);
          for (size_t s = 0; s < size; ++s)
            pushed_[size_t(state[s])] = std::min(pushed_[size_t(state[s])], share * total_[s]);
          for (size_t t = 0; t < link.states; ++t)
            message_[link.mine + t] -= pushed_[t];
          for (size_t s = 0; s < size; ++s)
            kept_[first + s] -= pushed_[size_t(state[s])];
        }
    bound += *std::min_element(kept_.begin() + long(first), kept_.begin() + long(first + size));
  }
  forward_ = !forward_;
  last_ = bound;
  if (bound > best_) {
    if (bound > best_ + kRelativeRounding * std::abs(best_)) {
      stalled_ = 0;
      prices_.rose();
    }
    best_ = bound;
    bestMessage_ = message_;
    bestPrices_ = prices_.values();
  }
  prices_.stalled(++stalled_);
  return bound;
}

void WideDual::restoreBest() {
  message_ = bestMessage_;
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
    for (const Link &link : links_[size_t(v)]) {
      if ((link.other > v) != lastForward)
        continue;
      row.resize(link.states);
      minPlus(link.table, &message_[link.theirs], link.theirStates, link.states, row.data());
      for (size_t s = 0; s < size; ++s)
        reduced[first + s] += row[size_t((*link.state)[s])] - message_[link.mine + size_t((*link.state)[s])];
    }
  }
  return reduced;
}

} // namespace tessera::strategies
