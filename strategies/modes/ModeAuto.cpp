// Automatic: the strategy graph is built, solved, and the choice written back to the operators.
#include "strategies/modes/Modes.h"

#include "dialects/graph/MemoryLoad.h"
#include "strategies/report/Explain.h"
#include "strategies/search/Search.h"
#include "strategies/space/StrategyGraphIO.h"

#include <chrono>

using namespace mlir;

namespace tessera::strategies {

namespace {

/// Options per node. More sees more combinations and costs the search dearly on meshes of several axes.
constexpr size_t kMaxOptions = 48;

/// What memory is needed even if every node took its smallest option, and by what.
std::string leastMemory(const StrategyGraph &graph) {
  graph::MemoryLoad load;
  auto least = [](const StrategyNode &node) {
    return node.usages.empty() ? 0 : *std::min_element(node.usages.begin(), node.usages.end());
  };
  for (const StrategyNode &node : graph.nodes)
    if (node.liveFrom < node.liveTo)
      load.add(node.liveFrom, node.liveTo - 1, least(node));
  const auto [peak, at] = load.peak();
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
  SearchOptions searchOptions;
  searchOptions.seconds = options.searchSeconds;
  searchOptions.work = options.searchWork;
  searchOptions.threads = options.searchThreads;
  searchOptions.gap = options.searchGap;
  if (!options.searcher.empty()) {
    if (!llvm::is_contained(searcherNames(), options.searcher))
      return llvm::createStringError("there is no searcher '%s'", options.searcher.c_str());
    searchOptions.searcher = options.searcher;
  }
  start = now();
  Solution solution = search(built.graph, searchOptions);
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
  applyChoice(function, options.mesh, built, solution.choice);
  function.finishResults();
  if (options.explain)
    report.alternatives = explainChoice(function, model, built, solution.choice);
  return llvm::Error::success();
}

} // namespace tessera::strategies
