#include "strategies/space/WideGraph.h"

#include <algorithm>
#include <iterator>
#include <numeric>

namespace tessera::strategies {

Kept everyOption(const WideGraph &wide) {
  Kept kept(wide.nodes.size());
  for (size_t n = 0; n < kept.size(); ++n) {
    kept[n].resize(wide.nodes[n].costs->size());
    std::iota(kept[n].begin(), kept[n].end(), 0);
  }
  return kept;
}

size_t SharedCopies::mostShared() const {
  size_t wanted = 0;
  for (const auto &reader : wants) {
    size_t most = 0;
    for (const auto &copies : reader)
      most = std::max(most, copies.size());
    wanted += most;
  }
  return wanted / 2;
}

bool WideShare::disjoint(const WideGraph &wide) const {
  std::vector<int32_t> nodes;
  for (int32_t e : edges)
    nodes.push_back(wide.edges[size_t(e)].to);
  std::sort(nodes.begin(), nodes.end());
  if (std::adjacent_find(nodes.begin(), nodes.end()) != nodes.end())
    return false;
  for (const auto &reader : copies->wants)
    for (const auto &wanted : reader)
      if (wanted.size() > 1)
        return false;
  return true;
}

Offers Offers::within(double smaller) const {
  Offers left{std::vector<std::vector<Offer>>(list.size()), smaller, option, mostSets};
  for (size_t s = 0; s < list.size(); ++s)
    std::copy_if(list[s].begin(), list[s].end(), std::back_inserter(left.list[s]),
                 [&](const Offer &offer) { return offer.least <= smaller; });
  return left;
}

Offers everyOffer(const WideGraph &wide, const Kept &kept) {
  Offers offers{std::vector<std::vector<Offer>>(wide.shares.size())};
  for (size_t s = 0; s < wide.shares.size(); ++s) {
    const WideShare &share = wide.shares[s];
    const StateTable &prices = share.copies->prices;
    std::vector<int> readers(prices.columns, 0);
    for (size_t r = 0; r < share.edges.size(); ++r) {
      const WideEdge &edge = wide.edges[size_t(share.edges[r])];
      std::vector<char> wanted(prices.columns, 0);
      for (int32_t k : kept[size_t(edge.to)])
        for (int32_t copy : share.copies->wants[r][size_t((*edge.toState)[size_t(k)])])
          wanted[size_t(copy)] = 1;
      for (size_t copy = 0; copy < readers.size(); ++copy)
        readers[copy] += wanted[copy];
    }
    const WideEdge &first = wide.edges[size_t(share.edges.front())];
    std::vector<char> handed(prices.rows, 0);
    for (int32_t k : kept[size_t(first.from)])
      handed[size_t((*first.fromState)[size_t(k)])] = 1;
    for (size_t row = 0; row < prices.rows; ++row)
      for (size_t copy = 0; handed[row] && copy < readers.size(); ++copy)
        if (const Cost price = prices.costs[row * prices.columns + copy];
            readers[copy] > 1 && price > 0 && price < kForbidden)
          offers.list[s].push_back({int32_t(row), int32_t(copy)});
  }
  return offers;
}

} // namespace tessera::strategies
