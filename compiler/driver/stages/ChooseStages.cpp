#include "compiler/driver/stages/ChooseStages.h"

#include "compiler/driver/Phases.h"
#include "compiler/driver/stages/StagePlans.h"
#include "compiler/driver/stages/StagePrograms.h"
#include "compiler/driver/stages/StageTrials.h"

#include "compiler/pipeline/Estimate.h"
#include "compiler/pipeline/ProgramParts.h"
#include "dialects/dist/DistOps.h"
#include "dialects/graph/Graph.h"
#include "runtime/support/BytesText.h"
#include "strategies/modes/Trial.h"
#include "strategies/space/InParallel.h"

#include "mlir/IR/Threading.h"

#include <cmath>
#include <map>
#include <utility>

using namespace mlir;

namespace tessera {

using strategies::AssignOptions;
using strategies::Cost;
using strategies::kForbidden;

namespace {

/// A trial's search may do this part of the work of a whole one.
constexpr double kWorkOfTrial = 1.0 / 16;
/// How close to the limit the next limit of memory aims.
constexpr double kMargin = 0.95;
/// An estimate that needs so much more memory than there is will not fit with other strategies.
constexpr double kFarTooMuch = 2;
/// Without stages, so many of the trials look at what runs beside kernels.
constexpr size_t kBeside = 3;
/// Of kernels and messages the one or the other takes half of the sum, or more.
constexpr int64_t kBoth = 2;

dist::Mesh withStages(int64_t stages, const dist::Mesh &mesh) {
  if (stages == 1)
    return mesh;
  llvm::SmallVector<dist::MeshAxis, 4> axes = {{dist::kStageAxis.str(), stages}};
  axes.append(mesh.axes().begin(), mesh.axes().end());
  return dist::Mesh(axes);
}

class StageChoice {
public:
  StageChoice(Compilation &run, bool explain)
      : run_(run), ranks_(run.assign.mesh), limit_(strategies::memoryOf(run.assign)), explain_(explain),
        programs_(run) {}

  llvm::Expected<ChosenStages> choose() {
    run_.begins("stages");
    StageTrials trials;
    if (llvm::Error e = programs_.microBatches().moveInto(trials.microBatches))
      return e;
    for (int64_t stages = 1; stages <= ranks_.numRanks(); ++stages)
      if (ranks_.numRanks() % stages == 0 && (stages == 1 || stages <= programs_.mostStages()))
        trials.stages.push_back(stages);
    if (llvm::Error e = programs_.make(widelySpaced(trials.microBatches)))
      return e;
    trials.bound = [&](int64_t stages, int64_t parts) { return programs_.atLeast(stages, parts, ranks_.numRanks()); };
    trials.meshes = [&](int64_t stages) { return count(meshesOf(stages)); };
    trials.similar = [&](int64_t stages, const StageTrial &like) { return similar(stages, like); };
    trials.run = [&](llvm::ArrayRef<StageTrial> list, Cost most) { return tryAll(list, most); };
    trials.divides = [&](int64_t stages, int64_t parts) {
      return programs_.rows() % (parts * (ranks_.numRanks() / stages)) == 0;
    };
    trials.stopped = [&] { return run_.stopped(); };
    llvm::Expected<TriedStages> tried = tryStages(trials);
    if (!tried)
      return tried.takeError();
    run_.finished("stages");
    ChosenStages chosen;
    if (llvm::Error e = makeBest(chosen))
      return e;
    chosen.compared.tried = tried->trials.size();
    chosen.compared.leftOut = tried->leftOut;
    compare(chosen.compared);
    return chosen;
  }

private:
  /// What was found for a trial in one schedule.
  struct Found {
    StagesCandidate candidate;
    dist::Mesh mesh; // of a stage
    compiler::PipelineOptions options;
    StageProgram *program = nullptr;
    std::shared_ptr<strategies::Prices> prices;
    bool isDoubtful = false; // the copies in it, which may expire, have no room
  };

  // ---- what there is to try ----

  const std::vector<dist::Mesh> &meshesOf(int64_t stages) {
    auto [it, isNew] = meshes_.try_emplace(stages);
    if (isNew)
      it->second = strategies::sensibleMeshes(ranks_.numRanks() / stages, run_.assign.topology);
    return it->second;
  }
  static StageMeshes count(llvm::ArrayRef<dist::Mesh> meshes) {
    return {size_t(llvm::count_if(meshes, [](const dist::Mesh &mesh) { return mesh.numAxes() <= kSimple; })),
            meshes.size()};
  }

