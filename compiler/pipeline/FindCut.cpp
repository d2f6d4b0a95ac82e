#include "compiler/pipeline/FindCut.h"

#include "dialects/graph/Graph.h"
#include "strategies/pipeline/stages/FindStages.h"

using namespace mlir;

namespace tessera::compiler {

/// The most effort of a search for cuts, in its own unit, which is roughly seconds. Networks of some thousand operators
/// reach it; the answer is then the best cut near an order of them. Even cuts mostly give it before the search begins.
/// Of shared work a search may do a part, but no less than kLeastWork: along one order even large networks take less.
static constexpr double kCutWork = 1, kPartOfWork = 0.25, kLeastWork = 0.03;
/// A step that takes so much more than its bound is not worth a search: predictions are off by more.
static constexpr double kEnough = 1e-3;

/// An error if an operator was given a stage before that of what it reads, or if no operator is left for a stage.
static llvm::Error checkGiven(const ForwardPass &forward, const PipelineCosts &costs) {
  const ProgramParts &parts = forward.parts;
  std::vector<int> by(parts.program.operators.size(),
                      ForwardPass::kNone); // whose stage is the last that a step waits for
  for (int s : parts.order) {
    if (!forward.isForward(s))
      continue;
    int &last = by[size_t(s)];
    for (Value operand : forward.operatorOf(s)->getOperands())
      if (const int maker = parts.makerOf(operand); maker >= 0 && by[size_t(maker)] != ForwardPass::kNone)
        if (last == ForwardPass::kNone || forward.givenTo(by[size_t(maker)], costs) > forward.givenTo(last, costs))
          last = by[size_t(maker)];
    const int given = forward.givenTo(s, costs);
    if (given == ForwardPass::kNone)
      continue;
    if (last != ForwardPass::kNone && forward.givenTo(last, costs) > given)
      return llvm::createStringError("operator '%s' was given stage %d, but it waits for '%s' of stage %d",
                                     graph::nameOf(forward.operatorOf(s)).c_str(), given,
                                     graph::nameOf(forward.operatorOf(last)).c_str(), forward.givenTo(last, costs));
    last = s;
  }
  std::vector<int> latest(parts.program.operators.size(), int(costs.stages()) - 1);
  std::vector<bool> some(size_t(costs.stages()), false);
  for (int s : llvm::reverse(parts.order)) {
    if (!forward.isForward(s))
      continue;
    const int first = by[size_t(s)] == ForwardPass::kNone ? 0 : forward.givenTo(by[size_t(s)], costs);
    int &last = latest[size_t(s)];
    if (by[size_t(s)] == s)
      last = first;
    std::fill(some.begin() + first, some.begin() + last + 1, true);
    for (Value operand : forward.operatorOf(s)->getOperands())
      if (const int maker = parts.makerOf(operand); maker >= 0)
        latest[size_t(maker)] = std::min(latest[size_t(maker)], last);
  }
  for (size_t stage = 0; stage < some.size(); ++stage)
    if (!some[stage])
      return llvm::createStringError("no operator of the forward pass is left for stage %zu: all were given other "
                                     "stages, or wait for some that were",
                                     stage);
  return llvm::Error::success();
}

static bool isGiven(const ForwardPass &forward, const PipelineCosts &costs) {
  return llvm::any_of(forward.parts.order,
                      [&](int s) { return forward.isForward(s) && forward.givenTo(s, costs) != ForwardPass::kNone; });
}

llvm::Expected<FoundCut> findCut(llvm::StringRef function, const ForwardPass &forward, const PipelineCosts &costs,
                                 CutProblem problem) {
  if (llvm::Error e = checkGiven(forward, costs))
    return e;
  std::vector<int> steps;
  strategies::FoundStages found;
  FoundCut cut;
  auto search = [&](const strategies::StageProblem &posed) {
    // Unless a cut is known that does not fit, the memory is an estimate, and the arena decides.
    strategies::StageOptions options{
        .work = kCutWork, .enough = kEnough, .isShort = costs.isHard, .mayExceed = !costs.isHard};
    if (costs.work)
      options.work = std::max(kLeastWork, std::min(kCutWork, costs.work->left * kPartOfWork));
    found = strategies::findStages(posed, options);
    if (costs.work)
      costs.work->left = std::max(0.0, costs.work->left - found.work);
  };
  for (bool anywhere : {false, true}) {
    llvm::Expected<strategies::StageProblem> posed = problem(steps, anywhere);
    if (!posed)
      return posed.takeError();
    if (int64_t(steps.size()) < costs.stages())
      return llvm::createStringError("'%s' has %zu operators of a forward pass, too few for %lld stages",
                                     function.str().c_str(), steps.size(), (long long)costs.stages());
    if (std::string error = strategies::checkStageProblem(*posed); !error.empty())
      return llvm::createStringError("internal error: the stages' problem: " + error);
    search(*posed);
    if (found.plan.empty())
      continue;
    posed->devices[0].memory = -1; // which is not judged here
    const strategies::StageRating rating = strategies::rateStages(*posed, found.plan);
    for (const strategies::StageRate &stage : rating.stages)
      cut.bytes = std::max(cut.bytes, stage.memory);
    for (int64_t bytes : rating.places)
      cut.bytes = std::max(cut.bytes, bytes);
    break;
  }
  if (found.plan.empty())
    return llvm::createStringError("'%s' cannot be cut into %lld stages%s: too much of it waits for one another",
                                   function.str().c_str(), (long long)costs.stages(),
                                   isGiven(forward, costs) ? " in which operators are where they were given" : "");
  cut.stages.assign(forward.parts.program.operators.size(), ForwardPass::kNone);
  for (auto [stage, part] : llvm::enumerate(found.plan))
    for (int node : part.nodes)
      cut.stages[size_t(steps[size_t(node)])] = int(stage);
  return cut;
}

} // namespace tessera::compiler
