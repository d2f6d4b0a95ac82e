#include "compiler/driver/FitMemory.h"

#include "compiler/driver/Localizing.h"
#include "compiler/driver/Phases.h"

#include "compiler/hybrid/Varying.h"
#include "compiler/transform/Passes.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphAttributes.h"
#include "dialects/graph/GraphKinds.h"
#include "dialects/graph/flow/Messages.h"
#include "runtime/support/BytesText.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"

#include <array>
#include <cassert>
#include <utility>

using namespace mlir;

namespace tessera {

using strategies::AssignOptions;

char DoesNotFit::ID;
char NoBetter::ID;
char NotAtOnce::ID;

/// The most repetitions of the search with smaller limits, if the arena does not fit.
static constexpr int kMaxAttempts = 5;
/// The next search gets this part of the proportional limit, because packing differs from one assignment to the next.
static constexpr double kMargin = 0.97;

/// How another schedule of a pipeline may need less: on the ranks that need most.
static std::string otherSchedule(const Compilation &run, const FittedProgram &fitted) {
  if (!fitted.pipeline || fitted.pipeline->inFlight.empty())
    return "";
  const std::vector<uint64_t> &bytes = fitted.memory.stageBytes;
  const auto place = size_t(llvm::max_element(bytes) - bytes.begin());
  const int held = fitted.pipeline->inFlight[place], chunks = run.pipeline->options.chunks;
  const std::string text = std::to_string(held) + " micro-batches " +
                           (chunks > 1 ? "of its " + std::to_string(chunks) + " stages " : "") + "at once";
  if (run.pipeline->options.isFile())
    return llvm::formatv(", fewer forward passes before their backward passes in line {0} of {1}, which holds {2},",
                         place + 1, fitted.pipeline->schedule, text);
  return held > chunks * int(bytes.size() - place) ? llvm::formatv(", --pipeline schedule=1f1b ({0} {1} holds {2})",
                                                                   chunks > 1 ? "place" : "stage", place, text)
                                                         .str()
                                                   : "";
}

/// `needed` bytes, of which `fills` says what they hold.
static llvm::Error overLimit(const Compilation &run, double needed, const std::string &fills, int64_t limit,
                             const std::string &ways = "") {
  const CompileOptions &options = run.options;
  return llvm::make_error<DoesNotFit>(llvm::formatv(
      "the plan needs {0} per rank but the limit is {1} ({2}); use more ranks, a smaller "
      "batch{3}{4}{6} "
      "or a larger "
      "--memory; what fills it: {5}",
      bytesText(needed), bytesText(limit),
      options.assign.memory.empty() ? "topology " + run.assign.topology.name : "--memory",
      options.assign.mode == "auto" || run.hybrid ? "" : ", --mode auto (which cuts parameters and activations)",
      options.train && options.recompute == "none" ? ", --recompute auto" : "", fills, ways));
}

static llvm::Error overLimit(const Compilation &run, const FittedProgram &fitted, int64_t limit) {
  return overLimit(run, double(fitted.memory.arenaBytes), fitted.memory.str(), limit, otherSchedule(run, fitted));
}

/// Lays the program out. The caller checks whether it fits.
static llvm::Error layOut(Compilation &run, FittedProgram &fitted) {
  return compiler::planMemory(*fitted.local, emitOptions(run.options), &fitted.times).moveInto(fitted.memory);
}

/// Phase 3 of a module in phase 2.
static llvm::Error choose(Compilation &run, ModuleOp module, const AssignOptions &assign, FittedProgram &fitted) {
  run.begins("strategies");
  if (llvm::Error e = annotate(run, module, assign, fitted.report)) {
    if (!fitted.report.doesNotFit)
      return e;
    return llvm::make_error<DoesNotFit>(llvm::toString(std::move(e)));
  }
  run.finished("strategies");
  run.begins("partition");
  return run.dump(module, "3-annotated.mlir");
}

/// The bytes of the largest joined message of a local program; 0: there is none.
static int64_t largestMessage(ModuleOp local) {
  int64_t largest = 0;
  for (func::FuncOp func : local.getOps<func::FuncOp>()) {
    const graph::FunctionFlow program(func);
    largest = std::max(largest, graph::largestMessage(program.flow, graph::markedMessages(program)));
  }
  return largest;
}

/// The report with other messages.
static llvm::Error priceAgain(ModuleOp annotated, const strategies::CostModel &model,
                              const strategies::JoinOptions &join, strategies::AssignReport &report) {
  for (strategies::FunctionReport &function : report.functions) {
    auto priced = strategies::priceFunction(annotated.lookupSymbol<func::FuncOp>(function.name), model, join);
    if (!priced)
      return priced.takeError();
    priced->search = std::move(function.search);
    function = std::move(*priced);
  }
  return llvm::Error::success();
}

/// Says that what was asked for beside kernels runs in line.
static void sayInLine(const Compilation &run, const strategies::JoinOptions &join,
                      const compiler::MemoryReport &memory) {
  if (join.overlap == strategies::Overlapping::On)
    run.say("warning: --overlap on: the plan needs " + bytesText(double(memory.arenaBytes)) +
            " with collectives beside kernels, more than the limit; they run in line");
}

/// How the collectives of a program are sent at first.
static strategies::JoinOptions firstJoin(const Compilation &run, const AssignOptions &assign, int64_t limit) {
  strategies::JoinOptions join = strategies::joinOf(assign);
  if (run.pipeline) {
    join.overlap = run.pipeline->overlap;
    join.memory = limit * run.pipeline->mesh.axisSize(0); // whatever the search was given
  }
  return join;
}

namespace {

/// What became of the strategies that were found before. A smaller limit often leaves the search what it found under
/// the larger one, since it counts less than the arena needs.
class KnownPrograms {
public:
  /// Whether a program with the strategies of `fitted` is known to need too much. Then `fitted` gets what it needs, and
  /// `join` becomes what it was at the end.
  bool know(ModuleOp module, FittedProgram &fitted, strategies::JoinOptions &join) const {
    for (const Known &known : known_)
      if (known.module == module && known.first == join && known.strategies == fitted.strategies) {
        fitted.pipeline = known.pipeline;
        fitted.memory = known.memory;
        join = known.last;
        return true;
      }
    return false;
  }
  void add(ModuleOp module, const FittedProgram &fitted, const strategies::JoinOptions &first) {
    known_.push_back({module, first, fitted.join, fitted.strategies, fitted.pipeline, fitted.memory});
  }

private:
  struct Known {
    ModuleOp module; // in phase 2
    strategies::JoinOptions first, last;
    std::string strategies;
    std::optional<compiler::PipelineReport> pipeline;
    compiler::MemoryReport memory;
  };
  std::vector<Known> known_;
};

} // namespace

/// Phases 3 to 5 once. Collectives run in line, and messages are smaller, if the program fits in `limit` only so.
/// `known`: what does not fit.
static llvm::Error attempt(Compilation &run, ModuleOp module, const AssignOptions &assign,
                           const strategies::CostModel &model, int64_t limit, FittedProgram &fitted,
                           KnownPrograms &known) {
  fitted.local = module.clone();
  if (llvm::Error e = choose(run, *fitted.local, assign, fitted))
    return e;
  fitted.strategies = strategies::saveStrategies(*fitted.local, run.assign.user.stages);
  const strategies::JoinOptions asked = strategies::joinOf(assign), first = firstJoin(run, assign, limit);
  strategies::JoinOptions join = first;
  const bool isKnown = known.know(module, fitted, join);
  OwningOpRef<ModuleOp> annotated; // that is priced again
  if (!first.none())
    annotated = fitted.local->clone();
  Localizing localizing(run, model);
  for (int tries = 0; !isKnown; ++tries) {
    if (llvm::Error e = localizing.run(join, fitted))
      return e;
    if (llvm::Error e = layOut(run, fitted))
      return e;
    // The choices of what runs beside kernels and of messages know an estimate of the memory. If the arena is too large,
    // everything runs in line, and then messages become smaller.
    if (join.none() || int64_t(fitted.memory.arenaBytes) <= limit)
      break;
    if (join.overlap != strategies::Overlapping::Off) {
      sayInLine(run, join, fitted.memory);
      join.overlap = strategies::Overlapping::Off;
    } else {
      join.most = tries < kMaxAttempts ? largestMessage(*fitted.local) / 2 : 0;
    }
  }
  run.finished("partition");
  fitted.join = join;
  if (int64_t(fitted.memory.arenaBytes) > limit && !isKnown)
    known.add(module, fitted, first);
  join.memory = asked.memory;
  join.overlap = std::min(join.overlap, asked.overlap); // the report is of the whole network, and not of its stages
  if (join != asked)
    if (llvm::Error e = priceAgain(*annotated, model, join, fitted.report))
      return e;
  for (strategies::FunctionReport &function : fitted.report.functions)
    if (fitted.pipeline)
      if (auto it = fitted.pipeline->steps.find(function.name); it != fitted.pipeline->steps.end())
        function.pipelined = it->second;
  return llvm::Error::success();
}

/// The module of which strategies are chosen: the given one, or a copy in which copies of values may expire.
class Candidates {
public:
  Candidates(Compilation &run, ModuleOp module) : run_(run), module_(module) {}

