// The kept part of a wide graph with matrices over pairs of options.
#include "strategies/space/WideGraph.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <span>
#include <unordered_map>

namespace tessera::strategies {

namespace {

using Offered = std::vector<std::pair<int32_t, int32_t>>;

class Dense {
public:
  Dense(const WideGraph &wide, const Kept &kept, const Offers &offers)
      : wide_(wide), kept_(kept), offers_(offers), sharesOf_(wide.nodes.size()), sets_(wide.shares.size()),
        numbers_(wide.shares.size()), disjoint_(wide.shares.size(), -1), mostShared_(wide.shares.size(), kUnknown) {
    made_.shareOf.assign(wide.edges.size(), {-1, -1});
    for (size_t s = 0; s < wide.shares.size(); ++s) {
      const WideShare &share = wide.shares[s];
      for (size_t r = 0; r < share.edges.size(); ++r)
        made_.shareOf[size_t(share.edges[r])] = {int32_t(s), int32_t(r)};
      if (!offers.list[s].empty())
        sharesOf_[size_t(wide.edges[size_t(share.edges.front())].from)].push_back(s);
    }
  }

  DenseGraph run() {
    made_.graph.memoryLimit = wide_.memoryLimit;
    made_.option.resize(wide_.nodes.size());
    made_.offered.resize(wide_.nodes.size());
    for (size_t n = 0; n < wide_.nodes.size(); ++n)
      addOptions(n);
    for (size_t n = 0; n < wide_.nodes.size(); ++n)
      addNode(n);
    for (size_t n = 0; n < wide_.nodes.size(); ++n)
      addFurtherUses(n);
    addEdges();
    if (!wide_.dataParallel.empty()) {
      // Where the option is left out, the first one stands for it.
      std::vector<int32_t> named = wide_.dataParallel;
      for (size_t n = 0; n < named.size(); ++n)
        if (!std::binary_search(kept_[n].begin(), kept_[n].end(), named[n]) && !kept_[n].empty())
          named[n] = kept_[n].front();
      made_.graph.dataParallel = made_.choiceOf(wide_, named);
    }
    return std::move(made_);
  }

  std::vector<double> sizes() {
    std::vector<double> sizes;
    for (size_t n = 0; n < wide_.nodes.size(); ++n) {
      double size = sharesOf_[n].empty() ? double(kept_[n].size()) : 0;
      for (size_t k = 0; !sharesOf_[n].empty() && k < kept_[n].size(); ++k) {
        double number = 1;
        for (size_t share : sharesOf_[n]) {
          const int32_t row = handedState(share, kept_[n][k]);
          if (std::isinf(offers_.limit)) {
            number *= numberOfSets(share, row);
            continue;
          }
          const std::vector<Set> &more = setsOf(share, row);
          const double room = offers_.limit - own(n, kept_[n][k]);
          const auto below =
              std::count_if(more.begin(), more.end(), [&](const Set &set) { return set.beyond <= room; });
          number *= size_t(below) >= offers_.mostSets ? std::numeric_limits<int32_t>::max() : double(below);
        }
        size += number;
      }
      sizes.push_back(size);
    }
    return sizes;
  }

private:
  int32_t handedState(size_t share, int32_t option) const {
    return (*wide_.edges[size_t(wide_.shares[share].edges.front())].fromState)[size_t(option)];
  }

  double own(size_t node, int32_t option) const {
    return offers_.option.empty() || offers_.option[node].empty() ? 0 : offers_.option[node][size_t(option)];
  }

  /// A set of copies: those of an earlier set and one more.
  struct Set {
    int32_t earlier = -1; // its place in the list; -1: this is the empty set
    int32_t copy = -1;
    size_t size = 0;
    double beyond = 0;
  };

  /// The offers of one share in the state.
  std::span<const Offer> offersOf(size_t share, int32_t row) const {
    const std::vector<Offer> &list = offers_.list[share];
    const auto [first, last] = std::equal_range(list.begin(), list.end(), Offer{row, 0},
                                                [](const Offer &a, const Offer &b) { return a.state < b.state; });
    return {first, last};
  }

  /// Of copies of one share that the state may offer where the limit leaves none out: all of up to mostShared copies.
  double numberOfSets(size_t share, int32_t row) {
    auto [it, fresh] = numbers_[share].try_emplace(row, 0);
    if (!fresh)
      return it->second;
    const size_t offers = offersOf(share, row).size();
    const size_t most = std::min(mostShared(share), offers);
    double sets = 1, sum = 1;
    for (size_t size = 1; size <= most && sum < double(offers_.mostSets); ++size)
      sum += sets *= double(offers - size + 1) / double(size);
    return it->second = sum >= double(offers_.mostSets) ? std::numeric_limits<int32_t>::max() : sum;
  }

