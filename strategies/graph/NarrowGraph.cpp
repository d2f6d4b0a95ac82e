// From the wide graph to the options that a search keeps, and back from a choice to the function.
#include "strategies/graph/BuildGraph.h"

using namespace mlir;

namespace tessera::strategies {

void narrow(BuiltGraph &built, const Kept &kept, const Offers &offers) {
  const WideGraph &wide = built.wide;
  DenseGraph dense = denseGraph(wide, kept, offers);
  // What grows of an edge, as matrices over the kept options.
  std::map<std::pair<int32_t, int32_t>, std::vector<BuiltGraph::Growing>> growing;
  for (size_t e = 0; e < wide.edges.size(); ++e) {
    const WideEdge &edge = wide.edges[e];
    if (!edge.grows)
      continue;
    auto costs = std::make_shared<std::vector<Cost>>();
    for (size_t i = 0; i < dense.option[size_t(edge.from)].size(); ++i) {
      const std::vector<Cost> row = dense.costs(wide, e, i);
      for (int32_t j : dense.option[size_t(edge.to)])
        costs->push_back(row[size_t((*edge.toState)[size_t(j)])]);
    }
    growing[{std::min(edge.from, edge.to), std::max(edge.from, edge.to)}].push_back(
        {std::move(costs), edge.from > edge.to});
  }
  built.growing.clear();
  for (const StrategyEdge &edge : dense.graph.edges)
    built.growing.push_back(growing[{edge.from, edge.to}]);
  built.growingOffers.clear();
  for (size_t n = 0; n < wide.nodes.size(); ++n) {
    std::vector<Cost> &sums = built.growingOffers.emplace_back(dense.option[n].size(), 0);
    for (size_t i = 0; i < dense.offered[n].size(); ++i)
      for (auto [share, copy] : dense.offered[n][i])
        if (const WideEdge &edge = wide.edges[size_t(wide.shares[size_t(share)].edges.front())]; edge.grows)
          sums[i] += wide.price(size_t(share), dense.option[n][i], copy);
  }
  for (size_t c = 0; c < built.options.size(); ++c) {
    const std::vector<int32_t> &own = dense.option[c];
    auto options = std::make_shared<GroupOptions>();
    options->heads = built.options[c]->heads;
    options->tails = built.options[c]->tails;
    for (int32_t k : own)
      options->push_back((*built.options[c])[size_t(k)]);
    built.options[c] = std::move(options);
  }
  built.graph = std::move(dense.graph);
}

/// Sources make what their users want, if these agree. Users come later, so from the back.
static void assignSources(FunctionAssignment &function, const Mesh &mesh, const BuiltGraph &built) {
  const Program &program = function.program;
  for (size_t i = program.operators.size(); i-- > 0;) {
    if (built.groups.ofOp[i] >= 0)
      continue;
    const OperatorInfo &info = program.operators[i];
    Strategy strategy;
    strategy.factors.resize(info.cls->rule.factors.size());
    if (info.op->getNumResults() == 1) {
      Value result = info.op->getResult(0);
      std::optional<Sharding> wanted;
      bool agree = true;
      for (OpOperand &use : result.getUses()) {
        auto it = program.index.find(use.getOwner());
        Sharding needs =
            it == program.index.end()
                ? Sharding::replicated(int64_t(shapeOf(result).size()))
                : dist::operandSharding(mesh, program.operators[it->second].cls->rule,
                                        function.assignment.strategies[it->second], int(use.getOperandNumber()))
                      .withoutPartial();
        agree &= !wanted || *wanted == needs;
        wanted = std::move(needs);
      }
      if (wanted && agree) {
        llvm::SmallVector<const Sharding *> none(info.op->getNumOperands(), nullptr);
        strategy = strategyFrom(*info.cls, mesh, none, {&*wanted});
      }
    }
    for (unsigned r = 0; r < info.op->getNumResults(); ++r)
      function.assignment.values[info.op->getResult(r)] = dist::resultSharding(mesh, info.cls->rule, strategy, int(r));
    function.assignment.strategies[i] = std::move(strategy);
  }
}

void applyChoice(FunctionAssignment &function, const Mesh &mesh, const BuiltGraph &built, const Choice &choice) {
  const Program &program = function.program;
  for (size_t c = 0; c < built.groups.list.size(); ++c) {
    const FollowGroup &group = built.groups.list[c];
    const GroupOption &option = (*built.options[c])[size_t(choice[c])];
    if (group.arg >= 0)
      function.setArg(unsigned(group.arg), option.arg());
    for (size_t m = 0; m < group.ops.size(); ++m) {
      int i = group.ops[m];
      const OperatorInfo &info = program.operators[i];
      function.assignment.strategies[i] = option.strategy(m);
      for (unsigned r = 0; r < info.op->getNumResults(); ++r)
        function.assignment.values[info.op->getResult(r)] =
            dist::resultSharding(mesh, info.cls->rule, option.strategy(m), int(r));
    }
  }
  assignSources(function, mesh, built);
}

void nameDataParallel(BuiltGraph &built, const FunctionAssignment &data) {
  std::vector<int32_t> &named = built.wide.dataParallel;
  named.assign(built.wide.nodes.size(), 0);
  for (size_t c = 0; c < built.groups.list.size(); ++c) {
    const FollowGroup &group = built.groups.list[c];
    size_t most = 0;
    for (size_t k = 0; k < built.options[c]->size(); ++k) {
      const GroupOption &option = (*built.options[c])[k];
      if (group.arg < 0 && option.strategy(0).factors != data.assignment.strategies[group.ops.front()].factors)
        continue;
      size_t alike = group.arg >= 0 && option.arg() == data.args[group.arg];
      for (size_t m = 0; m < group.ops.size(); ++m) {
        // Cut alike is what matters; a sum that is not reduced here is reduced on the way to its reader.
        const Strategy &mine = option.strategy(m), &wanted = data.assignment.strategies[group.ops[m]];
        alike += mine == wanted ? 3 : mine.factors == wanted.factors ? 2 : 0;
      }
      if (alike > most) {
        most = alike;
        named[c] = int32_t(k);
      }
    }
  }
}

} // namespace tessera::strategies
