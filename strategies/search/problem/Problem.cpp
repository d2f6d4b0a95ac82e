//===- Problem.cpp - the search problem while it is being reduced -----------------------------===//
#include "strategies/search/problem/Problem.h"

#include <algorithm>
#include <cassert>
#include <numeric>

using namespace tessera::strategies;

namespace {

int32_t findRoot(std::vector<int32_t> &parent, int32_t i) {
  while (parent[i] != i)
    i = parent[i] = parent[parent[i]];
  return i;
}

/// The last begin before an end, for every maximal run of begins: one time per maximal live set.
std::vector<int64_t> checkTimes(const StrategyGraph &graph) {
  std::vector<std::pair<int64_t, int>> events; // ends (0) before begins (1) of the same time
  for (const StrategyNode &node : graph.nodes)
    if (!node.usages.empty() && node.liveFrom < node.liveTo) {
      events.push_back({node.liveFrom, 1});
      events.push_back({node.liveTo, 0});
    }
  std::sort(events.begin(), events.end());
  std::vector<int64_t> times;
  for (size_t i = 0; i + 1 < events.size(); ++i)
    if (events[i].second == 1 && events[i + 1].second == 0)
      times.push_back(events[i].first);
  return times;
}

} // namespace

Problem::Problem(const StrategyGraph &graph) {
  const int32_t n = int32_t(graph.nodes.size());
  std::vector<int32_t> parent(n);
  std::iota(parent.begin(), parent.end(), 0);
  for (auto [a, b] : graph.aliases) {
    a = findRoot(parent, a);
    b = findRoot(parent, b);
    parent[std::max(a, b)] = std::min(a, b);
  }
  std::vector<int64_t> times = checkTimes(graph);
  room.assign(times.size(), graph.memoryLimit);
  points.resize(times.size());
  std::iota(points.begin(), points.end(), 0);
  variableOf.assign(n, -1);
  for (int32_t i = 0; i < n; ++i) {
    const StrategyNode &node = graph.nodes[i];
    int32_t root = findRoot(parent, i);
    if (root == i) {
      variableOf[i] = int32_t(variables.size());
      variables.emplace_back().costs = node.costs;
      variables.back().ids.resize(node.costs.size());
      std::iota(variables.back().ids.begin(), variables.back().ids.end(), 0);
      optionCounts.push_back(int32_t(node.costs.size()));
    } else {
      variableOf[i] = variableOf[root];
      Variable &v = variables[variableOf[i]];
      for (size_t s = 0; s < v.size(); ++s)
        v.costs[s] = addCosts(v.costs[s], node.costs[s]);
    }
  }
  // In order of time, so that the pieces of a variable are in order as well.
  for (int32_t i = 0; i < n; ++i) {
    const StrategyNode &node = graph.nodes[i];
    if (node.usages.empty() || node.liveFrom >= node.liveTo)
      continue;
    auto at = [&](int64_t t) { return int32_t(std::lower_bound(times.begin(), times.end(), t) - times.begin()); };
    addPiece(variableOf[i], at(node.liveFrom), at(node.liveTo), node.usages);
  }
  edges.reserve(graph.edges.size());
  edgeOf_.reserve(graph.edges.size());
  for (const StrategyEdge &edge : graph.edges) {
    int32_t a = variableOf[edge.from], b = variableOf[edge.to];
    size_t columns = graph.nodes[edge.to].costs.size();
    if (a != b) {
      addEdge(a, b, [&](size_t s, size_t t) { return edge.costs[s * columns + t]; });
      continue;
    }
    // Both ends choose the same option index, so only the diagonal can occur.
    Variable &v = variables[a];
    for (size_t s = 0; s < v.size(); ++s)
      v.costs[s] = addCosts(v.costs[s], edge.costs[s * columns + s]);
  }
}