  ModuleOp module() const { return taken_ ? *taken_->module : module_; }

  /// From now on copies of parameters may expire, and those of activations do, if asked. Returns whether that changes
  /// the module, of activations beyond what it changes for parameters.
  llvm::Expected<bool> expire(bool activations) {
    for (bool each : {false, true}) {
      Expired &expired = expired_[each];
      if (expired.module || (each && !activations))
        continue;
      expired.module = module_.clone();
      if (llvm::Error e = expireCopies(run_, *expired.module, each))
        return e;
      expired.module->walk([&](Operation *) { ++expired.operators; });
      if (!each)
        module_.walk([&](Operation *) { ++operators_; });
    }
    taken_ = &expired_[activations];
    return taken_->operators > (activations ? expired_[false].operators : operators_);
  }
  /// From now on copies are kept, as in the given module.
  void keep() { taken_ = nullptr; }

  /// The same if a saved assignment is of such a module.
  llvm::Error expireAsSaved(const strategies::UserStrategies &user) {
    for (bool activations : {false, true}) {
      if (hasViewsOf(user))
        return llvm::Error::success();
      if (llvm::Error e = expire(activations).takeError())
        return e;
    }
    return llvm::Error::success();
  }

private:
  struct Expired {
    OwningOpRef<ModuleOp> module; // made when it is needed
    int64_t operators = 0;
  };

