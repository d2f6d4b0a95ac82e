// Automatic: the strategy graph is built, solved, and the choice written back to the operators.
#include "strategies/modes/Modes.h"
#include "strategies/report/Explain.h"
#include "strategies/search/Search.h"
#include "strategies/space/StrategyGraphIO.h"

#include <chrono>
#include <map>

using namespace mlir;

namespace tessera::strategies {

namespace {

/// Options per node. More sees more combinations and costs the search dearly on meshes of several axes.
constexpr size_t kMaxOptions = 48;

/// What memory is needed even if every node took its smallest option, and by what.
std::string leastMemory(const StrategyGraph &graph) {
  std::map<int64_t, int64_t> change; // time -> bytes
  auto least = [](const StrategyNode &node) {
    return node.usages.empty() ? 0 : *std::min_element(node.usages.begin(), node.usages.end());
  };
  for (const StrategyNode &node : graph.nodes) {
    if (node.liveFrom >= node.liveTo)
      continue;
    change[node.liveFrom] += least(node);
    change[node.liveTo] -= least(node);
  }
  int64_t now = 0, peak = 0, at = 0;
  for (auto [time, bytes] : change)
    if ((now += bytes) > peak) {
      peak = now;
      at = time;
    }
  if (peak == 0)
    return "";
  std::vector<std::pair<int64_t, size_t>> live;
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    if (graph.nodes[i].liveFrom <= at && at < graph.nodes[i].liveTo)
      live.push_back({-least(graph.nodes[i]), i});
  llvm::sort(live);
  std::string text = " (cut as finely as possible it needs " + bytesText(peak) + ", most for ";
  for (size_t i = 0; i < live.size() && i < 3; ++i)
    text += (i ? ", '" : "'") + graph.nodes[live[i].second].name + "' " + bytesText(-live[i].first);
  return text + ")";
}

void apply(FunctionAssignment &function, const Mesh &mesh, const BuiltGraph &built, const Choice &choice) {
  const Program &program = function.program;
  for (size_t c = 0; c < built.groups.list.size(); ++c) {
    const FollowGroup &group = built.groups.list[c];
    const GroupOption &option = (*built.options[c])[size_t(choice[built.node[c]])];
    if (group.arg >= 0)
      function.setArg(unsigned(group.arg), option.arg);
    for (size_t m = 0; m < group.ops.size(); ++m) {
      int i = group.ops[m];
      const OperatorInfo &info = program.operators[i];
      function.assignment.strategies[i] = option.strategies[m];
      for (unsigned r = 0; r < info.op->getNumResults(); ++r)
        function.assignment.values[info.op->getResult(r)] =
            dist::resultSharding(info.cls->rule, option.strategies[m], int(r));
    }
  }
  // Sources make what their users want, if these agree. Users come later, so from the back.
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
        Sharding needs = it == program.index.end() ? Sharding::replicated(int64_t(shapeOf(result).size()))
                                                   : dist::operandSharding(program.operators[it->second].cls->rule,
                                                                           function.assignment.strategies[it->second],
                                                                           int(use.getOperandNumber()))
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
      function.assignment.values[info.op->getResult(r)] = dist::resultSharding(info.cls->rule, strategy, int(r));
    function.assignment.strategies[i] = std::move(strategy);
  }
}

} // namespace

llvm::Error assignAuto(FunctionAssignment &function, const AssignOptions &options, const CostModel &model,
                       const SharedShardings &shared, SearchReport &report) {
  llvm::Expected<FixedStrategies> fixed = mapUserStrategies(function, options.mesh, options.user, shared);
  if (!fixed)
    return fixed.takeError();
  int64_t limit = options.memoryLimit ? options.memoryLimit : options.topology.memoryPerRank(options.mesh.numRanks());
  auto now = [] { return std::chrono::steady_clock::now(); };
  auto start = now();
  BuiltGraph built = buildGraph(function, model, &*fixed, shared, limit, kMaxOptions);
  report.buildSeconds = std::chrono::duration<double>(now() - start).count();
  if (!options.dumpGraph.empty() || options.searcher == "data") {
    llvm::Expected<Program> program = Program::analyse(function.program.func);
    if (!program)
      return program.takeError();
    FunctionAssignment data(std::move(*program));
    if (llvm::Error e = assignData(data, options, shared))
      return e;
    nameDataParallel(built, data);
  }
  std::string dumpError;
  if (!options.dumpGraph.empty() && !writeStrategyGraph(built.graph, options.dumpGraph, dumpError))
    return llvm::createStringError(dumpError);
  SearchOptions search_;
  search_.seconds = options.searchSeconds;
  search_.work = options.searchWork;
  search_.threads = options.searchThreads;
  search_.gap = options.searchGap;
  if (!options.searcher.empty()) {
    if (!llvm::is_contained(searcherNames(), options.searcher))
      return llvm::createStringError("there is no searcher '%s'", options.searcher.c_str());
    search_.searcher = options.searcher;
  }
  start = now();
  Solution solution = search(built.graph, search_);
  report.solveSeconds = std::chrono::duration<double>(now() - start).count();
  std::string name = const_cast<func::FuncOp &>(function.program.func).getName().str();
  if (solution.choice.empty() || solution.cost >= kForbidden) {
    report.doesNotFit = true;
    return llvm::createStringError(
        "function '%s': %s in %s per rank on mesh %s%s; use more ranks, a smaller batch or a larger --memory",
        name.c_str(),
        solution.infeasible ? "no assignment of strategies fits"
                            : "the search found no assignment of strategies that fits",
        bytesText(limit).c_str(), options.mesh.str().c_str(), leastMemory(built.graph).c_str());
  }
  report.searcher = solution.searcher;
  report.cost = solution.cost;
  report.lowerBound = solution.lowerBound;
  report.optimal = solution.optimal;
  report.nodes = int64_t(built.graph.nodes.size());
  report.edges = int64_t(built.graph.edges.size());
  for (const StrategyNode &node : built.graph.nodes)
    report.options += int64_t(node.costs.size());
  apply(function, options.mesh, built, solution.choice);
  function.finishResults();
  if (options.explain)
    report.alternatives = explainChoice(function, model, built, solution.choice);
  return llvm::Error::success();
}

} // namespace tessera::strategies