Problem Problem::livePart(const Problem &whole) {
  Problem part;
  std::vector<int32_t> index(whole.variables.size(), -1);
  for (size_t v = 0; v < whole.variables.size(); ++v) {
    if (!whole.variables[v].alive)
      continue;
    index[v] = int32_t(part.variables.size());
    part.variableOf.push_back(index[v]);
    part.variables.push_back(whole.variables[v]);
    part.variables.back().edges.clear();
    part.optionCounts.push_back(whole.optionCounts[v]);
  }
  for (const Edge &edge : whole.edges) {
    if (!edge.alive)
      continue;
    int32_t e = int32_t(part.edges.size()), a = index[edge.a], b = index[edge.b];
    part.edges.push_back({a, b, edge.costs, true, edge.normal});
    part.variables[a].edges.push_back(e);
    part.variables[b].edges.push_back(e);
    part.edgeOf_[key(a, b)] = e;
  }
  part.room = whole.room;
  part.points = whole.points;
  part.constant = whole.constant;
  part.infeasible = whole.infeasible;
  return part;
}

int32_t Problem::between(int32_t a, int32_t b) const {
  auto it = edgeOf_.find(key(std::min(a, b), std::max(a, b)));
  return it == edgeOf_.end() ? -1 : it->second;
}

void Problem::removeEdge(int32_t edge) {
  Edge &e = edges[edge];
  for (int32_t end : {e.a, e.b}) {
    std::vector<int32_t> &list = variables[end].edges;
    list.erase(std::find(list.begin(), list.end(), edge));
  }
  edgeOf_.erase(key(e.a, e.b));
  e.alive = false;
  e.costs = {};
}

void Problem::keepOptions(int32_t v, const std::vector<char> &keep) {
  Variable &var = variables[v];
  std::vector<size_t> kept;
  for (size_t s = 0; s < keep.size(); ++s)
    if (keep[s])
      kept.push_back(s);
  for (int32_t e : var.edges) {
    Edge &edge = edges[e];
    size_t rows = variables[edge.a].size(), columns = variables[edge.b].size();
    std::vector<Cost> costs;
    if (edge.a == v) {
      costs.reserve(kept.size() * columns);
      for (size_t s : kept)
        costs.insert(costs.end(), edge.costs.begin() + s * columns, edge.costs.begin() + (s + 1) * columns);
    } else {
      costs.reserve(rows * kept.size());
      for (size_t s = 0; s < rows; ++s)
        for (size_t t : kept)
          costs.push_back(edge.costs[s * columns + t]);
    }
    edge.costs = std::move(costs);
    edge.normal = false;
  }
  auto pick = [&](auto &list) {
    for (size_t k = 0; k < kept.size(); ++k)
      list[k] = list[kept[k]];
    list.resize(kept.size());
  };
  pick(var.costs);
  pick(var.ids);
  for (Piece &piece : var.pieces)
    pick(piece.extra);
  normalizePieces(v);
}

void Problem::addPiece(int32_t v, int32_t from, int32_t to, std::vector<int64_t> extra) {
  if (from >= to)
    return;
  int64_t least = *std::min_element(extra.begin(), extra.end());
  bool flat = true;
  for (int64_t &x : extra)
    flat &= (x -= least) == 0;
  if (least)
    for (int32_t p = from; p < to; ++p)
      room[p] -= least;
  if (flat)
    return;
  std::vector<Piece> &pieces = variables[v].pieces;
  auto at = std::lower_bound(
      pieces.begin(), pieces.end(), std::pair(from, to),
      [](const Piece &p, std::pair<int32_t, int32_t> range) { return std::pair(p.from, p.to) < range; });
  if (at != pieces.end() && at->from == from && at->to == to)
    for (size_t s = 0; s < extra.size(); ++s)
      at->extra[s] += extra[s];
  else
    pieces.insert(at, {from, to, std::move(extra)});
}

void Problem::normalizePieces(int32_t v) {
  std::vector<Piece> old = std::move(variables[v].pieces);
  variables[v].pieces.clear();
  if (variables[v].size())
    for (Piece &piece : old)
      addPiece(v, piece.from, piece.to, std::move(piece.extra));
}

Choice Problem::expand(std::vector<int32_t> ids) const {
  for (auto r = records.rbegin(); r != records.rend(); ++r) {
    size_t at = 0;
    for (int32_t by : r->by)
      if (by >= 0)
        at = at * r->columns + size_t(ids[by]);
    ids[r->variable] = r->table[at];
  }
  Choice choice(variableOf.size());
  for (size_t i = 0; i < choice.size(); ++i)
    choice[i] = ids[variableOf[i]];
  return choice;
}