  /// Whether the module has every view that is saved.
  bool hasViewsOf(const strategies::UserStrategies &user) const {
    llvm::StringSet<> names;
    ModuleOp(module()).walk([&](Operation *op) { names.insert(graph::nameOf(op)); });
    for (const auto &[name, function] : user.saved)
      for (const auto &op : function.operators)
        for (llvm::StringRef prefix : {compiler::kKeptPrefix, compiler::kBackwardPrefix})
          if (llvm::StringRef(op.name).starts_with(prefix) && !names.contains(op.name))
            return false;
    return true;
  }

  Compilation &run_;
  ModuleOp module_;
  int64_t operators_ = 0;          // of module_
  std::array<Expired, 2> expired_; // of parameters, and of activations, too
  const Expired *taken_ = nullptr; // null: copies are kept
};

static strategies::Cost predicted(const FittedProgram &fitted) {
  return fitted.report.functions.empty() ? strategies::Cost(0) : fitted.report.functions.front().predicted();
}

NotAtOnce::NotAtOnce(FittedProgram found) : found(std::move(found)) { this->found.local = nullptr; }
strategies::Cost NotAtOnce::predicted() const { return tessera::predicted(found); }

/// Searches under one limit, and says how many bytes a rank needs then. The result is in `fitted`.
using Attempt = llvm::function_ref<llvm::Expected<int64_t>(const AssignOptions &)>;

class Fitting {
public:
  /// `tooMuch` makes the error of the last attempt that found an assignment.
  /// `share`: of a pipeline, with the micro-batches that its first stage holds. `first`: the bytes that `fitted` needs,
  /// where it has what the first search finds.
  Fitting(Compilation &run, const AssignOptions &assign, Candidates &candidates, FittedProgram &fitted, Attempt attempt,
          llvm::function_ref<llvm::Error(int64_t)> tooMuch, strategies::PipelineShare share = {},
          std::optional<int64_t> first = std::nullopt)
      : run_(run), assign_(assign), candidates_(candidates), fitted_(fitted), attempt_(attempt), tooMuch_(tooMuch),
        share_(share), first_(first), limit_(strategies::memoryOf(assign)) {}