  /// The meshes by how far the sizes of their inner axes, which share the fastest links, are from those of the other. The
  /// outermost axis takes what is left.
  std::vector<size_t> similar(int64_t stages, const StageTrial &like) {
    const dist::Mesh &model = meshesOf(like.stages)[like.mesh];
    const std::vector<dist::Mesh> &meshes = meshesOf(stages);
    auto inner = [](const dist::Mesh &mesh, int place) {
      return place + 1 < mesh.numAxes() ? std::log2(double(mesh.axisSize(mesh.numAxes() - 1 - place))) : 0;
    };
    std::vector<std::pair<double, size_t>> order;
    for (size_t i = 0; i < meshes.size(); ++i) {
      double far = 0;
      for (int place = 0; place < std::max(meshes[i].numAxes(), model.numAxes()); ++place)
        far += std::abs(inner(meshes[i], place) - inner(model, place));
      order.push_back({far, i});
    }
    llvm::sort(order);
    std::vector<size_t> list;
    for (const auto &[far, mesh] : order)
      list.push_back(mesh);
    return list;
  }

  // ---- trials ----

  llvm::Expected<std::vector<Cost>> tryAll(llvm::ArrayRef<StageTrial> list, Cost most) {
    if (list.empty())
      return std::vector<Cost>();
    llvm::Expected<StageProgram *> found = programs_.of(list[0].microBatches);
    if (!found)
      return found.takeError();
    std::vector<Cost> costs(list.size(), kForbidden);
    StageProgram &program = **found;
    if (!program.error.empty())
      return costs;
    if (llvm::Error e = programs_.computeAgain(program))
      return e;
    const int64_t stages = list[0].stages;
    if (stages != pricedStages_) { // prices of all meshes together would take much memory
      prices_.clear();
      pricedStages_ = stages;
    }
    std::vector<Found> trials(list.size());
    for (auto [trial, one] : llvm::zip_equal(list, trials)) {
      one.mesh = meshesOf(stages)[trial.mesh];
      one.candidate.mesh = withStages(stages, one.mesh);
      one.candidate.stages = stages;
      one.candidate.microBatches = trial.microBatches;
      one.candidate.estimate = true;
      one.program = &program;
      std::shared_ptr<strategies::Prices> &prices = prices_[trial.mesh];
      if (!prices) {
        AssignOptions with = run_.assign;
        with.mesh = one.mesh;
        with.prices = nullptr;
        prices = strategies::pricesOf(with);
      }
      one.prices = prices;
    }
    if (strategies::SearchWatch *watch = run_.assign.watch) {
      watch->begin(0);
      watch->part = 0;
      watch->parts = int(list.size());
      ++watch->running;
    }
    std::vector<std::vector<Found>> schedules(list.size());
    // What runs beside kernels takes most of a search. Without stages it is looked at where it may matter.
    const bool first = stages == 1 && list.size() > kBeside && run_.assign.join.overlap != strategies::Overlapping::Off;
    mlir::parallelFor(&run_.context, 0, list.size(), [&](size_t i) {
      schedules[i] = tryOne(program, trials[i], most, !first);
      if (run_.assign.watch)
        ++run_.assign.watch->part;
    });
    if (first)
      tryBeside(program, trials, most, schedules);
    if (strategies::SearchWatch *watch = run_.assign.watch) {
      --watch->running;
      watch->parts = 0;
    }
    for (size_t i = 0; i < list.size(); ++i)
      for (Found &one : schedules[i]) {
        if (!one.isDoubtful)
          costs[i] = std::min(costs[i], one.candidate.predicted);
        keep(std::move(one));
      }
    return costs;
  }

  /// Tries those again, with collectives beside kernels, that take least without.
  void tryBeside(const StageProgram &program, llvm::ArrayRef<Found> trials, Cost most,
                 std::vector<std::vector<Found>> &found) const {
    std::vector<std::pair<Cost, size_t>> order;
    for (size_t i = 0; i < trials.size(); ++i)
      if (found[i].front().candidate.error.empty())
        order.push_back({found[i].front().candidate.predicted, i});
    llvm::sort(order);
    order.resize(std::min(order.size(), kBeside));
    mlir::parallelFor(&run_.context, 0, order.size(), [&](size_t i) {
      const size_t place = order[i].second;
      if (std::vector<Found> beside = tryOne(program, trials[place], most, true);
          beside.front().candidate.error.empty())
        found[place] = std::move(beside);
    });
  }

