// Automatic: the strategy graph is built, solved, and the choice written back to the operators.
#include "strategies/modes/AutoSearch.h"
#include "strategies/modes/BesideSearch.h"
#include "strategies/modes/CoarserPlans.h"
#include "strategies/modes/Modes.h"

#include "dialects/graph/flow/MemoryLoad.h"
#include "strategies/report/Explain.h"
#include "strategies/space/Enumerate.h"
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
llvm::Error takeDataIfCheaper(FunctionAssignment &function, DataPlan &data, int64_t limit, SearchReport &report,
                              ProgramCost &planned) {
  if (sameCuts(data.lies(), function))
    return llvm::Error::success();
  std::optional<ProgramCost> other;
  if (llvm::Error e = data.priceIfShorter(planned.predicted()).moveInto(other))
    return e;
  if (!other || other->predicted() >= planned.predicted() || other->peakBytes > limit)
    return llvm::Error::success();
  const Cost cost = other->compute + other->communication; // as the search counts
  function.assignment = data.lies().assignment;
  function.args = data.lies().args;
  function.results = data.lies().results;
  planned = std::move(*other);
  report.alternatives.clear(); // to the search's choice
  report.counted = 0;
  report.searcher += ", then data";
  report.cost = std::max(cost, report.lowerBound);
  report.optimal = false;
  return llvm::Error::success();
}

llvm::Error nothingFits(const FunctionAssignment &function, const AssignOptions &options, const Searched &searched) {
  return llvm::createStringError(
      "function '%s': %s in %s per rank on mesh %s%s; use more ranks, a smaller batch or a larger --memory",
      func::FuncOp(function.program.func).getName().str().c_str(),
      searched.solution.infeasible ? "no assignment of strategies fits"
                                   : "the search found no assignment of strategies that fits",
      bytesText(memoryOf(options)).c_str(), options.mesh.str().c_str(),
      leastMemory(searched.built.dense.graph).c_str());
}

} // namespace

