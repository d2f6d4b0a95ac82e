#include "compiler/pipeline/PlaceOperators.h"

#include "compiler/pipeline/FindCut.h"

#include "dialects/dist/DistOps.h"
#include "dialects/graph/GivenStages.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphKinds.h"
#include "dialects/graph/GraphOrigin.h"
#include "strategies/cost/LocalCost.h"

#include <map>

using namespace mlir;
using tessera::strategies::Cost;

namespace tessera::compiler {

Cost PipelineCosts::message(int64_t bytes) const {
  const strategies::Link link = all.topology().link(all.mesh(), {0});
  return Cost((link.latency + double(bytes) / link.bandwidth) * 1e9);
}

namespace {

constexpr int kNone = ForwardPass::kNone; // no stage, or not known yet

/// By role and name: the stage that has a parameter or state.
using Owners = std::map<std::pair<std::string, std::string>, int>;

class Placement {
public:
  Placement(func::FuncOp func, const PipelineCosts &costs, Owners &owners)
      : func_(func), costs_(costs), owners_(owners), forward_(func), parts_(forward_.parts),
        stages_(parts_.program.operators.size(), kNone) {}

  /// Places the function for which the cut is searched.
  llvm::Error searchCut(int64_t *counted) {
    if (llvm::Error e = hasGivenCut() ? takeGivenCut() : placeForward(counted))
      return e;
    placeOwned();
    for (int s : parts_.order)
      if (!parts_.free[size_t(s)] && stages_[size_t(s)] == kNone)
        stages_[size_t(s)] = stageOfRest(s);
    finish();
    return llvm::Error::success();
  }

  /// Places a function whose parameters have their stages.
  void follow() {
    for (int s : parts_.order) {
      if (parts_.free[size_t(s)])
        continue;
      if (const std::optional<int64_t> given = graph::stageIn(operatorOf(s), graph::kGivenStageAttr)) {
        stages_[size_t(s)] = int(*given);
        continue;
      }
      for (Value operand : operatorOf(s)->getOperands())
        stages_[size_t(s)] = std::max(stages_[size_t(s)], stageOf(operand));
    }
    finish();
  }

private:
  Operation *operatorOf(int s) const { return forward_.operatorOf(s); }
  bool isForward(int s) const { return forward_.isForward(s); }

  std::pair<std::string, std::string> keyOf(unsigned argument) const {
    return {graph::argRole(func_, argument).str(), graph::argName(func_, argument).str()};
  }

  int ownerOf(unsigned argument) const {
    auto it = owners_.find(keyOf(argument));
    return it == owners_.end() ? kNone : it->second;
  }

  /// The stage in which the value is; kNone: in any, or not known yet.
  int stageOf(Value value) const {
    if (auto argument = dyn_cast<BlockArgument>(value))
      return isOwned(func_, argument.getArgNumber()) ? ownerOf(argument.getArgNumber()) : kNone;
    return stages_[size_t(parts_.makerOf(value))];
  }

  /// The stage of the largest operand that has one.
  int stageOfLargest(int s) const {
    int stage = kNone;
    int64_t largest = -1;
    for (Value operand : operatorOf(s)->getOperands())
      if (const int of = stageOf(operand); of != kNone && parts_.bytesOf(operand) > largest) {
        stage = of;
        largest = parts_.bytesOf(operand);
      }
    return stage;
  }

  bool hasGivenCut() const {
    for (int s : parts_.order)
      if (isForward(s) && stageIn(operatorOf(s)) != kNoStage)
        return true;
    return false;
  }

  llvm::Error takeGivenCut() {
    const int64_t count = costs_.stages();
    std::vector<bool> used(size_t(count), false);
    for (int s : parts_.order) {
      if (!isForward(s))
        continue;
      const int given = stageIn(operatorOf(s));
      const std::string name = graph::nameOf(operatorOf(s));
      if (given == kNoStage)
        return llvm::createStringError("operator '" + name +
                                       "' has no stage, but other operators of the forward pass have one");
      if (given < 0 || given >= count)
        return llvm::createStringError("operator '%s' has the stage %d of %lld", name.c_str(), given, (long long)count);
      stages_[size_t(s)] = given;
      used[size_t(given)] = true;
    }
    for (int64_t stage = 0; stage < count; ++stage)
      if (!used[size_t(stage)])
        return llvm::createStringError("no operator of the forward pass has the stage %lld of %lld", (long long)stage,
                                       (long long)count);
    return llvm::Error::success();
  }

  llvm::Error placeForward(int64_t *counted) {
    llvm::Expected<strategies::LocalCost> priced = strategies::LocalCost::of(func_, costs_.stage, &costs_.all);
    if (!priced)
      return priced.takeError();
    const std::vector<Cost> times = strategies::operatorTimes(*priced, costs_.stage, {});
    llvm::Expected<FoundCut> cut =
        findCut(func_.getName(), forward_, costs_, [&](std::vector<int> &steps, bool anywhere) {
          return forward_.problem(times, costs_, steps, anywhere);
        });
    if (!cut)
      return cut.takeError();
    stages_ = std::move(cut->stages);
    if (counted)
      *counted = cut->bytes;
    return llvm::Error::success();
  }