  /// The search counts tensors only; the program also has the buffers of reshards, and the arena has gaps between
  /// blocks. If it needs more than the limit, the search is repeated: so that copies may expire, and with smaller
  /// limits. The cheaper program of those that fit is taken. If none fits, copies may expire and limits
  /// are smaller. Of a pipeline the first search counts one micro-batch, since later stages hold few, and a cut may
  /// give them more of the network. The second one counts as many as the first stage holds, and is taken if it fits.
  llvm::Error run() {
    llvm::Expected<int64_t> needed = first_ ? *first_ : attempt_(assign_);
    if (!needed)
      return needed.takeError();
    if (*needed <= limit_)
      return llvm::Error::success();
    if (assign_.mode != "auto" || !assign_.user.saved.empty())
      return tooMuch_(limit_);
    if (run_.onlyOnce)
      return llvm::make_error<NotAtOnce>(std::move(fitted_));
    if (isLongEnough())
      return llvm::make_error<NoBetter>();
    const int64_t counted = used();
    if (share_.stages > 1) {
      llvm::Expected<bool> fits = countHeld(*needed);
      if (!fits || *fits)
        return fits.takeError();
    }
    // Copies of parameters may expire, and where that is not enough, those of activations do, too.
    std::optional<FittedProgram> expiring;
    int64_t neededExpiring = 0, countedExpiring = 0;
    bool ofActivations = false;
    for (bool activations : {false, true}) {
      llvm::Expected<bool> expired = candidates_.expire(activations);
      if (!expired)
        return expired.takeError();
      if (!*expired)
        continue;
      run_.say("the plan needs " + bytesText(neededExpiring ? neededExpiring : *needed) +
               ", searching again with copies " + (activations ? "of activations " : "of parameters ") +
               "that may expire");
      AssignOptions again = assign_;
      run_.hurry(again);
      int64_t bytes = 0;
      if (llvm::Error e = attempt_(again).moveInto(bytes)) {
        if (!e.isA<DoesNotFit>())
          return e;
        llvm::consumeError(std::move(e));
      } else if (bytes > limit_) {
        neededExpiring = bytes;
        countedExpiring = used();
        ofActivations = activations;
      } else if (!expiring || predicted(fitted_) < predicted(*expiring)) {
        expiring = std::move(fitted_);
      }
      if (expiring && !heldTooMuch(*expiring))
        break;
    }
    candidates_.keep();
    llvm::Expected<bool> fits = lower(*needed, counted, expiring ? costOf(*expiring) : strategies::kForbidden);
    if (!fits)
      return fits.takeError();
    if (*fits)
      return llvm::Error::success();
    if (expiring) {
      fitted_ = std::move(*expiring);
      return llvm::Error::success();
    }
    if (neededExpiring) {
      if (llvm::Error e = candidates_.expire(ofActivations).takeError())
        return e;
      if (llvm::Error e = lower(neededExpiring, countedExpiring, strategies::kForbidden).moveInto(*fits))
        return e;
    }
    return *fits ? llvm::Error::success() : tooMuch_(limit_);
  }

private:
  /// As the search counts: of a pipeline the work of all stages.
  static strategies::Cost costOf(const FittedProgram &fitted) {
    return fitted.report.functions.empty() ? strategies::Cost(0) : fitted.report.functions.front().total();
  }

  /// Whether there is a better answer but for copies that the search did not see.
  static bool heldTooMuch(const FittedProgram &fitted) {
    return !fitted.report.functions.empty() && fitted.report.functions.front().search.heldTooMuch;
  }

  /// Whether what was found takes no less than what fits elsewhere, as strategies that fit do all the more.
  bool isLongEnough() const {
    return !fitted_.report.functions.empty() && fitted_.report.functions.front().predicted() >= run_.longEnough;
  }

  /// Searches once more for a pipeline. Returns whether that fits, and leaves the last program where it does not.
  llvm::Expected<bool> countHeld(int64_t needed) {
    run_.say("the plan needs " + bytesText(needed) + ", searching again for one that fits in " + bytesText(limit_) +
             " with " + std::to_string(share_.held) + " micro-batches in a stage");
    FittedProgram last = std::move(fitted_);
    fitted_ = {};
    AssignOptions counted = assign_;
    counted.share = share_;
    run_.hurry(counted);
    llvm::Expected<int64_t> found = attempt_(counted);
    if (found && *found <= limit_)
      return true;
    fitted_ = std::move(last);
    if (found)
      return false;
    llvm::Error failed = found.takeError();
    if (!failed.isA<DoesNotFit>())
      return failed;
    llvm::consumeError(std::move(failed));
    return false;
  }

