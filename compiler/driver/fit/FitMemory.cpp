#include "compiler/driver/fit/FitMemory.h"

#include "compiler/driver/Phases.h"
#include "compiler/driver/fit/Fitting.h"
#include "compiler/driver/fit/Localizing.h"

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
#include <limits>
#include <utility>

using namespace mlir;

namespace tessera {

using strategies::AssignOptions;

char DoesNotFit::ID;
char NoBetter::ID;
char NotAtOnce::ID;

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

llvm::Error overLimit(const Compilation &run, const FittedProgram &fitted, int64_t limit) {
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

/// The bytes of the largest joined message of a local program, of all stages; 0: there is none.
static int64_t largestMessage(ModuleOp local) {
  int64_t largest = 0;
  local.walk([&](func::FuncOp func) {
    const graph::FunctionFlow program(func);
    largest = std::max(largest, graph::largestMessage(program.flow, graph::markedMessages(program)));
  });
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

/// The report says how long the steps of a pipeline take, and what lies in which stage.
static void setPipelined(FittedProgram &fitted, const compiler::OperatorStages &stages) {
  for (strategies::FunctionReport &function : fitted.report.functions) {
    if (fitted.pipeline)
      if (auto it = fitted.pipeline->steps.find(function.name); it != fitted.pipeline->steps.end())
        function.pipelined = it->second;
    if (auto names = stages.find(function.name); names != stages.end())
      for (strategies::OperatorReport &op : function.operators)
        if (auto it = names->second.find(op.name); it != names->second.end())
          op.stage = it->second;
  }
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
  explicit KnownPrograms(const Compilation &run) : run_(run) {}

  /// Whether a program with the strategies of `fitted` is known to need too much. Then `fitted` gets what it needs, and
  /// `join` becomes what it was at the end.
  bool know(ModuleOp module, FittedProgram &fitted, strategies::JoinOptions &join) const {
    for (const Known &known : known_)
      if (known.first == join &&
          (known.module == module ? known.strategies == fitted.strategies : expiresNothing(known, fitted.report))) {
        fitted.pipeline = known.pipeline;
        fitted.memory = known.memory;
        join = known.last;
        return true;
      }
    return false;
  }
  void add(ModuleOp module, const FittedProgram &fitted, const strategies::JoinOptions &first) {
    known_.push_back({module, first, fitted.join, fitted.strategies, fitted.pipeline, fitted.memory,
                      fitted.report.total(), memoryWasShort(fitted.report)});
  }

private:
  struct Known {
    ModuleOp module; // in phase 2
    strategies::JoinOptions first, last;
    std::string strategies;
    std::optional<compiler::PipelineReport> pipeline;
    compiler::MemoryReport memory;
    strategies::Cost total;
    bool isShort; // memory was
  };

  /// Where the search for a pipeline has memory to spare, copies that may expire do not.
  bool expiresNothing(const Known &known, const strategies::AssignReport &report) const {
    return run_.pipeline && !known.isShort && !memoryWasShort(report) && report.total() <= known.total;
  }

  const Compilation &run_;
  std::vector<Known> known_;
};

} // namespace

/// Whether a pipeline takes no less than a program that fits. What fits and takes as long as another mesh may still be
/// faster where something is computed again.
static bool takesTooLong(const Compilation &run, const FittedProgram &fitted) {
  return fitted.pipeline && (fitted.pipeline->predicted >= run.longEnoughHere ||
                             (fitted.pipeline->predicted >= run.longEnough && run.options.recompute != "auto"));
}

/// So many messages at most lie in the arena of a stage when it is fullest.
static constexpr int64_t kMessagesAtOnce = 8;

/// In mode auto another cut may make a step that much longer; beyond that other strategies are searched.
static constexpr double kLongerCut = 1.05;

/// Of what the stages need, this much may be there however little of the network they have.
static constexpr double kOfNoWork = 0.05;

/// Whether another cut may fit, if what a place needs grows with its work: each can then have as much work as its
/// memory allows.
static bool anotherCutMayFit(const FittedProgram &fitted, int64_t limit) {
  const std::vector<uint64_t> &bytes = fitted.memory.stageBytes;
  std::vector<double> work(bytes.size(), 0);
  for (const compiler::StageReport &stage : fitted.pipeline->stages)
    if (size_t(stage.device) < work.size())
      work[size_t(stage.device)] += double(stage.forward + stage.input + stage.weight);
  double all = 0, room = 0;
  for (size_t place = 0; place < work.size(); ++place) {
    all += work[place];
    room += bytes[place] > 0 ? work[place] * double(limit) / double(bytes[place]) : 0;
  }
  return room >= (1 - kOfNoWork) * all;
}

/// Cuts a pipeline that does not fit in another way that does, if there is one.
static llvm::Error cutAgain(Compilation &run, Localizing &localizing, const AssignOptions &assign, int64_t limit,
                            const strategies::JoinOptions &join, FittedProgram &fitted) {
  if (localizing.cut().counted == 0 || !anotherCutMayFit(fitted, limit))
    return llvm::Error::success();
  const double most = assign.mode == "auto" && assign.user.saved.empty()
                          ? kLongerCut * double(fitted.pipeline->predicted)
                          : std::numeric_limits<double>::infinity();
  FittedProgram next;
  next.memory = fitted.memory;
  CutAgain again(limit, localizing.cut().counted, int64_t(fitted.memory.arenaBytes));
  int64_t told = 0;
  while (std::optional<int64_t> within = again.next()) {
    if (const auto needed = int64_t(next.memory.arenaBytes); std::exchange(told, needed) != needed)
      run.say("the plan needs " + bytesText(double(next.memory.arenaBytes)) +
              ", cutting its stages again for one that fits in " + bytesText(double(limit)));
    llvm::Expected<bool> isCut = localizing.cutWithin(*within);
    if (!isCut)
      return isCut.takeError();
    if (!*isCut) {
      again.none();
      continue;
    }
    if (llvm::Error e = localizing.toMessages(join, next))
      return e;
    if (double(next.pipeline->predicted) > most || takesTooLong(run, next))
      return llvm::Error::success();
    if (llvm::Error e = localizing.finish(join, next))
      return e;
    if (llvm::Error e = layOut(run, next))
      return e;
    again.found(localizing.cut().counted, int64_t(next.memory.arenaBytes));
  }
  if (next.local && int64_t(next.memory.arenaBytes) <= limit) {
    fitted.local = std::move(next.local);
    fitted.pipeline = std::move(next.pipeline);
    fitted.memory = std::move(next.memory);
    fitted.times = std::move(next.times);
  }
  return llvm::Error::success();
}

/// Phases 3 to 5 once. Collectives run in line, and messages are smaller, if the program fits in `limit` only so.
/// `known`: what does not fit. NoBetter, before a pipeline is made, where its order takes too long.
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
    if (llvm::Error e = localizing.toMessages(join, fitted))
      return e;
    const bool isLong = takesTooLong(run, fitted);
    // And so it is with smaller messages, and in line where kernels had collectives beside them only if that is faster.
    if (isLong && join.overlap != strategies::Overlapping::On)
      return llvm::make_error<NoBetter>();
    if (!isLong) {
      if (llvm::Error e = localizing.finish(join, fitted))
        return e;
      if (llvm::Error e = layOut(run, fitted))
        return e;
      // The choices of what runs beside kernels and of messages know an estimate of the memory. If the arena is too
      // large, everything runs in line, and then messages become smaller.
      if (join.none() || int64_t(fitted.memory.arenaBytes) <= limit)
        break;
    }
    if (join.overlap != strategies::Overlapping::Off) {
      if (!isLong)
        sayInLine(run, join, fitted.memory);
      join.overlap = strategies::Overlapping::Off;
      continue;
    }
    const int64_t largest = largestMessage(*fitted.local);
    // Smaller messages spare the room of some messages.
    if (fitted.pipeline && int64_t(fitted.memory.arenaBytes) - kMessagesAtOnce * largest > limit)
      break;
    // To finish a pipeline takes long, so that only the smallest messages are tried.
    join.most = !fitted.pipeline && tries < kMaxAttempts ? largest / 2 : 0;
    if (largest == 0) // none is joined that could be smaller
      break;
  }
  if (run.pipeline && !isKnown && int64_t(fitted.memory.arenaBytes) > limit)
    if (llvm::Error e = cutAgain(run, localizing, assign, limit, join, fitted))
      return e;
  run.finished("partition");
  fitted.join = join;
  fitted.cutWork = run.cutWork;
  if (int64_t(fitted.memory.arenaBytes) > limit && !isKnown)
    known.add(module, fitted, first);
  join.memory = asked.memory;
  join.overlap = std::min(join.overlap, asked.overlap); // the report is of the whole network, and not of its stages
  if (join != asked)
    if (llvm::Error e = priceAgain(*annotated, model, join, fitted.report))
      return e;
  setPipelined(fitted, localizing.stages());
  return llvm::Error::success();
}

