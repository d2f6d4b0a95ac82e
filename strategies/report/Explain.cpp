#include "strategies/report/Explain.h"

#include "dialects/dist/DistDialect.h"

#include <algorithm>
#include <set>

namespace tessera::strategies {

namespace {

constexpr size_t kAlternatives = 3;
/// Looked-up costs, over all operators: beyond that the rest stays unexplained. Two seconds or so.
constexpr int64_t kMaxSteps = 400'000'000;

/// What of edges and of copies that are offered grows with the batch.
class Growing {
public:
  explicit Growing(const BuiltGraph &built) : graph_(built.dense.graph) {
    const WideGraph &wide = built.wide;
    const DenseGraph &dense = built.dense;
    std::map<std::pair<int32_t, int32_t>, std::vector<Part>> parts;
    for (size_t e = 0; e < wide.edges.size(); ++e) {
      const WideEdge &edge = wide.edges[e];
      if (!edge.grows)
        continue;
      Part part{{}, edge.from > edge.to};
      for (size_t i = 0; i < dense.option[size_t(edge.from)].size(); ++i) {
        const std::vector<Cost> row = dense.costs(wide, e, i);
        for (int32_t j : dense.option[size_t(edge.to)])
          part.costs.push_back(row[size_t((*edge.toState)[size_t(j)])]);
      }
      parts[{std::min(edge.from, edge.to), std::max(edge.from, edge.to)}].push_back(std::move(part));
    }
    for (const StrategyEdge &edge : graph_.edges)
      edges_.push_back(std::move(parts[{edge.from, edge.to}]));
    for (size_t n = 0; n < wide.nodes.size(); ++n) {
      std::vector<Cost> &sums = offered_.emplace_back(dense.option[n].size(), 0);
      for (size_t i = 0; i < dense.offered[n].size(); ++i)
        for (auto [share, copy] : dense.offered[n][i])
          if (const WideEdge &edge = wide.edges[size_t(wide.shares[size_t(share)].edges.front())]; edge.grows)
            sums[i] += wide.price(size_t(share), dense.option[n][i], copy);
    }
  }

  Cost edge(int e, const Choice &choice) const {
    const StrategyEdge &edge = graph_.edges[e];
    const size_t from = size_t(choice[edge.from]), to = size_t(choice[edge.to]);
    const size_t rows = graph_.nodes[edge.from].costs.size(), columns = graph_.nodes[edge.to].costs.size();
    Cost sum = 0;
    for (const Part &part : edges_[e])
      sum += part.costs[part.turned ? to * rows + from : from * columns + to];
    return sum;
  }
  Cost offered(int node, const Choice &choice) const { return offered_[node][size_t(choice[node])]; }

private:
  /// The costs of one value's edge: a part of the matrix between two nodes.
  struct Part {
    std::vector<Cost> costs;
    bool turned; // |to| x |from|
  };
  const StrategyGraph &graph_;
  std::vector<std::vector<Part>> edges_;   // by edge
  std::vector<std::vector<Cost>> offered_; // by node and option
};

class Explainer {
public:
  Explainer(const FunctionAssignment &function, const CostModel &model, const BuiltGraph &built, const Choice &choice)
      : function_(function), model_(model), built_(built), graph_(built.dense.graph), choice_(choice), growing_(built),
        edges_(graph_.nodes.size()), numGroups_(int32_t(built.groups.list.size())) {
    for (size_t e = 0; e < graph_.edges.size(); ++e) {
      edges_[graph_.edges[e].from].push_back(int(e));
      edges_[graph_.edges[e].to].push_back(int(e));
    }
  }

  std::map<int, std::vector<Alternative>> run() {
    std::map<int, std::vector<Alternative>> result;
    for (size_t c = 0; c < built_.groups.list.size() && steps_ < kMaxSteps; ++c) {
      if (built_.groups.list[c].arg >= 0 || built_.options[c]->size() < 2)
        continue;
      result[built_.groups.list[c].ops.front()] = alternatives(int(c));
    }
    return result;
  }

private:
  int other(int e, int node) const {
    const StrategyEdge &edge = graph_.edges[e];
    return edge.from == node ? edge.to : edge.from;
  }

  Cost edgeCost(int e, const Choice &choice) const {
    const StrategyEdge &edge = graph_.edges[e];
    return edge.costs[size_t(choice[edge.from]) * graph_.nodes[edge.to].costs.size() + size_t(choice[edge.to])];
  }

