//===- Problem.h - the search problem while it is being reduced -------------------------------===//
//
// What the searchers work on: variables (alias groups of nodes) with options, one merged matrix per
// pair of variables, and memory as pieces: a piece adds `extra[s]` bytes on a range of memory points
// while option s is chosen. Memory points replace times: memory peaks only just before a node ceases
// to be live, so one point per maximal set of live nodes is enough. What a variable uses whatever
// it chooses is already in `room`, so that the smallest extra of a piece is 0.
//
// A variable's options may shrink; `ids` keeps the option numbers of the graph. Variables that
// reductions take out leave a Record; `expand` replays the records backwards and returns a choice
// for the graph.
//
// Example: nodes 0 and 1 of 4 and 6 bytes, both live at time 5, limit 16, aliases: one variable,
// one memory point, room[0] = 16 - 10, no pieces.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SEARCH_PROBLEM_PROBLEM_H
#define TESSERA_STRATEGIES_SEARCH_PROBLEM_PROBLEM_H

#include "strategies/space/StrategyGraph.h"

#include <unordered_map>

namespace tessera::strategies {

/// Sum of two non-negative costs; forbidden stays forbidden.
inline Cost addCosts(Cost a, Cost b) {
  return a >= kForbidden || b >= kForbidden || a + b >= kForbidden ? kForbidden : a + b;
}

struct Piece {
  int32_t from, to; // memory points from <= p < to
  std::vector<int64_t> extra;
};

struct Variable {
  std::vector<Cost> costs;
  std::vector<int32_t> ids; // option number in the graph
  std::vector<Piece> pieces;
  std::vector<int32_t> edges; // live edges only
  bool alive = true;
  size_t size() const { return costs.size(); }
};

struct Edge {
  int32_t a, b;            // a < b
  std::vector<Cost> costs; // row-major |a| x |b|
  bool alive = true;
  bool normal = false; // every row and column has the minimum 0
};

/// The matrix of an edge seen from one end: row = that end's option.
struct EdgeView {
  const Cost *data;
  size_t row, column;
  int32_t other;
  Cost operator()(size_t s, size_t t) const { return data[s * row + t * column]; }
};

/// A variable that was taken out: its option follows from those of `by` (none, one or two
/// variables). `table` is indexed by the option numbers of `by` in the graph (second fastest).
struct Record {
  int32_t variable;
  int32_t by[2] = {-1, -1};
  size_t columns = 1;
  std::vector<int32_t> table;
};

struct Problem {
  explicit Problem(const StrategyGraph &graph);
  /// The live part of `whole` as a problem of its own. Its choice has one entry per live variable of `whole`, in order.
  static Problem livePart(const Problem &whole);

  EdgeView view(int32_t edge, int32_t end) const {
    const Edge &e = edges[edge];
    size_t columns = variables[e.b].size();
    return e.a == end ? EdgeView{e.costs.data(), columns, 1, e.b} : EdgeView{e.costs.data(), 1, columns, e.a};
  }
  int32_t other(int32_t edge, int32_t end) const { return edges[edge].a == end ? edges[edge].b : edges[edge].a; }
  /// The edge between two variables, or -1.
  int32_t between(int32_t a, int32_t b) const;
  /// Adds `cost(s, t)` to the edge between a and b, which is made if there is none.
  template <typename F> int32_t addEdge(int32_t a, int32_t b, F cost);
  void removeEdge(int32_t edge);
  /// Keeps the options with keep[s] != 0 in the variable and its edges.
  void keepOptions(int32_t v, const std::vector<char> &keep);
  /// Adds a piece. The part that all options share is subtracted from `room`.
  void addPiece(int32_t v, int32_t from, int32_t to, std::vector<int64_t> extra);
  /// Subtracts from all pieces of v, and from the room, what all options share. Drops pieces without extras.
  void normalizePieces(int32_t v);
  bool hasMemory(int32_t v) const { return !variables[v].pieces.empty(); }

  /// Turns chosen graph options per variable into a choice for the graph's nodes. Entries of variables with a record
  /// are overwritten.
  Choice expand(std::vector<int32_t> ids) const;

  std::vector<Variable> variables;
  std::vector<Edge> edges;
  std::vector<int64_t> room;         // per memory point: the limit less what is used in any case
  std::vector<int32_t> points;       // per memory point: its number before any were dropped
  std::vector<int32_t> optionCounts; // per variable, in the graph
  std::vector<int32_t> variableOf;   // per node
  std::vector<Record> records;
  Cost constant = 0;
  bool infeasible = false;

private:
  Problem() = default;
  std::unordered_map<uint64_t, int32_t> edgeOf_; // looked up only, never walked
  static uint64_t key(int32_t a, int32_t b) { return uint64_t(a) << 32 | uint32_t(b); }
};

template <typename F> int32_t Problem::addEdge(int32_t a, int32_t b, F cost) {
  bool swapped = a > b;
  if (swapped)
    std::swap(a, b);
  size_t rows = variables[a].size(), columns = variables[b].size();
  auto [it, isNew] = edgeOf_.try_emplace(key(a, b), int32_t(edges.size()));
  if (isNew) {
    edges.push_back({a, b, std::vector<Cost>(rows * columns, 0)});
    variables[a].edges.push_back(it->second);
    variables[b].edges.push_back(it->second);
  }
  Edge &edge = edges[it->second];
  edge.normal = false;
  for (size_t s = 0; s < rows; ++s)
    for (size_t t = 0; t < columns; ++t) {
      Cost &c = edge.costs[s * columns + t];
      c = addCosts(c, swapped ? cost(t, s) : cost(s, t));
    }
  return it->second;
}

} // namespace tessera::strategies

#endif
