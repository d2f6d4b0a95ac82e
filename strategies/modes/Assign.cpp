#include "strategies/modes/Assign.h"
#include "strategies/modes/Modes.h"

#include "dialects/dist/DistDialect.h"
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

} // namespace

llvm::Error assignStrategies(ModuleOp module, const AssignOptions &options, AssignReport &report) {
  if (!llvm::is_contained(modeNames(), options.mode))
    return llvm::createStringError("unknown mode '%s'; modes are %s", options.mode.c_str(),
                                   llvm::join(modeNames(), ", ").c_str());
  if (llvm::Error e = options.topology.fits(options.mesh))
    return e;
  for (const auto &[axis, link] : options.topology.axes)
    if (options.mesh.findAxis(axis) < 0)
      return llvm::createStringError("topology %s gives a link for axis '%s' but mesh %s has none",
                                     options.topology.name.c_str(), axis.c_str(), options.mesh.str().c_str());
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
  const CostModel &model = prices->model;
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
  std::vector<BesideBound> bounds; // by function; they are asked for once all functions have strategies
  AssignOptions first = options;   // dumpGraph and tooDear hold for the first function alone
  for (func::FuncOp func : functionsInOrder(module)) {
    SearchReport search;
    BesideBound &bound = bounds.emplace_back();
    auto assign = [&]() -> llvm::Expected<FunctionReport> {
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
                              : assignAuto(function, first, *prices, shared, search, cost.emplace(), bound))
        return e;
      if (llvm::Error e = function.write(options.mesh))
        return e;
      function.publish(shared);
      if (!cost)
        if (llvm::Error e = priceProgram(chosenIn(function), model, joinOf(options)).moveInto(cost.emplace()))
          return e;
      return reportFunction(chosenIn(function), *cost, model);
    };
    llvm::Expected<FunctionReport> priced = assign();
    first.dumpGraph.clear();
    first.tooDear = std::numeric_limits<Cost>::max();
    if (options.stop && *options.stop)
      first.searchWork = std::min(first.searchWork, kHurriedWork);
    report.doesNotFit |= search.doesNotFit;
    if (!priced)
      return priced.takeError();
    priced->search = std::move(search);
    report.functions.push_back(std::move(*priced));
    if (options.firstOnly || report.functions.front().peakBytes > options.firstWithin)
      break;
  }
  for (auto [function, bound] : llvm::zip_equal(report.functions, bounds))
    bound.tell(function.search);
  return llvm::Error::success();
}

} // namespace tessera::strategies