  /// Several trials run at once.
  std::vector<Found> tryOne(const StageProgram &program, const Found &trial, Cost most, bool beside) const {
    std::vector<Found> doubtful;
    std::string error;
    for (const TriedProgram &tried : program.tried)
      if (std::vector<Found> found = tryProgram(tried.step, trial, most, beside, error, doubtful); !found.empty())
        return found;
    Found &none = doubtful.emplace_back(trial);
    none.candidate.error = error;
    return doubtful;
  }

  /// `doubtful` gets what has room but for copies, if there is nothing else.
  std::vector<Found> tryProgram(const strategies::Program &step, const Found &trial, Cost most, bool beside,
                                std::string &error, std::vector<Found> &doubtful) const {
    const int64_t stages = trial.candidate.stages;
    AssignOptions assign = run_.assign;
    assign.mesh = trial.mesh;
    assign.prices = trial.prices;
    assign.searchWork *= kWorkOfTrial;
    assign.searchThreads = assign.exactThreads = 1; // others try other stages
    assign.splitGroups = false;
    assign.dumpGraph.clear();
    assign.firstOnly = true;
    assign.proveBeside = false;
    assign.watch = nullptr;
    assign.memoryLimit = limit_ * stages; // of the whole network, of which a stage has its part
    if (run_.stopped())
      assign.searchWork = std::min(assign.searchWork, strategies::kHurriedWork);
    if (stages > 1 || !beside)
      assign.join.overlap = strategies::Overlapping::Off;
    // No order is shorter than the work of all stages, divided evenly, and no step than half of what kernels and messages
    // take.
    if (const int64_t parts = stages > 1 ? stages : kBoth; most < kForbidden / parts)
      assign.tooDear = most * parts;
    // If too much is needed, the next search counts the micro-batches that the first stage holds. Later ones hold
    // fewer, so that may be too much to ask, and the last search counts one again with a limit in proportion.
    const strategies::PipelineShare share = {
        stages, stages > 1 ? compiler::heldMicroBatches({}, stages, trial.candidate.microBatches) : 1};
    int64_t inProportion = assign.memoryLimit;
    bool wasCrowded = false;
    for (int tries = stages > 1 ? 0 : 1; tries < 3; ++tries) {
      strategies::Trial tried;
      if (llvm::Error e = strategies::tryStrategies(step, assign, tried)) {
        error = llvm::toString(std::move(e));
        if (tried.search.doesNotFit && assign.share.stages > 1) {
          assign.share = {};
          assign.memoryLimit = inProportion;
          continue;
        }
        if (!tried.search.doesNotFit || assign.tooDear >= kForbidden)
          return {};
        // The search ends at the first proof that it has; most often this one.
        std::vector<Found> tooDear = {trial};
        tooDear[0].candidate.error = "takes no less than the best";
        tooDear[0].candidate.predicted = most;
        return tooDear;
      }
      const strategies::ProgramCost &cost = tried.cost;
      std::vector<Found> found;
      if (stages == 1) {
        found = {trial};
        found[0].candidate.predicted = cost.predicted();
        found[0].candidate.bytes = cost.peakBytes;
        return found;
      }
      int64_t least = std::numeric_limits<int64_t>::max(), leastMean = least;
      std::vector<Found> crowded;
      for (compiler::StagesEstimate &estimate : estimate(tried, trial, most)) {
        least = std::min(least, estimate.bytes);
        if (estimate.bytes > limit_)
          continue;
        leastMean = std::min(leastMean, estimate.mean);
        Found &one = (estimate.mean > limit_ ? crowded : found).emplace_back(trial);
        one.isDoubtful = estimate.mean > limit_;
        one.candidate.predicted = estimate.predicted;
        one.candidate.bubble = estimate.bubble;
        one.candidate.bytes = estimate.bytes;
        one.candidate.schedule = estimate.options.schedule;
        one.options = std::move(estimate.options);
      }
      if (!found.empty())
        return found;
      if (least == std::numeric_limits<int64_t>::max()) {
        error = "cannot be cut into " + std::to_string(stages) + " stages";
        return {};
      }
      const bool isCrowded = !crowded.empty(); // by copies, which no search counts
      if (isCrowded)
        least = leastMean;
      if (doubtful.empty())
        doubtful = std::move(crowded);
      error = "about " + bytesText(double(least)) + " per rank are needed of " + bytesText(double(limit_));
      if (double(least) > kFarTooMuch * double(limit_))
        return {};
      if (isCrowded) {
        if (std::exchange(wasCrowded, true))
          return {};
        const int64_t counted = tried.search.counted ? tried.search.counted : cost.peakBytes;
        assign.memoryLimit =
            int64_t(double(std::min(assign.memoryLimit, counted)) * double(limit_) / double(least) * kMargin);
        continue;
      }
      inProportion =
          int64_t(double(std::min(assign.memoryLimit, cost.peakBytes)) * double(limit_) / double(least) * kMargin);
      assign.share = tries == 0 ? share : strategies::PipelineShare();
      if (tries > 0)
        assign.memoryLimit = inProportion;
    }
    return {};
  }

