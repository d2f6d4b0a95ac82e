//===- FlatProblem.cpp - a reduced problem in the layout that iterated algorithms need --------===//
#include "strategies/search/problem/FlatProblem.h"

#include <algorithm>
#include <cmath>

using namespace tessera::strategies;

namespace {
double asDouble(Cost c) { return std::min(double(c), kFlatForbidden); }
} // namespace

FlatProblem::FlatProblem(const Problem &problem) : first{0}, firstPiece{0}, constant(double(problem.constant)) {
  std::vector<int32_t> index(problem.variables.size(), -1);
  room.assign(problem.room.begin(), problem.room.end());
  size_t numCosts = 0, numExtras = 0, numEntries = 0;
  for (const Variable &x : problem.variables)
    if (x.alive) {
      numCosts += x.costs.size();
      for (const Piece &piece : x.pieces)
        numExtras += piece.extra.size();
    }
  for (const Edge &edge : problem.edges)
    numEntries += edge.alive ? 2 * edge.costs.size() : 0;
  costs.reserve(numCosts);
  extras.reserve(numExtras);
  matrices.reserve(numEntries);
  for (size_t v = 0; v < problem.variables.size(); ++v) {
    const Variable &x = problem.variables[v];
    if (!x.alive)
      continue;
    index[v] = count();
    variables.push_back(int32_t(v));
    for (Cost c : x.costs)
      costs.push_back(asDouble(c));
    first.push_back(costs.size());
    for (const Piece &piece : x.pieces) {
      pieces.push_back({piece.from, piece.to, extras.size()});
      extras.insert(extras.end(), piece.extra.begin(), piece.extra.end());
    }
    firstPiece.push_back(pieces.size());
  }
  links.resize(size_t(count()));
  for (const Edge &edge : problem.edges) {
    if (!edge.alive)
      continue;
    int32_t a = index[edge.a], b = index[edge.b];
    const size_t rows = size_t(size(a)), columns = size_t(size(b)), at = matrices.size();
    for (Cost c : edge.costs)
      matrices.push_back(asDouble(c));
    for (size_t t = 0; t < columns; ++t)
      for (size_t s = 0; s < rows; ++s)
        matrices.push_back(asDouble(edge.costs[s * columns + t]));
    const size_t turned = at + rows * columns;
    int32_t e = int32_t(edges.size());
    edges.push_back({a, b, at});
    links[a].push_back({e, b, turned, at, places, places + rows});
    links[b].push_back({e, a, at, turned, places + rows, places});
    places += rows + columns;
  }
}

double FlatProblem::price(const Answer &answer) const {
  double total = constant, most = 0;
  auto add = [&](double cost) {
    total += cost;
    most = std::max(most, cost);
  };
  for (int32_t v = 0; v < count(); ++v)
    add(costs[first[v] + size_t(answer[v])]);
  for (const FlatEdge &e : edges)
    add(matrices[e.to + size_t(answer[e.a]) * size_t(size(e.b)) + size_t(answer[e.b])]);
  return most >= kFlatForbidden ? std::max(total, kFlatForbidden) : total; // a negative constant must not hide it
}

std::vector<double> FlatProblem::load(const Answer &answer) const {
  std::vector<double> load(room.size() + 1, 0); // holds differences first, sums later
  for (int32_t v = 0; v < count(); ++v)
    for (size_t k = firstPiece[v]; k < firstPiece[v + 1]; ++k) {
      double x = extras[pieces[k].extra + size_t(answer[v])];
      load[pieces[k].from] += x;
      load[pieces[k].to] -= x;
    }
  for (size_t p = 1; p < load.size(); ++p)
    load[p] += load[p - 1];
  load.pop_back();
  return load;
}

double FlatProblem::excess(const std::vector<double> &load) const {
  double most = -std::numeric_limits<double>::infinity();
  for (size_t p = 0; p < room.size(); ++p)
    most = std::max(most, load[p] - room[p]);
  return room.empty() ? 0 : most;
}

std::vector<int32_t> FlatProblem::ids(const Problem &problem, const Answer &answer) const {
  std::vector<int32_t> ids(problem.variables.size(), 0);
  for (int32_t v = 0; v < count(); ++v)
    ids[variables[v]] = problem.variables[variables[v]].ids[size_t(answer[v])];
  return ids;
}
