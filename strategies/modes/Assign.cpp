#include "strategies/modes/Assign.h"
#include "strategies/modes/Modes.h"

#include "dialects/dist/DistDialect.h"
#include "dialects/graph/Graph.h"
#include "strategies/space/InParallel.h"
#include "strategies/user/UserMapping.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <cassert>

using namespace mlir;

namespace tessera::strategies {

const std::vector<std::string> &modeNames() {
  static const std::vector<std::string> names = {"data", "semi-auto", "auto"};
  return names;
}

std::shared_ptr<Prices> pricesOf(const AssignOptions &options) {
  if (!options.prices)
    return std::make_shared<Prices>(options.mesh, options.topology, options.profile, options.reproducible);
  assert(options.prices->model.mesh() == options.mesh && "the prices are those of another mesh");
  return options.prices;
}

int64_t memoryOf(const AssignOptions &options) {
  return options.memoryLimit ? options.memoryLimit : options.topology.memoryPerRank(options.mesh.numRanks());
}

JoinOptions joinOf(const AssignOptions &options) {
  JoinOptions join = options.join;
  join.memory = memoryOf(options);
  return join;
}

namespace {

/// The training step comes first, since it decides how parameters lie.
llvm::SmallVector<func::FuncOp> functionsInOrder(ModuleOp module) {
  llvm::SmallVector<func::FuncOp> list(module.getOps<func::FuncOp>());
  llvm::stable_sort(list,
                    [](func::FuncOp a, func::FuncOp b) { return (a.getName() == "train") > (b.getName() == "train"); });
  return list;
}

/// Whether all persistent arguments lie as an earlier function said.
bool isDecided(func::FuncOp func, const SharedShardings &shared) {
  for (unsigned a = 0; a < func.getNumArguments(); ++a) {
    const llvm::StringRef role = graph::argRole(func, a);
    if ((role == graph::kParameter || role == graph::kState) && !shared.contains(graph::argName(func, a).str()))
      return false;
  }
  return true;
}

} // namespace

llvm::Error checkMesh(const AssignOptions &options) {
  if (llvm::Error e = options.topology.fits(options.mesh))
    return e;
  for (const auto &[axis, link] : options.topology.axes)
    if (options.mesh.findAxis(axis) < 0)
      return llvm::createStringError("topology %s gives a link for axis '%s' but mesh %s has none",
                                     options.topology.name.c_str(), axis.c_str(), options.mesh.str().c_str());
  return llvm::Error::success();
}

llvm::Error assignStrategies(ModuleOp module, const AssignOptions &options, AssignReport &report) {
  if (!llvm::is_contained(modeNames(), options.mode))
    return llvm::createStringError("unknown mode '%s'; modes are %s", options.mode.c_str(),
                                   llvm::join(modeNames(), ", ").c_str());
  if (llvm::Error e = checkMesh(options))
    return e;
  if (options.mode == "data" && !options.user.entries.empty())
    return llvm::createStringError(
        "strategies from %s have no effect in mode data: use --mode semi-auto or --mode auto",
        options.user.origin.c_str());

  if (!options.user.versions.empty())
    return llvm::createStringError("strategy file %s: it was saved for mesh %s, not for %s",
                                   options.user.origin.c_str(), options.user.savedMesh.c_str(),
                                   options.mesh.str().c_str());
  if (llvm::Error e = checkNames(module, options.user))
    return e;

  const std::shared_ptr<Prices> prices = pricesOf(options);
  dist::setMesh(module, options.mesh);
  report = AssignReport();
  report.mode = options.user.saved.empty() ? options.mode : "saved";
  report.mesh = options.mesh.str();
  report.topology = options.topology.name;
  report.memoryLimit = memoryOf(options);

  if (!options.user.saved.empty()) {
    if (llvm::Error e = applySaved(module, options.mesh, options.user))
      return e;
  }
  SharedShardings shared;
  const llvm::SmallVector<func::FuncOp> functions = functionsInOrder(module);
  std::vector<SearchReport> searches(functions.size());
  std::vector<BesideBound> bounds(functions.size()); // they are asked for once all functions have strategies
  auto assign = [&](size_t f, const AssignOptions &with, Prices &prices,
                    SharedShardings &shared) -> llvm::Expected<FunctionReport> {
    const CostModel &model = prices.model;
    func::FuncOp func = functions[f];
    if (!options.user.saved.empty())
      return priceFunction(func, model, joinOf(options));
    llvm::Expected<Program> program = Program::analyse(func);
    if (!program)
      return program.takeError();
    FunctionAssignment function(std::move(*program));
    std::optional<ProgramCost> cost;
    if (llvm::Error e = options.mode == "data" ? assignData(function, options, shared)
                        : options.mode == "semi-auto"
                            ? assignSemiAuto(function, options, shared)
                            : assignAuto(function, with, prices, shared, searches[f], cost.emplace(), bounds[f]))
      return e;
    if (llvm::Error e = function.write(options.mesh))
      return e;
    function.publish(shared);
    if (!cost)
      if (llvm::Error e = priceProgram(chosenIn(function), model, joinOf(options)).moveInto(cost.emplace()))
        return e;
    return reportFunction(chosenIn(function), *cost, model);
  };
  auto add = [&](size_t f, llvm::Expected<FunctionReport> priced) -> llvm::Error {
    report.doesNotFit |= searches[f].doesNotFit;
    if (!priced)
      return priced.takeError();
    priced->search = std::move(searches[f]);
    report.functions.push_back(std::move(*priced));
    return llvm::Error::success();
  };
  // dumpGraph and tooDear hold for the first function alone.
  auto later = [&] {
    AssignOptions with = options;
    with.dumpGraph.clear();
    with.tooDear = std::numeric_limits<Cost>::max();
    if (options.stop && *options.stop)
      with.searchWork = std::min(with.searchWork, kHurriedWork);
    return with;
  };
  const bool atOnce = options.mode == "auto" && options.user.saved.empty() && options.exactThreads > 1 &&
                      module.getContext()->isMultithreadingEnabled();
  for (size_t f = 0; f < functions.size(); ++f) {
    if (f == 1 && atOnce && llvm::all_of(functions, [&](func::FuncOp func) { return isDecided(func, shared); })) {
      // None of those that are left depends on another.
      const size_t left = functions.size() - 1;
      std::vector<std::unique_ptr<Prices>> own;
      for (size_t i = 0; i < left; ++i)
        own.push_back(std::make_unique<Prices>(*prices, int(i)));
      std::vector<std::optional<llvm::Expected<FunctionReport>>> priced(left);
      inParallel(options.exactThreads, left, [&](size_t i) {
        AssignOptions with = later();
        if (i > 0)
          with.watch = nullptr; // it is told of one search
        SharedShardings decided = shared;
        priced[i].emplace(assign(i + 1, with, *own[i], decided));
      });
      llvm::Error failed = llvm::Error::success();
      for (size_t i = 0; i < left; ++i)
        if (llvm::Error e = add(i + 1, std::move(*priced[i]))) {
          if (failed)
            llvm::consumeError(std::move(e));
          else
            failed = std::move(e);
        }
      if (failed)
        return failed;
      break;
    }
    if (llvm::Error e = add(f, assign(f, f ? later() : options, *prices, shared)))
      return e;
    if (options.firstOnly || report.functions.front().peakBytes > options.firstWithin)
      break;
  }
  for (auto [function, bound] : llvm::zip(report.functions, bounds))
    bound.tell(function.search);
  return llvm::Error::success();
}

} // namespace tessera::strategies