  size_t mostShared(size_t share) {
    size_t &most = mostShared_[share];
    if (most == kUnknown)
      most = wide_.shares[share].copies->mostShared();
    return most;
  }

  /// The sets of copies of one share that the state may offer; the empty one first.
  const std::vector<Set> &setsOf(size_t share, int32_t row) {
    auto [it, fresh] = sets_[share].try_emplace(row);
    std::vector<Set> &sets = it->second;
    if (!fresh)
      return sets;
    sets.push_back({});
    if (disjoint_[share] < 0)
      disjoint_[share] = wide_.shares[share].disjoint(wide_);
    const bool disjoint = disjoint_[share] > 0;
    const size_t most = mostShared(share);
    for (const Offer &offer : offersOf(share, row))
      for (size_t i = 0, before = sets.size(); i < before; ++i) {
        // Two copies are wanted by different readers, unless one reader may want both.
        const double beyond = disjoint ? sets[i].beyond + offer.beyond : std::max(sets[i].beyond, offer.beyond);
        if (sets[i].size == most || beyond > offers_.limit)
          continue;
        if (sets.size() == offers_.mostSets) {
          made_.whole = false;
          return sets;
        }
        sets.push_back({int32_t(i), offer.copy, sets[i].size + 1, beyond});
      }
    return sets;
  }

  /// What the option may offer over all shares.
  std::vector<Offered> sets(size_t node, int32_t option) {
    const double room = offers_.limit - own(node, option);
    std::vector<Offered> all = {{}};
    for (size_t share : sharesOf_[node]) {
      const std::vector<Set> &more = setsOf(share, handedState(share, option));
      const size_t before = all.size();
      for (size_t m = 1; m < more.size(); ++m) {
        if (more[m].beyond > room)
          continue;
        if (all.size() + before > offers_.mostSets) {
          made_.whole = false;
          break;
        }
        Offered copies;
        for (size_t s = m; more[s].earlier >= 0; s = size_t(more[s].earlier))
          copies.push_back({int32_t(share), more[s].copy});
        std::reverse(copies.begin(), copies.end());
        for (size_t i = 0; i < before; ++i) {
          all.push_back(all[i]);
          all.back().insert(all.back().end(), copies.begin(), copies.end());
        }
      }
    }
    return all;
  }

  void addOptions(size_t n) {
    std::vector<int32_t> &option = made_.option[n];
    if (sharesOf_[n].empty()) {
      option = kept_[n];
      return;
    }
    for (int32_t k : kept_[n])
      for (Offered &set : sets(n, k)) {
        option.push_back(k);
        made_.offered[n].push_back(std::move(set));
      }
  }

  template <typename T> std::vector<T> pick(const std::vector<T> &list, size_t n) const {
    std::vector<T> picked;
    picked.reserve(made_.option[n].size());
    for (int32_t k : made_.option[n])
      picked.push_back(list[size_t(k)]);
    return picked;
  }

  void addNode(size_t n) {
    const WideNode &node = wide_.nodes[n];
    StrategyNode to = {.name = node.name, .costs = pick(*node.costs, n)};
    for (size_t i = 0; i < made_.offered[n].size(); ++i)
      for (auto [share, copy] : made_.offered[n][i])
        to.costs[i] = std::min(kForbidden, to.costs[i] + wide_.price(size_t(share), made_.option[n][i], copy));
    if (!node.uses.empty()) {
      to.usages = pick(*node.uses[0].bytes, n);
      to.liveFrom = node.uses[0].liveFrom;
      to.liveTo = node.uses[0].liveTo;
    }
    made_.graph.addNode(std::move(to));
  }

  void addFurtherUses(size_t n) {
    for (size_t u = 1; u < wide_.nodes[n].uses.size(); ++u) {
      const WideUse &use = wide_.nodes[n].uses[u];
      StrategyNode extra = {.name = wide_.nodes[n].name,
                            .costs = std::vector<Cost>(made_.option[n].size(), 0),
                            .usages = pick(*use.bytes, n),
                            .liveFrom = use.liveFrom,
                            .liveTo = use.liveTo};
      made_.graph.aliases.push_back({int32_t(n), made_.graph.addNode(std::move(extra))});
    }
  }