  /// What the last search took to be needed. A stage holds several micro-batches, so that it may need far more than its
  /// part of that, and a limit that is above it changes nothing.
  int64_t used() const {
    if (!run_.pipeline || fitted_.report.functions.empty())
      return limit_;
    const strategies::FunctionReport &function = fitted_.report.functions.front();
    const int64_t bytes = function.search.counted ? function.search.counted : function.peakBytes;
    return std::max<int64_t>(1, bytes / run_.pipeline->mesh.axisSize(0));
  }

  /// Searches with smaller limits, after a search that needed so many bytes, of which it counted `counted`: first one in
  /// proportion, then by bisection between a limit that was too small for any assignment and one under which too much
  /// was needed. Returns whether something was found that fits and is predicted to take less than `most`.
  llvm::Expected<bool> lower(int64_t needed, int64_t counted, strategies::Cost most) {
    AssignOptions assign = assign_;
    assign.tooDear = most;
    int64_t tooSmall = 0, tooLarge = limit_;
    run_.say("the plan needs " + bytesText(needed) + ", searching again for one that fits in " + bytesText(limit_));
    for (int tries = 0; tries < kMaxAttempts; ++tries) {
      const double proportion = double(limit_) / double(needed) * kMargin;
      assign.memoryLimit = tooSmall ? tooSmall + (tooLarge - tooSmall) / 2
                                    : std::max<int64_t>(1, int64_t(double(std::min(tooLarge, counted)) * proportion));
      run_.hurry(assign);
      llvm::Expected<int64_t> found = attempt_(assign);
      if (!found) {
        llvm::Error failed = found.takeError();
        if (!failed.isA<DoesNotFit>())
          return failed;
        llvm::consumeError(std::move(failed));
        if (most < strategies::kForbidden) // something else fits: larger limits are not worth more searches
          return false;
        tooSmall = assign.memoryLimit;
        continue;
      }
      if (costOf(fitted_) >= most)
        return false;
      if (*found <= limit_)
        return true;
      if (isLongEnough())
        return llvm::make_error<NoBetter>();
      needed = *found;
      counted = used();
      tooLarge = assign.memoryLimit;
      if (tries + 1 < kMaxAttempts)
        run_.say("the plan needs " + bytesText(needed) + ", searching again for one that fits in " + bytesText(limit_));
    }
    return false;
  }

