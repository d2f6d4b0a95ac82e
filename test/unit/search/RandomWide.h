//===- RandomWide.h - small random wide graphs and their answers by enumeration ------------------------===//
#ifndef TESSERA_TEST_UNIT_SEARCH_RANDOMWIDE_H
#define TESSERA_TEST_UNIT_SEARCH_RANDOMWIDE_H

#include "strategies/search/Evaluate.h"
#include "strategies/search/wide/WideDual.h"

#include <algorithm>
#include <random>
#include <utility>

namespace tessera::strategies {

struct Draw {
  std::mt19937_64 random;
  int operator()(int n) { return int(random() % uint64_t(n)); }
  bool chance(double p) { return double(random() >> 11) * 0x1p-53 < p; }
};

/// Lists of options, tables and bytes are shared between nodes now and then, as equal layers share them.
inline WideGraph randomWide(Draw &draw, double forbidden, double memory) {
  WideGraph wide;
  const int n = 2 + draw(4), kinds = 1 + draw(2);
  std::vector<std::shared_ptr<std::vector<Cost>>> costs;
  std::vector<std::shared_ptr<std::vector<int64_t>>> bytes;
  for (int kind = 0; kind < kinds; ++kind) {
    costs.push_back(std::make_shared<std::vector<Cost>>());
    bytes.push_back(std::make_shared<std::vector<int64_t>>());
    const int options = 1 + draw(7);
    for (int k = 0; k < options; ++k) {
      costs.back()->push_back(draw.chance(forbidden / 2) ? kForbidden : Cost(draw(40)));
      bytes.back()->push_back(draw(20));
    }
  }
  std::vector<int> kindOf;
  for (int i = 0; i < n; ++i) {
    kindOf.push_back(draw(kinds));
    WideNode node{"n" + std::to_string(i), costs[size_t(kindOf.back())]};
    for (int u = draw(3); memory > 0 && u > 0; --u) {
      const int64_t from = draw(6);
      node.uses.push_back({bytes[size_t(kindOf.back())], from, from + 1 + draw(4)});
    }
    wide.nodes.push_back(std::move(node));
  }
  std::vector<std::shared_ptr<const StateTable>> tables;
  std::vector<std::vector<std::shared_ptr<const std::vector<int32_t>>>> states(static_cast<size_t>(kinds));
  for (int t = 0; t < 2; ++t) {
    auto table = std::make_shared<StateTable>();
    table->rows = table->columns = 3;
    for (int i = 0; i < 9; ++i)
      table->costs.push_back(draw.chance(forbidden) ? kForbidden : Cost(draw(40)));
    tables.push_back(table);
  }
  for (int kind = 0; kind < kinds; ++kind)
    for (int t = 0; t < 2; ++t) {
      auto list = std::make_shared<std::vector<int32_t>>();
      for (size_t k = 0; k < costs[size_t(kind)]->size(); ++k)
        list->push_back(draw(3));
      states[size_t(kind)].push_back(list);
    }
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j)
      if (i != j && draw.chance(0.35))
        wide.edges.push_back({i, j, states[size_t(kindOf[size_t(i)])][size_t(draw(2))],
                              states[size_t(kindOf[size_t(j)])][size_t(draw(2))], tables[size_t(draw(2))]});
  if (memory > 0) {
    int64_t most = 0;
    for (int64_t t = 0; t < 12; ++t) {
      int64_t sum = 0;
      for (const WideNode &node : wide.nodes)
        for (const WideUse &use : node.uses)
          if (use.liveFrom <= t && t < use.liveTo)
            sum += *std::max_element(use.bytes->begin(), use.bytes->end());
      most = std::max(most, sum);
    }
    wide.memoryLimit = int64_t(memory * double(most));
  }
  return wide;
}

