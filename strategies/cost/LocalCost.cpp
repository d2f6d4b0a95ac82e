#include "strategies/cost/LocalCost.h"

#include "dialects/graph/Graph.h"
#include "strategies/cost/LoopCost.h"

using namespace mlir;

namespace tessera::strategies {

LocalCost::LocalCost(func::FuncOp func) : program(func), looped(program.flow, graph::formLoops(program.flow)) {}

llvm::Expected<LocalCost> LocalCost::of(func::FuncOp func, const CostModel &model) {
  LocalCost cost(func);
  std::vector<Strategy> whole(cost.program.operators.size()); // nothing is cut
  std::vector<StepKernel> kernels;
  for (auto [i, op] : llvm::enumerate(cost.program.operators)) {
    std::unique_ptr<OperatorClass> &cls = cost.classes.emplace_back();
    if (isa<dist::ShardingRuleOpInterface>(op)) {
      if (llvm::Error e = OperatorClass::of(op).moveInto(cls))
        return e;
      whole[i].factors.resize(cls->rule.factors.size());
    }
    kernels.push_back(cls ? StepKernel{cls.get(), &whole[i]} : StepKernel());
  }
  cost.kernels = loopCosts(model, cost.program.flow, cost.looped, kernels);
  cost.senders = graph::sendersOf(cost.program, cost.looped.stepOf, model.mesh());
  for (BlockArgument argument : func.getArguments()) {
    llvm::StringRef role = graph::argRole(func, argument.getArgNumber());
    if (role == graph::kParameter || role == graph::kState)
      cost.persistentBytes += cost.program.flow.values[cost.program.index.lookup(argument)].bytes;
  }
  return cost;
}

std::vector<std::vector<int>> LocalCost::messages(const CostModel &model, const JoinOptions &options) const {
  return chooseMessages(model, looped, kernels, senders, options, persistentBytes);
}

llvm::Expected<std::vector<std::vector<Operation *>>> joinedCollectives(func::FuncOp func, const CostModel &model,
                                                                        const JoinOptions &options) {
  std::vector<std::vector<Operation *>> joined;
  if (options.most == 0)
    return joined;
  llvm::Expected<LocalCost> cost = LocalCost::of(func, model);
  if (!cost)
    return cost.takeError();
  for (const std::vector<int> &message : cost->messages(model, options)) {
    std::vector<Operation *> &members = joined.emplace_back();
    for (int step : message)
      members.push_back(cost->program.operators[cost->looped.members[step].front()]);
  }
  return joined;
}

} // namespace tessera::strategies