llvm::Error assignAuto(FunctionAssignment &function, const AssignOptions &options, Prices &prices,
                       const SharedShardings &shared, SearchReport &report, ProgramCost &planned, BesideBound &bound,
                       const OnAnswer &answered) {
  const CostModel &model = prices.model;
  llvm::Expected<FixedStrategies> fixed = mapUserStrategies(function, options.mesh, options.user, shared);
  if (!fixed)
    return fixed.takeError();
  if (!options.searcher.empty() && !llvm::is_contained(searcherNames(), options.searcher))
    return llvm::createStringError("there is no searcher '%s'", options.searcher.c_str());
  DataPlan data(function, options, prices, shared);
  CoarserPlans coarser(function, options, shared);
  const int64_t limit = memoryOf(options);
  // A searcher that was asked for has the last word.
  const bool isDefault = options.searcher.empty();
  const bool hides = options.join.overlap != Overlapping::Off && isDefault && mayHide(model);
  AutoSearch search(function, options, prices, shared, *fixed, data, report);
  auto apply = [&](const Searched &searched, FunctionAssignment &to) {
    applyChoice(to, options.mesh, searched.built, searched.solution.choice);
    to.finishResults();
  };
  // To choose messages can take longer than the search. What is too dear is priced without them.
  auto price = [&](const Searched &searched, const FunctionAssignment &of) {
    const bool isDear = searched.solution.cost >= options.tooDear;
    return priceProgram(chosenIn(of), model, isDear ? JoinOptions() : joinOf(options));
  };
  // Whole groups leave less to choose, and what is found for them is a good answer to begin with.
  Searched whole = search.run(Groups::Whole, nullptr, hides), split;
  std::optional<FunctionAssignment> inWhole;
  if (whole.found()) {
    apply(whole, inWhole.emplace(function));
    // Where every choice fits, no price is needed to know that this one does.
    if (hides && answered && !options.splitGroups && !coarser.compares() &&
        whole.built.wide.memoryLimit == std::numeric_limits<int64_t>::max())
      answered(*inWhole, 0);
    if (llvm::Error e = price(whole, *inWhole).moveInto(planned))
      return e;
  }
  // If the plan does not fit, this is searched again in another way (compiler/driver/FitMemory.cpp).
  const bool splits =
      isDefault && options.splitGroups && (!inWhole || (planned.peakBytes <= limit && maySplit(whole.built.wide)));
  if (splits)
    split = search.run(Groups::Split, inWhole ? &*inWhole : nullptr, hides);
  const Searched &last = splits ? split : whole;
  std::string dumpError;
  if (!options.dumpGraph.empty() && !writeStrategyGraph(last.built.dense.graph, options.dumpGraph, dumpError))
    return llvm::createStringError(dumpError);
  if (!whole.found() && !split.found()) {
    report.doesNotFit = true;
    return nothingFits(function, options, last);
  }
  report.nodes = int64_t(last.built.dense.graph.nodes.size());
  report.edges = int64_t(last.built.dense.graph.edges.size());
  for (const WideNode &node : last.built.wide.nodes)
    report.options += int64_t(node.costs->size());
  report.partly = llvm::count_if(last.built.options, [&](const auto &group) {
    return group->heads && group->heads->size() >= mostStrategies(options.mesh);
  });
  // The searches add up messages that are joined and hidden later, so the dearer answer may take less time.
  const Searched *taken = &whole;
  if (split.found()) {
    FunctionAssignment inSplit = function;
    apply(split, inSplit);
    llvm::Expected<ProgramCost> other = price(split, inSplit);
    if (!other)
      return other.takeError();
    const bool fits = other->peakBytes <= limit, wholeFits = inWhole && planned.peakBytes <= limit;
    report.heldTooMuch = wholeFits && !fits && split.solution.cost < whole.solution.cost;
    if (!inWhole || (fits == wholeFits ? other->predicted() <= planned.predicted() : fits)) {
      taken = &split;
      inWhole = std::move(inSplit);
      planned = std::move(*other);
    }
  }
  function = std::move(*inWhole);
  report.searcher = taken->solution.searcher;
  if (options.splitGroups && !split.found()) // the bound is about them
    report.searcher += ", whole groups";
  const std::string searcher = report.searcher;
  report.cost = taken->solution.cost;
  report.counted = taken->memoryPeak;
  report.lowerBound = std::min(report.cost, (split.found() ? split : whole).solution.lowerBound);
  report.optimal = report.cost == report.lowerBound && report.partly == 0;
  if (options.explain)
    report.alternatives = explainChoice(function, model, taken->built, taken->solution.choice);
  // Here, since functions that come later depend on where parameters lie, and every further search begins with the best
  // plan. What a user fixed stays, and a searcher that was asked for has the last word.
  const Cost asSearched = planned.predicted();
  if (options.user.empty() && isDefault) {
    if (llvm::Error e = takeDataIfCheaper(function, data, limit, report, planned))
      return e;
    if (llvm::Error e = coarser.takeIfShorter(function, model, report, planned))
      return e;
  }
  if (planned.predicted() < asSearched)
    taken = nullptr;
  // A plan that does not fit is searched again in another way, and so is what is hidden in it.
  if (hides && planned.peakBytes <= limit) {
    const auto begun = std::chrono::steady_clock::now();
    if (answered)
      answered(function, planned.peakBytes);
    using Proof = BesideRules::Proof;
    auto searchAgain = [&](Searched &searched, Proof proof) {
      const std::vector<int32_t> choice =
          taken == &searched ? searched.choice() : likestOptions(searched.all, function);
      searched.all.wide = std::move(searched.built.wide);
      return searchBeside(function, std::move(searched.all), choice,
                          {limit, joinOf(options), search.options(), searched.solution.work, searcher, proof}, model,
                          report, planned, bound);
    };
    if (split.found() && whole.found()) { // whole groups take little, so that there may be two searches
      const Cost before = planned.predicted();
      if (llvm::Error e = searchAgain(whole, Proof::None))
        return e;
      report.besideBound = 0; // of whole groups alone
      if (planned.predicted() < before)
        taken = nullptr;
    }
    const Proof proof = options.proveBeside ? Proof::Now : options.keep ? Proof::Later : Proof::None;
    if (llvm::Error e = searchAgain(split.found() ? split : whole, proof))
      return e;
    report.solveSeconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  }
  return llvm::Error::success();
}

} // namespace tessera::strategies
