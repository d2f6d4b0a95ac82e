#include "compiler/driver/stages/StagePrograms.h"

#include "compiler/driver/Phases.h"
#include "compiler/driver/fit/RecomputeTrials.h"

#include "compiler/pipeline/Estimate.h"
#include "compiler/pipeline/ProgramParts.h"
#include "dialects/graph/Graph.h"
#include "strategies/space/InParallel.h"

#include <numeric>

using namespace mlir;

namespace tessera {

using strategies::Cost;
using strategies::kForbidden;

const std::vector<std::string> kTriedSchedules = {"auto", "zb-v", "interleaved:2", "interleaved:4"};

/// Of kTriedSchedules, the most stages on a rank; and the part of the forward passes in a step, roughly.
static constexpr double kMostChunks = 4, kForward = 1.0 / 3;

static std::vector<int64_t> divisorsOf(int64_t n) {
  std::vector<int64_t> divisors;
  for (int64_t d = 1; d <= n; ++d)
    if (n % d == 0)
      divisors.push_back(d);
  return divisors;
}

/// What divides dimension 0 of all inputs of a step, which have the rows of all micro-batches; 0: none has rows.
static int64_t commonRows(ModuleOp module) {
  func::FuncOp func = compiler::mainFunction(module);
  int64_t rows = 0;
  for (unsigned i = 0; i < func.getNumArguments(); ++i)
    if (auto type = dyn_cast<RankedTensorType>(func.getArgumentTypes()[i]);
        type && type.getRank() > 0 && graph::argRole(func, i) == graph::kInput)
      rows = std::gcd(rows, type.getDimSize(0));
  return rows;
}

llvm::Error StagePrograms::make(int64_t parts, StageProgram &program) const {
  const Progress quiet = [](const std::string &) {};
  Compilation run(run_, quiet);
  run.setMicroBatches(parts);
  llvm::Expected<compiler::ImportedModel> model = quietModel(run);
  if (!model) {
    program.error = llvm::toString(model.takeError());
    return llvm::Error::success();
  }
  program.module = std::move(model->module);
  return priceKernels(program);
}

llvm::Error StagePrograms::make(llvm::ArrayRef<int64_t> numbers) {
  std::vector<std::pair<int64_t, StageProgram *>> missing;
  for (int64_t parts : numbers)
    if (auto [it, isNew] = programs_.try_emplace(parts); isNew)
      missing.push_back({parts, &it->second});
  std::vector<std::string> errors(missing.size());
  strategies::inParallel(run_.threads(), missing.size(), [&](size_t i) {
    if (llvm::Error e = make(missing[i].first, *missing[i].second))
      errors[i] = llvm::toString(std::move(e));
  });
  for (const std::string &error : errors)
    if (!error.empty())
      return llvm::createStringError(error);
  return llvm::Error::success();
}

llvm::Expected<StageProgram *> StagePrograms::of(int64_t parts) {
  if (llvm::Error e = make(parts))
    return e;
  return &programs_.at(parts);
}

llvm::Error StagePrograms::computeAgain(StageProgram &program) {
  if (!program.tried.empty())
    return llvm::Error::success();
  std::vector<Recomputed> levels = {{"none", {}}, {"full", {}}};
  if (run_.options.recompute != "auto") {
    llvm::Expected<Recomputed> again = parseRecomputed(run_.options.recompute);
    if (!again)
      return again.takeError();
    levels = {std::move(*again)};
  }
  for (const Recomputed &again : levels) {
    OwningOpRef<ModuleOp> module(program.module->clone());
    if (llvm::Error e = recompute(run_, *module, again))
      return e;
    llvm::Expected<strategies::Program> step = strategies::Program::analyse(compiler::mainFunction(*module));
    if (!step)
      return step.takeError();
    program.tried.push_back({std::move(module), std::move(*step)});
  }
  return llvm::Error::success();
}

/// Sums up what kernels take on one rank, with loops as fusion forms them there.
llvm::Error StagePrograms::priceKernels(StageProgram &program) const {
  llvm::Expected<strategies::Program> analysed = strategies::Program::analyse(compiler::mainFunction(*program.module));
  if (!analysed)
    return analysed.takeError();
  strategies::Topology topology = run_.assign.topology;
  topology.axes.clear(); // there are none
  const strategies::CostModel model(dist::Mesh(), topology, run_.assign.profile, run_.assign.reproducible);
  auto stays = [&](Value value) { return analysed->staysInLoop(value, [](OpOperand &) { return true; }); };
  std::vector<Cost> times;
  for (auto [i, info] : llvm::enumerate(analysed->operators)) {
    strategies::Strategy whole;
    whole.factors.resize(info.cls->rule.factors.size());
    Operation *op = info.op;
    const bool starts = info.loop == int(i);
    const Cost cost = model.computeInLoop(
        *info.cls, whole, [&](int o) { return stays(op->getOperand(unsigned(o))); },
        [&](int r) { return stays(op->getResult(unsigned(r))); }, starts);
    const Cost launch = starts && cost > 0 ? std::min(cost, model.launch()) : 0;
    program.kernels += cost * info.times;
    program.launches += launch * info.times;
    times.push_back((cost - launch) * info.times);
  }
  program.longest = compiler::longestForOne(analysed->func, times);
  program.kernels -= program.launches;
  return llvm::Error::success();
}

llvm::Expected<std::vector<int64_t>> StagePrograms::microBatches() {
  const int64_t given = run_.training.accumulate;
  llvm::Expected<StageProgram *> program = of(given);
  if (!program)
    return program.takeError();
  if (!(*program)->error.empty())
    return llvm::createStringError((*program)->error);
  mostStages_ = compiler::mostStages(compiler::mainFunction(*(*program)->module));
  if (!run_.options.train || !run_.options.chooseMicroBatches)
    return std::vector<int64_t>{given};
  const int64_t rows = commonRows(*(*program)->module);
  std::vector<int64_t> numbers = divisorsOf(std::max<int64_t>(rows, 1));
  llvm::erase_if(numbers, [](int64_t n) { return n > kMostMicroBatches; });
  if (numbers.size() < 2)
    return numbers;
  // A batch that the file fixes is a micro-batch's: with more of them the step would be another one.
  if (llvm::Error e = of(numbers[1]).moveInto(program))
    return e;
  if ((*program)->error.empty() && commonRows(*(*program)->module) == rows) {
    rows_ = rows;
    return numbers;
  }
  run_.say("warning: --pipeline auto: the model file fixes the batch, which is then a micro-batch's; --accumulate N "
           "says how many there are");
  return std::vector<int64_t>{given};
}

llvm::Expected<Cost> StagePrograms::atLeast(int64_t stages, int64_t parts, int64_t ranks) {
  llvm::Expected<StageProgram *> found = of(parts);
  if (!found)
    return found.takeError();
  const StageProgram &program = **found;
  if (!program.error.empty())
    return kForbidden;
  const strategies::Topology &topology = run_.assign.topology;
  const double onAll = topology.share(1) / topology.share(ranks) / double(ranks); // of what one rank takes
  const double even = double(program.kernels) * onAll + double(program.launches) / double(stages);
  // A rank that has several stages gets the first of them sooner, if there are enough micro-batches for them.
  const double sooner = parts >= stages ? kMostChunks : 1;
  return Cost(std::max(even * (1 + kForward / sooner * double(stages - 1) / double(parts)),
                       double(program.longest) * onAll * double(stages)));
}

} // namespace tessera
