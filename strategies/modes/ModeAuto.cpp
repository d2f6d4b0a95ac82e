// Automatic: the strategy graph is built, solved, and the choice written back to the operators.
#include "strategies/modes/BesideSearch.h"
#include "strategies/modes/Modes.h"

#include "dialects/graph/MemoryLoad.h"
#include "strategies/report/Explain.h"
#include "strategies/search/wide/SearchWide.h"
#include "strategies/space/StrategyGraphIO.h"

#include <chrono>

using namespace mlir;

namespace tessera::strategies {

namespace {

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

/// Takes over plain data parallelism where the plan of it is predicted to take less time than `planned`, that of what
/// the search chose. The search prices some things otherwise (test/unit/strategies/known_differences.txt), and does not
/// know what is hidden beside kernels.
llvm::Error takeDataIfCheaper(FunctionAssignment &function, const FunctionAssignment &data, const CostModel &model,
                              const JoinOptions &join, int64_t limit, SearchReport &report, ProgramCost &planned) {
  int64_t persistent = 0;
  func::FuncOp func = data.program.func;
  for (unsigned a = 0; a < data.args.size(); ++a)
    if (data.isPersistent(a)) {
      const Value v = func.getArgument(a);
      persistent += model.localBytes(shapeOf(v), elementBytes(v.getType()), data.args[a]);
    }
  if (persistent > limit)
    return llvm::Error::success();
  llvm::Expected<ProgramCost> other = priceProgram(chosenIn(data), model, join);
  if (!other)
    return other.takeError();
  if (other->predicted() >= planned.predicted() || other->peakBytes > limit)
    return llvm::Error::success();
  const Cost cost = other->compute + other->communication; // as the search counts
  function.assignment = data.assignment;
  function.args = data.args;
  function.results = data.results;
  planned = std::move(*other);
  report.alternatives.clear(); // to the search's choice
  report.searcher += ", then data";
  report.cost = std::max(cost, report.lowerBound);
  report.optimal = false;
  return llvm::Error::success();
}

} // namespace

llvm::Error assignAuto(FunctionAssignment &function, const AssignOptions &options, Prices &prices,
                       const SharedShardings &shared, SearchReport &report, ProgramCost &planned) {
  const CostModel &model = prices.model;
  llvm::Expected<FixedStrategies> fixed = mapUserStrategies(function, options.mesh, options.user, shared);
  if (!fixed)
    return fixed.takeError();
  int64_t limit = options.memoryLimit ? options.memoryLimit : options.topology.memoryPerRank(options.mesh.numRanks());
  auto now = [] { return std::chrono::steady_clock::now(); };
  auto start = now();
  // A searcher that was asked for has the last word.
  const bool hides = options.join.overlap != Overlapping::Off && options.searcher.empty() && mayHide(model);
  BuiltGraph built = buildGraph(function, model, &*fixed, shared, limit, &prices.heads, hides, options.share);
  report.buildSeconds = std::chrono::duration<double>(now() - start).count();
  FunctionAssignment data(function.program);
  if (llvm::Error e = assignData(data, options, shared))
    return e;
  nameDataParallel(built, data);
  SearchOptions searchOptions;
  searchOptions.seconds = options.searchSeconds;
  searchOptions.work = options.searchWork;
  searchOptions.threads = options.searchThreads;
  searchOptions.gap = options.searchGap;
  searchOptions.tooDear = options.tooDear;
  if (!options.searcher.empty()) {
    if (!llvm::is_contained(searcherNames(), options.searcher))
      return llvm::createStringError("there is no searcher '%s'", options.searcher.c_str());
    searchOptions.searcher = options.searcher;
  }
  const bool stoppedBefore = options.stop && *options.stop;
  if (!stoppedBefore)
    searchOptions.stop = options.stop;
  searchOptions.watch = options.watch;
  start = now();
  if (options.watch) {
    options.watch->begin(options.searchWork);
    ++options.watch->running;
  }
  WideSolution found = searchWide(built.wide, searchOptions);
  if (options.watch)
    --options.watch->running;
  report.solveSeconds = std::chrono::duration<double>(now() - start).count();
  report.work = found.solution.work;
  report.stopped = !stoppedBefore && options.stop && *options.stop && !found.solution.optimal;
  const Solution &solution = found.solution;
  BuiltGraph all = optionsOf(built);
  narrow(built, std::move(found.dense));
  std::string dumpError;
  if (!options.dumpGraph.empty() && !writeStrategyGraph(built.dense.graph, options.dumpGraph, dumpError))
    return llvm::createStringError(dumpError);
  std::string name = const_cast<func::FuncOp &>(function.program.func).getName().str();
  if (solution.choice.empty() || solution.cost >= kForbidden) {
    report.doesNotFit = true;
    return llvm::createStringError(
        "function '%s': %s in %s per rank on mesh %s%s; use more ranks, a smaller batch or a larger --memory",
        name.c_str(),
        solution.infeasible ? "no assignment of strategies fits"
                            : "the search found no assignment of strategies that fits",
        bytesText(limit).c_str(), options.mesh.str().c_str(), leastMemory(built.dense.graph).c_str());
  }
  report.searcher = solution.searcher;
  report.cost = solution.cost;
  report.lowerBound = solution.lowerBound;
  report.optimal = solution.optimal;
  report.nodes = int64_t(built.dense.graph.nodes.size());
  report.edges = int64_t(built.dense.graph.edges.size());
  for (const WideNode &node : built.wide.nodes)
    report.options += int64_t(node.costs->size());
  applyChoice(function, options.mesh, built, solution.choice);
  function.finishResults();
  if (options.explain)
    report.alternatives = explainChoice(function, model, built, solution.choice);
  if (llvm::Error e = priceProgram(chosenIn(function), model, joinOf(options)).moveInto(planned))
    return e;
  if (hides) {
    std::vector<int32_t> choice;
    for (size_t n = 0; n < built.wide.nodes.size(); ++n)
      choice.push_back(built.dense.option[n][size_t(solution.choice[n])]);
    all.wide = std::move(built.wide);
    start = now();
    if (llvm::Error e = searchBeside(function, all, std::move(choice), {limit, joinOf(options), searchOptions}, model,
                                     report, planned))
      return e;
    report.solveSeconds += std::chrono::duration<double>(now() - start).count();
  }
  // What a user fixed stays, and a searcher that was asked for has the last word.
  if (options.user.empty() && options.searcher.empty())
    return takeDataIfCheaper(function, data, model, joinOf(options), limit, report, planned);
  return llvm::Error::success();
}

} // namespace tessera::strategies
