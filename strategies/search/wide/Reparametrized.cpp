#include "strategies/search/wide/Reparametrized.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace tessera::strategies {

namespace {

/// A larger message is that of a state beside which nothing is allowed, and is not moved.
constexpr double kMostMoved = 1e14;

/// What is moved from an edge to each option of its end.
std::vector<Cost> movedTo(const std::vector<int32_t> &options, const std::vector<int32_t> &states,
                          const double *messages) {
  std::vector<Cost> moved;
  moved.reserve(options.size());
  for (int32_t option : options) {
    const double message = messages[size_t(states[size_t(option)])];
    moved.push_back(std::abs(message) < kMostMoved ? Cost(std::floor(message)) : 0);
  }
  return moved;
}

void add(Cost &cost, Cost more) {
  if (cost < kForbidden)
    cost += more;
}

} // namespace

StrategyGraph reparametrized(const WideGraph &wide, const DenseGraph &dense, const WideDual::Known &known) {
  StrategyGraph graph = dense.graph;
  std::map<std::pair<int32_t, int32_t>, size_t> places;
  for (size_t e = 0; e < graph.edges.size(); ++e)
    places[{graph.edges[e].from, graph.edges[e].to}] = e;
  for (size_t e = 0; e < wide.edges.size(); ++e) {
    const WideEdge &edge = wide.edges[e];
    const std::vector<double> &messages = known.messages[e];
    const std::vector<Cost> from = movedTo(dense.option[size_t(edge.from)], *edge.fromState, messages.data()),
                            to = movedTo(dense.option[size_t(edge.to)], *edge.toState,
                                         messages.data() + edge.table->rows);
    for (size_t i = 0; i < from.size(); ++i)
      add(graph.nodes[size_t(edge.from)].costs[i], from[i]);
    for (size_t j = 0; j < to.size(); ++j)
      add(graph.nodes[size_t(edge.to)].costs[j], to[j]);
    const bool turned = edge.from > edge.to;
    const std::vector<Cost> &rows = turned ? to : from, &columns = turned ? from : to;
    const auto [place, fresh] = places.try_emplace(std::minmax(edge.from, edge.to), graph.edges.size());
    if (fresh)
      graph.addEdge(place->first.first, place->first.second, std::vector<Cost>(rows.size() * columns.size(), 0));
    Cost *cell = graph.edges[place->second].costs.data();
    for (Cost row : rows)
      for (Cost column : columns)
        add(*cell++, -row - column);
  }
  // What is negative moves on to nodes, and from there to the first one.
  for (StrategyEdge &edge : graph.edges) {
    const size_t columns = graph.nodes[size_t(edge.to)].costs.size();
    for (size_t row = 0; row * columns < edge.costs.size(); ++row) {
      const auto begin = edge.costs.begin() + long(row * columns), end = begin + long(columns);
      const Cost least = *std::min_element(begin, end);
      if (least >= kForbidden)
        continue;
      std::for_each(begin, end, [&](Cost &cost) { add(cost, -least); });
      add(graph.nodes[size_t(edge.from)].costs[row], least);
    }
  }
  Cost sum = 0;
  for (StrategyNode &node : graph.nodes) {
    const Cost least = *std::min_element(node.costs.begin(), node.costs.end());
    if (least >= kForbidden)
      continue;
    for (Cost &cost : node.costs)
      add(cost, -least);
    sum += least;
  }
  if (sum < 0) // a bound that says nothing
    return dense.graph;
  for (Cost &cost : graph.nodes.front().costs)
    add(cost, sum);
  return graph;
}

} // namespace tessera::strategies