  /// The node's own cost and that of its edges.
  Cost around(int node, const Choice &choice) {
    Cost sum = graph_.nodes[node].costs[size_t(choice[node])];
    for (int e : edges_[node])
      sum = std::min(kForbidden, sum + edgeCost(e, choice));
    steps_ += int64_t(edges_[node].size()) + 1;
    return sum;
  }

  void answer(int node, Choice &choice) {
    int32_t best = choice[node];
    Cost cost = around(node, choice);
    for (int32_t k = 0; k < int32_t(graph_.nodes[node].costs.size()); ++k) {
      choice[node] = k;
      if (Cost c = around(node, choice); c < cost) {
        cost = c;
        best = k;
      }
    }
    choice[node] = best;
  }

  const GroupOption &option(int node, const Choice &choice) const {
    return (*built_.options[size_t(node)])[size_t(choice[node])];
  }

  int64_t persistentBytes(int node, const Choice &choice) const {
    int arg = built_.groups.list[size_t(node)].arg;
    if (arg < 0 || !function_.isPersistent(unsigned(arg)))
      return 0;
    mlir::func::FuncOp func = function_.program.func;
    mlir::Value v = func.getArgument(unsigned(arg));
    return model_.localBytes(shapeOf(v), elementBytes(v.getType()), option(node, choice).arg());
  }

  std::vector<Alternative> alternatives(int node) {
    const size_t c = size_t(node);
    std::set<int> neighbours;
    for (int e : edges_[node])
      if (other(e, node) < numGroups_)
        neighbours.insert(other(e, node));
    std::vector<Alternative> found;
    Choice choice = choice_;
    for (int32_t k = 0; k < int32_t(built_.options[c]->size()); ++k) {
      if (same((*built_.options[c])[size_t(k)], option(node, choice_)))
        continue;
      choice[node] = k;
      for (int n : neighbours)
        answer(n, choice);
      if (Alternative a; price(node, neighbours, choice, a)) {
        a.strategy =
            dist::strategyText((*built_.options[c])[size_t(k)].strategy(0),
                               function_.program.operators[built_.groups.list[c].ops.front()].cls->rule, model_.mesh());
        found.push_back(std::move(a));
      }
      for (int n : neighbours)
        choice[n] = choice_[n];
    }
    llvm::stable_sort(found, [](const Alternative &a, const Alternative &b) {
      return a.compute + a.communication < b.compute + b.communication;
    });
    // Of options that differ in what they offer, the cheapest.
    std::set<std::string> seen;
    std::erase_if(found, [&](const Alternative &a) { return !seen.insert(a.strategy).second; });
    if (found.size() > kAlternatives)
      found.resize(kAlternatives);
    return found;
  }

  /// They may differ in the copies that they offer.
  static bool same(const GroupOption &a, const GroupOption &b) { return a.head == b.head && a.tail == b.tail; }

  bool price(int node, const std::set<int> &neighbours, const Choice &choice, Alternative &a) const {
    std::set<int> changed = {node}, edges;
    for (int n : neighbours)
      if (choice[n] != choice_[n])
        changed.insert(n);
    for (int n : changed) {
      const GroupOption &now = option(n, choice), &before = option(n, choice_);
      const Cost compute = now.compute() - before.compute();
      a.compute += compute;
      a.communication += graph_.nodes[n].costs[size_t(choice[n])] - graph_.nodes[n].costs[size_t(choice_[n])] - compute;
      a.growing += now.growing() - before.growing() + growing_.offered(n, choice) - growing_.offered(n, choice_);
      a.memory += persistentBytes(n, choice) - persistentBytes(n, choice_);
      if (graph_.nodes[n].costs[size_t(choice[n])] >= kForbidden)
        return false;
      edges.insert(edges_[n].begin(), edges_[n].end());
    }
    for (int e : edges) {
      if (edgeCost(e, choice) >= kForbidden)
        return false;
      a.communication += edgeCost(e, choice) - edgeCost(e, choice_);
      a.growing += growing_.edge(e, choice) - growing_.edge(e, choice_);
    }
    return true;
  }

  const FunctionAssignment &function_;
  const CostModel &model_;
  const BuiltGraph &built_;
  const StrategyGraph &graph_; // of the options that are left
  const Choice &choice_;
  const Growing growing_;
  std::vector<std::vector<int>> edges_; // by node
  const int32_t numGroups_;             // a node behind them is only another lifetime of a node's memory
  int64_t steps_ = 0;
};

} // namespace

std::map<int, std::vector<Alternative>> explainChoice(const FunctionAssignment &function, const CostModel &model,
                                                      const BuiltGraph &built, const Choice &choice) {
  return Explainer(function, model, built, choice).run();
}

} // namespace tessera::strategies