/// Edges of one producer get prices of copies that they share.
inline void addShares(Draw &draw, WideGraph &wide) {
  for (size_t n = 0; n < wide.nodes.size(); ++n) {
    if (draw.chance(0.3))
      continue;
    auto copies = std::make_shared<SharedCopies>();
    copies->prices.rows = copies->prices.columns = 3;
    for (int i = 0; i < 9; ++i)
      copies->prices.costs.push_back(draw.chance(0.2) ? 0 : draw.chance(0.1) ? kForbidden : Cost(draw(40)));
    auto handed = std::make_shared<std::vector<int32_t>>();
    for (size_t k = 0; k < wide.nodes[n].costs->size(); ++k)
      handed->push_back(draw(3));
    WideShare share;
    const bool several = draw.chance(0.3);
    for (size_t to = 0; to < wide.nodes.size(); ++to)
      for (int twice = 0; to != n && twice < 2; ++twice) {
        if (!draw.chance(twice ? 0.1 : 0.7))
          continue;
        auto state = std::make_shared<std::vector<int32_t>>();
        for (size_t k = 0; k < wide.nodes[to].costs->size(); ++k)
          state->push_back(draw(4));
        auto table = std::make_shared<StateTable>(StateTable{3, 4, std::vector<Cost>(12, 0)});
        auto &wants = copies->wants.emplace_back(4);
        for (size_t t = 0; t < 4; ++t)
          for (int32_t copy = 0; copy < 3; ++copy) {
            if (several ? !draw.chance(0.4) : size_t(copy) != t)
              continue;
            wants[t].push_back(copy);
            for (size_t row = 0; row < 3; ++row)
              table->costs[row * 4 + t] =
                  std::min(kForbidden, table->costs[row * 4 + t] + copies->prices.costs[row * 3 + size_t(copy)]);
          }
        share.edges.push_back(int32_t(wide.edges.size()));
        wide.edges.push_back({int32_t(n), int32_t(to), handed, state, table});
      }
    share.copies = copies;
    if (share.edges.size() > 1)
      wide.shares.push_back(std::move(share));
  }
}

/// What a choice of options of the wide graph costs; kForbidden where it does not fit.
inline Cost costOf(const WideGraph &wide, const std::vector<int32_t> &choice) {
  std::vector<char> shared(wide.edges.size(), 0);
  Cost sum = 0;
  for (const WideShare &share : wide.shares) {
    std::vector<char> paid(share.copies->prices.columns, 0);
    for (size_t r = 0; r < share.edges.size(); ++r) {
      const WideEdge &edge = wide.edges[size_t(share.edges[r])];
      shared[size_t(share.edges[r])] = 1;
      const size_t row = size_t((*edge.fromState)[size_t(choice[size_t(edge.from)])]);
      for (int32_t copy : share.copies->wants[r][size_t((*edge.toState)[size_t(choice[size_t(edge.to)])])])
        if (!std::exchange(paid[size_t(copy)], 1))
          sum = std::min(kForbidden, sum + share.copies->prices.costs[row * paid.size() + size_t(copy)]);
    }
  }
  for (size_t n = 0; n < choice.size(); ++n)
    sum = std::min(kForbidden, sum + (*wide.nodes[n].costs)[size_t(choice[n])]);
  for (size_t e = 0; e < wide.edges.size(); ++e) {
    const WideEdge &edge = wide.edges[e];
    if (!shared[e])
      sum = std::min(
          kForbidden,
          sum + edge.table->costs[size_t((*edge.fromState)[size_t(choice[size_t(edge.from)])]) * edge.table->columns +
                                  size_t((*edge.toState)[size_t(choice[size_t(edge.to)])])]);
  }
  for (int64_t t = 0; t < 12; ++t) {
    int64_t bytes = 0;
    for (size_t n = 0; n < choice.size(); ++n)
      for (const WideUse &use : wide.nodes[n].uses)
        if (use.liveFrom <= t && t < use.liveTo)
          bytes += (*use.bytes)[size_t(choice[n])];
    if (bytes > wide.memoryLimit)
      return kForbidden;
  }
  return sum;
}

/// The least cost among the kept options, by enumeration.
inline Cost leastOf(const WideGraph &wide, const Kept &kept) {
  std::vector<size_t> at(kept.size(), 0);
  std::vector<int32_t> choice(kept.size());
  for (Cost best = kForbidden;;) {
    for (size_t n = 0; n < kept.size(); ++n)
      choice[n] = kept[n][at[n]];
    best = std::min(best, costOf(wide, choice));
    size_t n = 0;
    while (n < kept.size() && ++at[n] == kept[n].size())
      at[n++] = 0;
    if (n == kept.size())
      return best;
  }
}

/// The least cost with option k of node n.
inline Cost bestWith(const WideGraph &wide, size_t n, int32_t k) {
  Kept kept = everyOption(wide);
  kept[n] = {k};
  return leastOf(wide, kept);
}

inline bool empty(const Kept &kept) {
  return std::any_of(kept.begin(), kept.end(), [](const auto &list) { return list.empty(); });
}

} // namespace tessera::strategies

#endif
