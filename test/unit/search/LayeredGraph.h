//===- LayeredGraph.h - strategy graphs of the shape that the compiler makes ---------------------===//
//
// Blocks of operators with a residual edge, and a backward pass that reads values of the forward pass:
// small width, long live intervals, edges that price a change of sharding.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TEST_UNIT_SEARCH_LAYEREDGRAPH_H
#define TESSERA_TEST_UNIT_SEARCH_LAYEREDGRAPH_H

#include "strategies/search/Evaluate.h"

#include <algorithm>
#include <random>

namespace tessera::strategies {

class LayeredGraph {
public:
  LayeredGraph(int layers, int options, uint64_t seed) : random(seed), options(options), end(20 * layers + 20) {
    int32_t x = add({}, 10, false);
    std::vector<int32_t> saved;
    for (int l = 0; l < layers; ++l) {
      int32_t a = add({x, add({}, 20, true)}, 12, false), b = add({a}, 8, false);
      int32_t c = add({b, add({}, 20, true)}, 15, false);
      saved.insert(saved.end(), {a, b});
      x = add({c, x}, 4, false);
    }
    for (size_t k = saved.size(); k-- > 0;) {
      x = add({x, saved[k]}, 10, false);
      add({x, saved[k]}, 6, false);
      graph.nodes[saved[k]].liveTo = time;
    }
  }
  StrategyGraph graph;

private:
  int draw(int n) { return int(random() % uint64_t(n)); }

  int32_t add(const std::vector<int32_t> &inputs, int64_t size, bool parameter) {
    StrategyNode node;
    const int count = options / 2 + draw(options / 2) + 1;
    std::vector<int> out;
    for (int s = 0; s < count; ++s) {
      node.costs.push_back(size * (1 + draw(8)) * 100);
      node.usages.push_back(size * 1000 / (1 + draw(4)));
      out.push_back(draw(9));
    }
    node.liveFrom = parameter ? 0 : time;
    node.liveTo = parameter ? end : time + 2 + draw(3);
    ++time;
    int32_t id = graph.addNode(std::move(node));
    made.push_back(out);
    for (int32_t input : inputs) {
      std::vector<int> want;
      for (int s = 0; s < count; ++s)
        want.push_back(draw(9));
      std::vector<Cost> costs;
      for (int from : made[input])
        for (int to : want)
          costs.push_back(from == to ? 0 : size * (50 + (from * 7 + to * 13) % 11 * 40));
      graph.addEdge(input, id, std::move(costs));
    }
    return id;
  }

  std::mt19937_64 random;
  int options;
  int64_t time = 0, end;
  std::vector<std::vector<int>> made; // shardings by node and option
};

/// The peak of memory of the choice that takes the least memory everywhere.
inline int64_t leastPeak(const StrategyGraph &g) {
  Choice choice;
  for (const StrategyNode &node : g.nodes)
    choice.push_back(int32_t(std::min_element(node.usages.begin(), node.usages.end()) - node.usages.begin()));
  return evaluate(g, choice).memoryPeak;
}

} // namespace tessera::strategies

#endif
