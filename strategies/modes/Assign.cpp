#include "strategies/modes/Assign.h"
#include "strategies/modes/KnownAnswer.h"
#include "strategies/modes/Modes.h"
#include "strategies/modes/OtherFunctions.h"

#include "dialects/dist/DistDialect.h"
#include "dialects/graph/Graph.h"
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
    return std::make_shared<Prices>(options.mesh, options.topology, options.profile, options.reproducible,
                                    options.join.joins());
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

/// The functions of a module, of which each gets its strategies.
class Assigning {
public:
  Assigning(ModuleOp module, const AssignOptions &options, Prices &prices, AssignReport &report)
      : options_(options), prices_(prices), report_(report), functions_(functionsInOrder(module)),
        atOnce_(options.mode == "auto" && options.exactThreads > 1 && module.getContext()->isMultithreadingEnabled()) {}

  llvm::Error run() {
    if (functions_.empty())
      return llvm::Error::success();
    Found first;
    choose(0, options_, prices_, {}, first, [&](const FunctionAssignment &answer, int64_t peakBytes) {
      if (others_ || isLast(peakBytes))
        return;
      SharedShardings likely;
      answer.publish(likely);
      beginOthers(std::move(likely));
    });
    SharedShardings shared;
    if (llvm::Error e = take(first, shared))
      return e;
    if (!isLast(report_.functions.front().peakBytes)) {
      if (others_ && others_->shared() != shared)
        others_.reset();
      if (!others_)
        beginOthers(shared);
      if (llvm::Error e = others_ ? takeOthers() : oneByOne(shared))
        return e;
    }
    first.bound.tell(report_.functions.front().search);
    return llvm::Error::success();
  }

private:
  using Found = OtherFunctions::Found;

  /// Only the first function is asked for, which needs so many bytes.
  bool isLast(int64_t peakBytes) const { return options_.firstOnly || peakBytes > options_.firstWithin; }

  /// Sets `found` for function `f`.
  void choose(size_t f, const AssignOptions &with, Prices &prices, const SharedShardings &shared, Found &found,
              const OnAnswer &answered) const {
    auto chosen = [&]() -> llvm::Expected<ChosenFunction> {
      llvm::Expected<Program> program = Program::analyse(functions_[f]);
      if (!program)
        return program.takeError();
      FunctionAssignment function(std::move(*program));
      ProgramCost cost;
      const bool isAuto = options_.mode == "auto",
                 isKnown = f == 0 && with.known && with.known->answers(function, with);
      if (isKnown) {
        with.known->take(function, found.search, cost, found.bound);
        if (with.proveBeside)
          found.bound.begin(with.exactThreads);
      } else if (llvm::Error e =
                     isAuto ? assignAuto(function, with, prices, shared, found.search, cost, found.bound, answered)
                     : options_.mode == "data" ? assignData(function, options_, shared)
                                               : assignSemiAuto(function, options_, shared)) {
        return e;
      }
      if (f == 0 && isAuto && with.keep)
        *with.keep = KnownAnswer::of(function, with, found.search, cost, found.bound);
      if (!isAuto)
        if (llvm::Error e = priceProgram(chosenIn(function), prices.model, joinOf(options_)).moveInto(cost))
          return e;
      std::optional<ProgramCost> shortest = std::move(cost);
      if (llvm::Error e = takeApartIfShorter(chosenIn(function), prices.model, joinOf(options_), kForbidden, shortest))
        return e;
      cost = std::move(*shortest);
      function.apart = cost.apart;
      FunctionReport report = reportFunction(chosenIn(function), cost, prices.model);
      return ChosenFunction{std::move(function), std::move(report)};
    };
    found.chosen.emplace(chosen());
  }

  /// Writes what was found to the function and the report, and adds to `shared` how parameters lie.
  llvm::Error take(Found &found, SharedShardings &shared) {
    report_.doesNotFit |= found.search.doesNotFit;
    if (!*found.chosen)
      return found.chosen->takeError();
    const FunctionAssignment &function = (*found.chosen)->function;
    if (llvm::Error e = function.write(options_.mesh))
      return e;
    function.publish(shared);
    report_.functions.push_back(std::move((*found.chosen)->report));
    report_.functions.back().search = std::move(found.search);
    return llvm::Error::success();
  }

  /// dumpGraph and tooDear hold for the first function alone.
  AssignOptions later() const {
    AssignOptions with = options_;
    with.dumpGraph.clear();
    with.tooDear = std::numeric_limits<Cost>::max();
    if (options_.stop && *options_.stop)
      with.searchWork = std::min(with.searchWork, kHurriedWork);
    return with;
  }

  /// If none of those after the first one depends on another.
  void beginOthers(SharedShardings shared) {
    auto decided = [&](func::FuncOp func) { return isDecided(func, shared); };
    if (!atOnce_ || functions_.size() < 2 || !llvm::all_of(functions_, decided))
      return;
    others_.emplace(functions_.size() - 1, later(), prices_, std::move(shared),
                    [this](size_t f, const AssignOptions &with, Prices &prices, const SharedShardings &decided,
                           Found &found) { choose(f, with, prices, decided, found, nullptr); });
  }

  llvm::Error takeOthers() {
    others_->finish();
    SharedShardings shared; // nothing is decided any more
    for (Found &found : others_->found)
      if (llvm::Error e = take(found, shared))
        return e;
    for (size_t i = 0; i < others_->found.size(); ++i)
      others_->found[i].bound.tell(report_.functions[i + 1].search);
    return llvm::Error::success();
  }

  llvm::Error oneByOne(SharedShardings &shared) {
    std::vector<Found> list(functions_.size() - 1);
    for (size_t i = 0; i < list.size(); ++i) {
      choose(i + 1, later(), prices_, shared, list[i], nullptr);
      if (llvm::Error e = take(list[i], shared))
        return e;
    }
    for (size_t i = 0; i < list.size(); ++i)
      list[i].bound.tell(report_.functions[i + 1].search);
    return llvm::Error::success();
  }

  const AssignOptions &options_;
  Prices &prices_;
  AssignReport &report_;
  const llvm::SmallVector<func::FuncOp> functions_;
  const bool atOnce_;
  std::optional<OtherFunctions> others_;
};

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

  if (options.user.saved.empty())
    return Assigning(module, options, *prices, report).run();
  if (llvm::Error e = applySaved(module, options.mesh, options.user))
    return e;
  for (func::FuncOp func : functionsInOrder(module)) {
    llvm::Expected<FunctionReport> priced = priceFunction(func, prices->model, joinOf(options));
    if (!priced)
      return priced.takeError();
    report.functions.push_back(std::move(*priced));
    if (options.firstOnly || report.functions.front().peakBytes > options.firstWithin)
      break;
  }
  return llvm::Error::success();
}

} // namespace tessera::strategies