  Compilation &run_;
  const AssignOptions &assign_;
  Candidates &candidates_;
  FittedProgram &fitted_;
  const Attempt attempt_;
  const llvm::function_ref<llvm::Error(int64_t)> tooMuch_;
  const strategies::PipelineShare share_;
  const std::optional<int64_t> first_;
  const int64_t limit_;
};

static llvm::Expected<FittedProgram> fitSearched(Compilation &run, ModuleOp module, const AssignOptions &assign,
                                                 std::optional<FittedProgram> first) {
  const std::shared_ptr<const strategies::Prices> prices = strategies::pricesOf(assign);
  const int64_t limit = strategies::memoryOf(assign);
  FittedProgram fitted;
  Candidates candidates(run, module);
  if (llvm::Error e = candidates.expireAsSaved(assign.user))
    return e;
  KnownPrograms known;
  std::optional<int64_t> needed;
  if (first) {
    fitted = std::move(*first);
    needed = int64_t(fitted.memory.arenaBytes);
    known.add(candidates.module(), fitted, firstJoin(run, assign, limit));
  }
  auto once = [&](AssignOptions limited) -> llvm::Expected<int64_t> {
    if (run.pipeline) // the search sees the whole network, of which a stage has its part
      limited.memoryLimit *= run.pipeline->mesh.axisSize(0);
    if (llvm::Error e = attempt(run, candidates.module(), limited, prices->model, limit, fitted, known))
      return e;
    return int64_t(fitted.memory.arenaBytes);
  };
  auto tooMuch = [&](int64_t limit) { return overLimit(run, fitted, limit); };
  strategies::PipelineShare share;
  if (run.pipeline) {
    share.stages = run.pipeline->mesh.axisSize(0);
    share.held = compiler::heldMicroBatches(run.pipeline->options, share.stages, run.training.accumulate);
  }
  if (llvm::Error e = Fitting(run, assign, candidates, fitted, once, tooMuch, share, needed).run())
    return e;
  fitted.report.memoryLimit = limit;
  if (run.pipeline)
    fitted.report.mesh = run.pipeline->mesh.str();
  return fitted;
}

/// From phase 2 to phase 5 in mode hybrid, where no strategy is chosen.
static llvm::Expected<FittedProgram> fitHybrid(Compilation &run, ModuleOp module) {
  const AssignOptions &assign = run.assign;
  if (llvm::Error e = assign.topology.fits(assign.mesh))
    return e;
  const strategies::CostModel model(assign.mesh, assign.topology, assign.profile, assign.reproducible);
  const int64_t limit = strategies::memoryOf(assign);
  strategies::JoinOptions join = strategies::joinOf(assign);
  for (;; join.overlap = strategies::Overlapping::Off) {
    FittedProgram fitted;
    strategies::AssignReport &report = fitted.report;
    report.mode = assign.mode;
    report.mesh = assign.mesh.str();
    report.topology = assign.topology.name;
    report.memoryLimit = limit;
    fitted.local = module.clone();
    for (func::FuncOp func : fitted.local->getOps<func::FuncOp>()) {
      const compiler::Varying varying(func, assign.mesh);
      auto priced = strategies::priceLocalFunction(
          func, model,
          [&](Value v) {
            compiler::AxisSet axes = varying.of(v);
            return axes ? "differs: " + compiler::axesText(assign.mesh, axes) : std::string("equal");
          },
          join);
      if (!priced)
        return priced.takeError();
      report.functions.push_back(std::move(*priced));
    }
    if (llvm::Error e = finishLocal(run, *fitted.local, model, join))
      return e;
    if (llvm::Error e = run.dump(*fitted.local, "5-local.mlir"))
      return e;
    if (llvm::Error e = layOut(run, fitted))
      return e;
    if (int64_t(fitted.memory.arenaBytes) <= limit) {
      run.finished("local");
      return fitted;
    }
    if (join.overlap == strategies::Overlapping::Off)
      return overLimit(run, fitted, limit);
    sayInLine(run, join, fitted.memory);
  }
}

llvm::Expected<FittedProgram> chooseOnly(Compilation &run, ModuleOp module, const AssignOptions &assign,
                                         std::optional<FittedProgram> first) {
  assert(!first && "no plan is compared with others by its strategies alone");
  FittedProgram fitted;
  Candidates candidates(run, module);
  if (llvm::Error e = candidates.expireAsSaved(assign.user))
    return e;
  strategies::FunctionReport largest; // of the last search that found an assignment
  auto once = [&](AssignOptions limited) -> llvm::Expected<int64_t> {
    // If the training step does not fit, it is searched again, and the other functions take its parameters' shardings.
    if (assign.mode == "auto" && assign.user.saved.empty())
      limited.firstWithin = strategies::memoryOf(assign);
    fitted.report = {};
    OwningOpRef<ModuleOp> program(candidates.module().clone());
    if (llvm::Error e = choose(run, *program, limited, fitted))
      return e;
    if (!run.options.saveStrategies.empty())
      fitted.strategies = strategies::saveStrategies(*program, run.assign.user.stages);
    largest = {};
    for (const strategies::FunctionReport &function : fitted.report.functions)
      if (function.peakBytes > largest.peakBytes)
        largest = function;
    return int64_t(largest.peakBytes);
  };
  auto tooMuch = [&](int64_t limit) {
    return overLimit(run, double(largest.peakBytes),
                     "parameters and states " + bytesText(double(largest.persistentBytes)) + ", of " + largest.name,
                     limit);
  };
  if (llvm::Error e = Fitting(run, assign, candidates, fitted, once, tooMuch).run())
    return e;
  fitted.report.memoryLimit = strategies::memoryOf(assign);
  return fitted;
}

llvm::Expected<FittedProgram> fitMemory(Compilation &run, ModuleOp module, const AssignOptions &assign,
                                        std::optional<FittedProgram> first) {
  return run.hybrid ? fitHybrid(run, module) : fitSearched(run, module, assign, std::move(first));
}

} // namespace tessera
