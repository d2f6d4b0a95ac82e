//===- RandomGraph.h - small random strategy graphs and their answers by enumeration ----------===//
#ifndef TESSERA_TEST_UNIT_SEARCH_RANDOMGRAPH_H
#define TESSERA_TEST_UNIT_SEARCH_RANDOMGRAPH_H

#include "strategies/search/Evaluate.h"
#include "strategies/search/problem/FlatProblem.h"

#include <algorithm>
#include <random>

namespace tessera::strategies {

struct RandomGraphOptions {
  int nodes = 6, options = 4;
  double density = 0.4, forbidden = 0.1, memory = 0; // share of the largest peak that is the limit
  bool aliases = false;
};

/// A random graph that passes checkStrategyGraph.
inline StrategyGraph randomGraph(std::mt19937_64 &random, const RandomGraphOptions &o) {
  auto draw = [&](int n) { return int(random() % uint64_t(n)); };
  auto chance = [&](double p) { return double(random() >> 11) * 0x1p-53 < p; };
  auto cost = [&] { return chance(o.forbidden) ? kForbidden : Cost(draw(50)); };
  StrategyGraph g;
  int n = 1 + draw(o.nodes);
  for (int i = 0; i < n; ++i) {
    StrategyNode node;
    int options = 1 + draw(o.options);
    node.liveFrom = draw(8);
    node.liveTo = node.liveFrom + draw(5);
    for (int s = 0; s < options; ++s) {
      node.costs.push_back(chance(0.3) ? 0 : cost());
      node.usages.push_back(draw(20));
    }
    if (chance(0.1))
      node.usages.clear();
    g.addNode(node);
  }
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j)
      if (chance(i == j ? 0.05 : o.density / 2)) {
        std::vector<Cost> costs;
        bool identity = chance(0.15); // real graphs express "choose alike" in this form
        size_t rows = g.nodes[i].costs.size(), columns = g.nodes[j].costs.size();
        for (size_t s = 0; s < rows; ++s)
          for (size_t t = 0; t < columns; ++t)
            costs.push_back(identity ? (s % columns == t || t % rows == s ? 0 : kForbidden) : cost());
        g.addEdge(i, j, costs);
      }
  if (o.aliases)
    for (int i = 1; i < n; ++i) { // to one node before it: trees
      int j = draw(i);
      if (chance(0.6) && g.nodes[i].costs.size() == g.nodes[j].costs.size())
        g.aliases.push_back(chance(0.5) ? std::pair{i, j} : std::pair{j, i});
    }
  if (o.memory > 0) {
    Choice most;
    for (const StrategyNode &node : g.nodes)
      most.push_back(node.usages.empty()
                         ? 0
                         : int32_t(std::max_element(node.usages.begin(), node.usages.end()) - node.usages.begin()));
    StrategyGraph free = g;
    free.aliases.clear();
    g.memoryLimit = int64_t(o.memory * double(evaluate(free, most).memoryPeak));
  }
  return g;
}

/// The least feasible cost by enumeration, or kForbidden.
inline Cost bruteForce(const StrategyGraph &g) {
  Choice choice(g.nodes.size(), 0);
  Cost best = kForbidden;
  while (true) {
    Evaluation e = evaluate(g, choice);
    if (e.feasible)
      best = std::min(best, e.cost);
    size_t i = 0;
    while (i < choice.size() && ++choice[i] == int32_t(g.nodes[i].costs.size()))
      choice[i++] = 0;
    if (i == choice.size())
      return best;
  }
}

/// The least cost of a flat problem for each option of each variable, and of all, by enumeration; kFlatForbidden where
/// nothing fits.
inline std::pair<std::vector<double>, double> leastCosts(const FlatProblem &flat) {
  std::vector<double> least(flat.costs.size(), kFlatForbidden);
  double best = kFlatForbidden;
  Answer answer(size_t(flat.count()), 0);
  for (bool more = true; more;) {
    if (flat.excess(flat.load(answer)) <= 0) {
      const double price = flat.price(answer);
      best = std::min(best, price);
      for (int32_t v = 0; v < flat.count(); ++v) {
        double &known = least[flat.first[size_t(v)] + size_t(answer[size_t(v)])];
        known = std::min(known, price);
      }
    }
    size_t i = 0;
    while (i < answer.size() && ++answer[i] == flat.size(int32_t(i)))
      answer[i++] = 0;
    more = i < answer.size();
  }
  return {least, best};
}

} // namespace tessera::strategies

#endif