NotAtOnce::NotAtOnce(FittedProgram found) : found(std::move(found)) { this->found.local = nullptr; }
strategies::Cost NotAtOnce::predicted() const { return found.report.predicted(); }

static llvm::Expected<FittedProgram> fitSearched(Compilation &run, ModuleOp module, const AssignOptions &assign,
                                                 std::optional<FittedProgram> first) {
  const std::shared_ptr<const strategies::Prices> prices = strategies::pricesOf(assign);
  const int64_t limit = strategies::memoryOf(assign);
  FittedProgram fitted;
  Candidates candidates(run, module);
  if (llvm::Error e = candidates.expireAsSaved(assign.user))
    return e;
  KnownPrograms known(run);
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

/// What mode hybrid reports of a program in phase 2, in which no strategy is chosen.
static llvm::Error priceHybrid(const Compilation &run, ModuleOp module, const strategies::CostModel &model,
                               const strategies::JoinOptions &join, strategies::AssignReport &report) {
  const AssignOptions &assign = run.assign;
  report.mode = assign.mode;
  report.mesh = (run.pipeline ? run.pipeline->mesh : assign.mesh).str();
  report.topology = assign.topology.name;
  report.memoryLimit = strategies::memoryOf(assign);
  for (func::FuncOp func : module.getOps<func::FuncOp>()) {
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
  return llvm::Error::success();
}

/// From phase 2 to phase 5 in mode hybrid.
static llvm::Expected<FittedProgram> fitHybrid(Compilation &run, ModuleOp module) {
  const AssignOptions &assign = run.assign;
  if (llvm::Error e = assign.topology.fits(assign.mesh))
    return e;
  const strategies::CostModel model(assign.mesh, assign.topology, assign.profile, assign.reproducible,
                                    assign.join.joins());
  const int64_t limit = strategies::memoryOf(assign);
  Localizing localizing(run, model);
  strategies::JoinOptions join = firstJoin(run, assign, limit);
  for (;; join.overlap = strategies::Overlapping::Off) {
    FittedProgram fitted;
    strategies::JoinOptions whole = strategies::joinOf(assign); // the report is of the whole network, not of its stages
    whole.overlap = std::min(join.overlap, whole.overlap);
    if (llvm::Error e = priceHybrid(run, module, model, whole, fitted.report))
      return e;
    fitted.local = module.clone();
    if (llvm::Error e = localizing.toMessages(join, fitted))
      return e;
    if (llvm::Error e = localizing.finish(join, fitted))
      return e;
    if (llvm::Error e = layOut(run, fitted))
      return e;
    setPipelined(fitted, localizing.stages());
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
  struct { // of the last search that found an assignment
    std::string name;
    int64_t peakBytes = 0, persistentBytes = 0;
  } largest;
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
        largest = {function.name, function.peakBytes, function.persistentBytes};
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