  std::vector<compiler::StagesEstimate> estimate(const strategies::Trial &tried, const Found &trial, Cost most) const {
    const strategies::CostModel all(trial.candidate.mesh, run_.assign.topology, run_.assign.profile,
                                    run_.assign.reproducible, run_.assign.join.joins());
    const strategies::Program &program = tried.function->program;
    func::FuncOp func = program.func;
    llvm::DenseMap<Value, int64_t> bytes;
    for (auto [argument, sharding] : llvm::zip_equal(func.getArguments(), tried.function->args))
      bytes[argument] = trial.prices->model.localBytes(strategies::shapeOf(argument),
                                                       strategies::elementBytes(argument.getType()), sharding);
    // The ranks of all stages share the machines' cores.
    const strategies::Topology &topology = run_.assign.topology;
    const double longer = topology.share(trial.mesh.numRanks()) / topology.share(all.mesh().numRanks());
    compiler::StagesToPrice priced{
        func, {}, {}, [&](Value value) { return bytes.lookup(value); }, all, limit_, tried.cost.peakBytes, most};
    for (auto [info, strategy, one] :
         llvm::zip_equal(program.operators, tried.function->assignment.strategies, tried.cost.operators)) {
      for (auto [result, shape] :
           llvm::zip_equal(info.op->getResults(), strategies::localResults(*info.cls, trial.mesh, strategy)))
        bytes[result] = strategies::numElements(shape) * strategies::elementBytes(result.getType());
      const Cost compute = one.compute / info.times,
                 launch = info.loop == int(priced.times.size()) ? std::min(compute, all.launch()) : 0;
      Cost time = launch + Cost(double(compute - launch) * longer), once = 0;
      for (const strategies::PricedCollective &collective : one.collectives)
        (collective.times == info.times ? time : once) +=
            collective.cost / (collective.times == info.times ? info.times : 1);
      priced.times.push_back(time);
      priced.once.push_back(once);
    }
    return compiler::estimateStages(priced, kTriedSchedules);
  }

  void keep(Found one) {
    if (!one.candidate.error.empty()) {
      one.candidate.predicted = kForbidden;
      if (auto [it, isNew] = failed_.try_emplace(one.candidate.stages, one.candidate); !isNew)
        it->second = one.candidate;
      return;
    }
    (one.isDoubtful ? doubtful_ : found_).push_back(std::move(one));
  }

  // ---- the choice ----