  void addEdges() {
    std::map<std::pair<int32_t, int32_t>, std::vector<Cost>> sums;
    std::vector<Cost> row;
    for (size_t e = 0; e < wide_.edges.size(); ++e) {
      const WideEdge &edge = wide_.edges[e];
      const int32_t a = std::min(edge.from, edge.to), b = std::max(edge.from, edge.to);
      const std::vector<int32_t> &from = made_.option[size_t(edge.from)], &to = made_.option[size_t(edge.to)];
      std::vector<Cost> &sum = sums[{a, b}];
      sum.resize(from.size() * to.size(), 0);
      for (size_t i = 0; i < from.size(); ++i) {
        row = made_.costs(wide_, e, i);
        for (size_t j = 0; j < to.size(); ++j) {
          Cost &cell = edge.from == a ? sum[i * to.size() + j] : sum[j * from.size() + i];
          cell = std::min(kForbidden, cell + row[size_t((*edge.toState)[size_t(to[j])])]);
        }
      }
    }
    for (auto &[ends, costs] : sums)
      if (std::any_of(costs.begin(), costs.end(), [](Cost c) { return c != 0; }))
        made_.graph.addEdge(ends.first, ends.second, std::move(costs));
  }

  const WideGraph &wide_;
  const Kept &kept_;
  const Offers &offers_;
  std::vector<std::vector<size_t>> sharesOf_;                       // by producer
  std::vector<std::unordered_map<int32_t, std::vector<Set>>> sets_; // by share and state; looked up only
  std::vector<std::unordered_map<int32_t, double>> numbers_;        // of sets; the same
  std::vector<signed char> disjoint_;                               // by share; -1: not known yet
  static constexpr size_t kUnknown = std::numeric_limits<size_t>::max();
  std::vector<size_t> mostShared_; // by share
  DenseGraph made_;
};

} // namespace

DenseGraph denseGraph(const WideGraph &wide, const Kept &kept, const Offers &offers) {
  return Dense(wide, kept, offers).run();
}

StrategyGraph denseGraph(const WideGraph &wide, const Kept &kept) {
  return denseGraph(wide, kept, everyOffer(wide, kept)).graph;
}

std::vector<double> denseSizes(const WideGraph &wide, const Kept &kept, const Offers &offers) {
  return Dense(wide, kept, offers).sizes();
}

std::vector<Cost> DenseGraph::costs(const WideGraph &wide, size_t e, size_t i) const {
  const WideEdge &edge = wide.edges[e];
  const size_t n = size_t(edge.from);
  const auto table =
      edge.table->costs.begin() + long(size_t((*edge.fromState)[size_t(option[n][i])]) * edge.table->columns);
  std::vector<Cost> row(table, table + long(edge.table->columns));
  const auto [share, reader] = shareOf[e];
  if (share < 0 || offered[n].empty())
    return row;
  const auto &wants = wide.shares[size_t(share)].copies->wants[size_t(reader)];
  for (auto [of, copy] : offered[n][i]) {
    if (of != share)
      continue;
    const Cost price = wide.price(size_t(share), option[n][i], copy);
    for (size_t t = 0; t < row.size(); ++t)
      if (row[t] < kForbidden && std::binary_search(wants[t].begin(), wants[t].end(), copy))
        row[t] -= price;
  }
  return row;
}

Choice DenseGraph::choiceOf(const WideGraph &wide, const std::vector<int32_t> &options) const {
  // What two readers want is offered where it may be.
  std::vector<std::vector<std::pair<int32_t, int32_t>>> wanted(option.size());
  for (size_t s = 0; s < wide.shares.size(); ++s) {
    const WideShare &share = wide.shares[s];
    const int32_t from = wide.edges[size_t(share.edges.front())].from;
    if (offered[size_t(from)].empty())
      continue;
    std::map<int32_t, int> readers;
    for (size_t r = 0; r < share.edges.size(); ++r) {
      const WideEdge &edge = wide.edges[size_t(share.edges[r])];
      for (int32_t copy : share.copies->wants[r][size_t((*edge.toState)[size_t(options[size_t(edge.to)])])])
        ++readers[copy];
    }
    for (auto [copy, number] : readers)
      if (number > 1)
        wanted[size_t(from)].push_back({int32_t(s), copy});
  }
  Choice choice;
  for (size_t n = 0; n < option.size(); ++n) {
    const auto [first, last] = std::equal_range(option[n].begin(), option[n].end(), options[n]);
    if (first == last)
      return {};
    int32_t best = int32_t(first - option[n].begin());
    size_t most = 0;
    for (int32_t i = best; !offered[n].empty() && i < int32_t(last - option[n].begin()); ++i) {
      const auto &set = offered[n][size_t(i)];
      const bool allWanted = std::all_of(set.begin(), set.end(), [&](const auto &offer) {
        return std::binary_search(wanted[n].begin(), wanted[n].end(), offer);
      });
      if (allWanted && set.size() > most) {
        best = i;
        most = set.size();
      }
    }
    choice.push_back(best);
  }
  choice.resize(graph.nodes.size());
  for (auto [node, other] : graph.aliases)
    choice[size_t(other)] = choice[size_t(node)];
  return choice;
}

} // namespace tessera::strategies
