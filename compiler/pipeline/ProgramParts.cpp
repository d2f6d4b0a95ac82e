#include "compiler/pipeline/ProgramParts.h"

#include "dialects/dist/DistOps.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphAttributes.h"
#include "dialects/graph/GraphKinds.h"
#include "dialects/graph/flow/Order.h"

#include <array>

using namespace mlir;

namespace tessera::compiler {

static int numberIn(Attribute attribute) {
  auto number = dyn_cast_or_null<IntegerAttr>(attribute);
  return number ? int(number.getInt()) : kNoStage;
}

int stageIn(Operation *op) { return numberIn(op->getAttr(dist::kStageAttr)); }

int stageIn(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  return argument ? numberIn(cast<func::FuncOp>(argument.getOwner()->getParentOp())
                                 .getArgAttr(argument.getArgNumber(), dist::kStageAttr))
                  : stageIn(value.getDefiningOp());
}

func::FuncOp mainFunction(ModuleOp module) {
  if (auto train = module.lookupSymbol<func::FuncOp>("train"))
    return train;
  return *module.getOps<func::FuncOp>().begin();
}

bool isOwned(func::FuncOp func, unsigned argument) {
  llvm::StringRef role = graph::argRole(func, argument);
  return role == graph::kParameter || role == graph::kState;
}

bool isTold(func::FuncOp func, unsigned result) {
  llvm::StringRef role = graph::resultRole(func, result);
  return role == graph::kLoss || role == graph::kCorrect || role == graph::kPredictions ||
         role == graph::kLearningRate || role == graph::kGradientNorm;
}

/// The results for which the forward pass runs: what is told, and what is handed out; and new states.
static std::array<llvm::SmallVector<Value>, 2> findGoals(func::FuncOp func, const graph::DataFlow &flow) {
  std::array<llvm::SmallVector<Value>, 2> goals;
  Operation *end = func.getBody().front().getTerminator();
  std::vector<bool> isNew(end->getNumOperands(), false);
  for (unsigned arg = 0; arg < func.getNumArguments(); ++arg)
    if (auto result = graph::updateOf(func, arg); result && *result < isNew.size())
      isNew[*result] = true;
  for (auto [r, value] : llvm::enumerate(end->getOperands())) {
    const llvm::StringRef role = graph::resultRole(func, unsigned(r));
    const bool told = role != graph::kLearningRate && role != graph::kGradientNorm;
    if (isNew[r] ? flow.variesInBody(flow.results[r]) : told)
      goals[isNew[r]].push_back(value);
  }
  return goals;
}

ProgramParts::ProgramParts(func::FuncOp func) : program(func), order(graph::dependenceOrder(program.flow)) {
  for (size_t s = 0; s < program.operators.size(); ++s)
    hasBody |= inBody(int(s));
  findForward(func);
  findFree(func);
}

void ProgramParts::findForward(func::FuncOp func) {
  const size_t steps = program.operators.size();
  forward.assign(steps, false);
  averages.assign(steps, false);
  std::vector<bool> seen(steps, false);
  bool ofStates = false;
  for (llvm::SmallVector<Value> work : findGoals(func, program.flow)) {
    while (!work.empty()) {
      const int maker = makerOf(work.pop_back_val());
      if (maker < 0 || seen[size_t(maker)])
        continue;
      seen[size_t(maker)] = true;
      forward[size_t(maker)] = !hasBody || inBody(maker);
      averages[size_t(maker)] = forward[size_t(maker)] && ofStates;
      for (Value operand : program.operators[size_t(maker)]->getOperands())
        work.push_back(operand);
    }
    ofStates = true;
  }
}

void ProgramParts::findFree(func::FuncOp func) {
  // By what a step depends on: nothing but constants and the step's number, or the model's inputs as well.
  enum Sources { Known, Inputs, Others };
  std::vector<Sources> sources(program.operators.size(), Others);
  free.assign(program.operators.size(), false);
  for (int s : order) {
    Operation *op = program.operators[size_t(s)];
    Sources from = isa<dist::CollectiveOp, dist::ReceiveOp>(op) || graph::isAccumulation(op) ? Others : Known;
    for (Value operand : op->getOperands()) {
      if (auto argument = dyn_cast<BlockArgument>(operand)) {
        const llvm::StringRef role = graph::argRole(func, argument.getArgNumber());
        from = std::max(from, role == graph::kStep                              ? Known
                              : role == graph::kInput || role == graph::kTarget ? Inputs
                                                                                : Others);
      } else {
        from = std::max(from, sources[size_t(makerOf(operand))]);
      }
    }
    const bool cheap =
        graph::isElementwise(op) || graph::isView(op) || graph::isStretch(op) || graph::microBatches(op).has_value();
    sources[size_t(s)] = from == Inputs && !cheap ? Others : from;
    // Where copies may expire, a view in the body shows a parameter, which every stage that reads it has anyhow.
    const bool shows = inBody(s) && graph::isView(op) && llvm::none_of(op->getOperands(), [&](Value operand) {
                         return program.flow.variesInBody(program.index.lookup(operand));
                       });
    free[size_t(s)] = shows || sources[size_t(s)] != Others;
  }
}

} // namespace tessera::compiler