  void placeOwned() {
    std::map<std::string, int> byParameter;
    auto place = [&](unsigned a) {
      if (ownerOf(a) != kNone)
        return;
      llvm::SmallVector<int> found;
      forward_.collectReaders(parts_.program.index.lookup(func_.getArgument(a)), found);
      int stage = kNone;
      for (int reader : found)
        if (const int at = stages_[size_t(reader)]; stage == kNone || at < stage)
          stage = at;
      const std::string parameter = forward_.parameterOf(a);
      if (auto it = byParameter.find(parameter); it != byParameter.end() && stage == kNone)
        stage = it->second;
      if (stage == kNone && graph::argRole(func_, a) == graph::kParameter)
        stage = 0; // nothing forward reads it
      if (stage == kNone)
        return; // when its new value has a stage
      owners_[keyOf(a)] = stage;
      if (graph::argRole(func_, a) == graph::kParameter)
        byParameter[parameter] = stage;
    };
    for (bool parameters : {true, false})
      for (unsigned a = 0; a < func_.getNumArguments(); ++a)
        if (isOwned(func_, a) && (graph::argRole(func_, a) == graph::kParameter) == parameters)
          place(a);
  }

  int stageOfRest(int s) const {
    if (parts_.inBackwardBody(s)) {
      int stage = forward_.homeOf(s) == kNone ? stageOfLargest(s) : stages_[size_t(forward_.homeOf(s))];
      for (Value operand : operatorOf(s)->getOperands())
        if (const int maker = parts_.makerOf(operand); maker >= 0 && parts_.inBackwardBody(maker))
          if (const int at = stages_[size_t(maker)]; at != kNone && (stage == kNone || at < stage))
            stage = at;
      return stage;
    }
    const auto parameter = owners_.find({graph::kParameter.str(), graph::parameterUpdatedBy(operatorOf(s)).str()});
    if (parameter != owners_.end())
      return parameter->second;
    if (!parts_.hasBody && forward_.homeOf(s) != kNone)
      return stages_[size_t(forward_.homeOf(s))];
    return stageOfLargest(s);
  }

  /// Places what is left by what reads it, and the states by their new values, and writes the attributes.
  void finish() {
    for (int s : llvm::reverse(parts_.order)) {
      int &stage = stages_[size_t(s)];
      if (parts_.free[size_t(s)] || stage != kNone)
        continue;
      for (int value : parts_.program.flow.steps[size_t(s)].makes)
        for (int reader : forward_.readersOf(value))
          if (size_t(reader) < stages_.size() && stages_[size_t(reader)] != kNone)
            stage = stage == kNone ? stages_[size_t(reader)] : std::min(stage, stages_[size_t(reader)]);
      if (stage == kNone)
        stage = 0;
    }
    Operation *end = func_.getBody().front().getTerminator();
    Builder builder(func_.getContext());
    for (unsigned a = 0; a < func_.getNumArguments(); ++a) {
      if (!isOwned(func_, a))
        continue;
      int &owner = owners_.try_emplace(keyOf(a), kNone).first->second;
      if (std::optional<unsigned> result = graph::updateOf(func_, a); result && owner == kNone)
        owner = stageOf(end->getOperand(*result));
      for (int reader : forward_.readersOf(parts_.program.index.lookup(func_.getArgument(a))))
        if (owner == kNone && size_t(reader) < stages_.size())
          owner = stages_[size_t(reader)];
      owner = std::max(owner, 0);
      func_.setArgAttr(a, dist::kStageAttr, builder.getI64IntegerAttr(owner));
    }
    for (auto [s, op] : llvm::enumerate(parts_.program.operators))
      if (!parts_.free[s])
        op->setAttr(dist::kStageAttr, builder.getI64IntegerAttr(stages_[s]));
  }

  mutable func::FuncOp func_; // a handle, whose functions are not const
  const PipelineCosts &costs_;
  Owners &owners_;
  const ForwardPass forward_;
  const ProgramParts &parts_;
  std::vector<int> stages_; // by step
};

} // namespace

llvm::Error placeOperators(ModuleOp local, const PipelineCosts &costs, int64_t *counted) {
  Owners owners;
  func::FuncOp main = mainFunction(local);
  if (llvm::Error e = Placement(main, costs, owners).searchCut(counted))
    return e;
  for (func::FuncOp func : local.getOps<func::FuncOp>())
    if (func != main)
      Placement(func, costs, owners).follow();
  return llvm::Error::success();
}

OperatorStages stagesOfOperators(ModuleOp placed) {
  OperatorStages stages;
  for (func::FuncOp func : placed.getOps<func::FuncOp>()) {
    llvm::StringMap<int> &names = stages[func.getName().str()];
    // What came with localisation has the name of the operator that it serves, and may lie elsewhere.
    for (const bool ofModel : {true, false})
      for (Operation &op : func.getBody().front())
        if (const int stage = stageIn(&op); stage != kNoStage && isa<graph::GraphDialect>(op.getDialect()) == ofModel)
          names.try_emplace(graph::nameOf(&op), stage);
  }
  return stages;
}

} // namespace tessera::compiler