  /// Makes the plans that seem best, until none of the others seems better.
  llvm::Error makeBest(ChosenStages &chosen) {
    llvm::stable_sort(found_,
                      [](const Found &a, const Found &b) { return a.candidate.predicted < b.candidate.predicted; });
    std::vector<StagePlanToMake> plans;
    for (const Found &one : found_)
      plans.push_back({one.candidate.stages, one.candidate.predicted});
    std::optional<FittedProgram> fitted;      // of the best so far
    std::map<size_t, FittedProgram> tooLarge; // by plan: what was found first, and does not fit
    Cost least = kForbidden;
    std::string error;
    StagePlanMaking making;
    making.stopped = [&] { return run_.stopped(); };
    auto noteOnce = [&](size_t plan, llvm::Expected<FittedProgram> made) {
      Found &one = found_[plan];
      const Cost estimate = one.candidate.predicted;
      if (made)
        return note(one, std::move(*made), least, fitted);
      // Other limits of memory may help, and computing again.
      StagePlanMade told;
      llvm::Error failed = made.takeError();
      if (failed.isA<DoesNotFit>() || failed.isA<NotAtOnce>())
        told.predicted = estimate;
      failed = llvm::handleErrors(std::move(failed), [&](std::unique_ptr<NotAtOnce> e) {
        told.predicted = e->predicted();
        tooLarge.emplace(plan, std::move(e->found));
        return llvm::Error(std::move(e));
      });
      error = fail(one, std::move(failed));
      return told;
    };
    making.once = [&](llvm::ArrayRef<size_t> list) {
      run_.onlyOnce = true;
      std::vector<llvm::Expected<FittedProgram>> all = makeAll(list, {});
      run_.onlyOnce = false;
      std::vector<StagePlanMade> told;
      for (auto [plan, made] : llvm::zip_equal(list, all))
        told.push_back(noteOnce(plan, std::move(made)));
      return told;
    };
    making.whole = [&](llvm::ArrayRef<size_t> list, Cost longEnough) {
      run_.longEnough = longEnough;
      std::vector<std::optional<FittedProgram>> once(list.size());
      if (run_.options.dumpPhases.empty()) // phases are dumped as they are made
        for (auto [plan, known] : llvm::zip_equal(list, once)) {
          if (!found_[plan].candidate.estimate)
            known = std::exchange(fitted, {});
          else if (auto it = tooLarge.find(plan); it != tooLarge.end())
            known = std::move(it->second);
        }
      std::vector<llvm::Expected<FittedProgram>> all = makeAll(list, std::move(once));
      run_.longEnough = kForbidden;
      std::vector<StagePlanMade> told;
      for (auto [plan, made] : llvm::zip_equal(list, all)) {
        Found &one = found_[plan];
        told.push_back(made ? note(one, std::move(*made), least, fitted) : StagePlanMade());
        if (made)
          continue;
        if (one.candidate.estimate)
          error = fail(one, made.takeError());
        else
          llvm::consumeError(made.takeError()); // it stays what it is
      }
      return told;
    };
    const std::optional<size_t> best = makeStagePlans(plans, making);
    if (best && (!fitted || !run_.options.dumpPhases.empty()))
      if (llvm::Error e = std::move(makeAll(*best, {}).front()).moveInto(fitted))
        return e;
    if (best) {
      chosen.fitted = std::move(*fitted);
      return take(found_[*best], run_);
    }
    if (!doubtful_.empty()) {
      for (Found &one : std::exchange(found_, std::exchange(doubtful_, {})))
        keep(std::move(one));
      return makeBest(chosen);
    }
    if (error.empty())
      for (const auto &[stages, candidate] : failed_)
        if (error.empty())
          error = candidate.error;
    return llvm::make_error<DoesNotFit>(error);
  }

  /// Says of a candidate what its plan is, and keeps the plan in `best` if it takes less than `least` or as much.
  static StagePlanMade note(Found &one, FittedProgram made, Cost &least, std::optional<FittedProgram> &best) {
    StagesCandidate &candidate = one.candidate;
    candidate.estimate = false;
    candidate.error.clear();
    candidate.predicted = made.report.predicted();
    candidate.bytes = int64_t(made.memory.arenaBytes);
    if (made.pipeline)
      candidate.bubble = made.pipeline->bubble;
    if (!best || candidate.predicted < least) {
      least = candidate.predicted;
      best = std::move(made);
    }
    return {true, candidate.predicted};
  }
  /// Says of a candidate that there is no plan, and why.
  static std::string fail(Found &one, llvm::Error error) {
    one.candidate.predicted = kForbidden;
    return one.candidate.error = llvm::toString(std::move(error));
  }

  static llvm::Error take(const Found &one, Compilation &run) {
    run.assign.prices = nullptr;
    run.setMicroBatches(one.candidate.microBatches);
    return run.setMesh(one.candidate.mesh, one.options);
  }

  /// Makes plans side by side. `once`: what was made of each under Compilation::onlyOnce, if anything was.
  std::vector<llvm::Expected<FittedProgram>> makeAll(llvm::ArrayRef<size_t> plans,
                                                     std::vector<std::optional<FittedProgram>> once) {
    once.resize(plans.size());
    std::vector<std::optional<llvm::Expected<FittedProgram>>> made(plans.size());
    if (plans.size() == 1) {
      const Found &one = found_[plans[0]];
      made[0].emplace(make(one, run_, *one.program->module, one.prices, std::move(once[0])));
    } else {
      // The first one speaks as it goes, the others at the end. Each has one thread, and prices and a module of its own.
      std::vector<std::vector<std::string>> said(plans.size());
      const int threads = run_.options.dumpPhases.empty() ? run_.threads() : 1; // dumps go into the same files
      const int before = std::exchange(run_.assign.exactThreads, 1);
      std::vector<std::unique_ptr<Compilation>> others;
      std::vector<Progress> progress;
      for (std::vector<std::string> &lines : said)
        progress.push_back([&lines](const std::string &line) { lines.push_back(line); });
      for (size_t i = 1; i < plans.size(); ++i)
        others.push_back(std::make_unique<Compilation>(run_, progress[i]));
      std::vector<std::shared_ptr<strategies::Prices>> prices;
      std::vector<OwningOpRef<ModuleOp>> modules;
      for (size_t plan : plans) {
        prices.push_back(std::make_shared<strategies::Prices>(*found_[plan].prices, int(prices.size())));
        modules.push_back(found_[plan].program->module->clone());
      }
      strategies::inParallel(threads, plans.size(), [&](size_t i) {
        made[i].emplace(make(found_[plans[i]], i ? *others[i - 1] : run_, *modules[i], prices[i], std::move(once[i])));
      });
      run_.assign.exactThreads = before;
      run_.assign.prices = nullptr;
      for (const std::vector<std::string> &lines : said)
        for (const std::string &line : lines)
          run_.say(line);
    }
    std::vector<llvm::Expected<FittedProgram>> list;
    for (std::optional<llvm::Expected<FittedProgram>> &one : made)
      list.push_back(std::move(*one));
    return list;
  }

  llvm::Expected<FittedProgram> make(const Found &one, Compilation &run, ModuleOp module,
                                     std::shared_ptr<strategies::Prices> prices,
                                     std::optional<FittedProgram> once) const {
    if (llvm::Error e = take(one, run))
      return e;
    run.assign.prices = std::move(prices);
    // In the trials' program loops compute again what they would else read, as they do in the stages of a plan. But there
    // a stage would compute again what lies in another one, and receive what that takes.
    compiler::ImportedModel toCut;
    if (one.candidate.stages > 1) {
      if (llvm::Error e =
              compiler::completePipeline(run.pipeline->options, one.candidate.stages, one.candidate.microBatches))
        return e;
      if (llvm::Error e = quietModel(run).moveInto(toCut))
        return e;
      module = *toCut.module;
    }
    run.assign.explain = explain_;
    run.hurry(run.assign);
    return fitWithRecompute(run, module, run.assign, fitMemory, std::move(once));
  }

  /// The best for each number of stages.
  void compare(ComparedStages &compared) const {
    std::map<int64_t, StagesCandidate> best = failed_;
    for (const Found &one : found_) {
      StagesCandidate &known = best[one.candidate.stages];
      // What was made tells more than an estimate.
      const auto rank = [](const StagesCandidate &c) { return std::pair(c.estimate, c.predicted); };
      if (known.predicted >= kForbidden || (one.candidate.predicted < kForbidden && rank(one.candidate) < rank(known)))
        known = one.candidate;
    }
    for (auto &[stages, candidate] : best)
      compared.best.push_back(std::move(candidate));
    llvm::stable_sort(compared.best, [](const StagesCandidate &a, const StagesCandidate &b) {
      return std::tuple(a.predicted, a.estimate) < std::tuple(b.predicted, b.estimate);
    });
  }

  static constexpr int kSimple = 2; // axes of a simple mesh

  Compilation &run_;
  const dist::Mesh ranks_; // as a number
  const int64_t limit_;    // bytes of memory per rank
  const bool explain_;
  StagePrograms programs_;
  std::map<int64_t, std::vector<dist::Mesh>> meshes_;            // by stages
  std::map<size_t, std::shared_ptr<strategies::Prices>> prices_; // by mesh of so many stages:
  int64_t pricedStages_ = 0;
  std::vector<Found> found_, doubtful_;       // the latter are made where none of the former fits
  std::map<int64_t, StagesCandidate> failed_; // by stages
};

} // namespace

llvm::Expected<ChosenStages> chooseStages(Compilation &run, bool explain) { return StageChoice(run, explain).choose(); }

} // namespace tessera
