#include "strategies/cost/LocalCost.h"

#include "dialects/graph/Graph.h"
#include "strategies/cost/LoopCost.h"

#include "llvm/ADT/DenseSet.h"

using namespace mlir;

namespace tessera::strategies {

LocalCost::LocalCost(func::FuncOp func) : program(func), looped(program.flow, graph::formLoops(program.flow)) {}

llvm::Expected<LocalCost> LocalCost::of(func::FuncOp func, const CostModel &model, const CostModel *kernelModel) {
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
  cost.kernels = loopCosts(kernelModel ? *kernelModel : model, cost.program.flow, cost.looped, kernels);
  cost.senders = graph::sendersOf(cost.program, cost.looped.stepOf, model.mesh());
  for (BlockArgument argument : func.getArguments()) {
    llvm::StringRef role = graph::argRole(func, argument.getArgNumber());
    if (role == graph::kParameter || role == graph::kState)
      cost.persistentBytes += cost.program.flow.values[cost.program.index.lookup(argument)].bytes;
  }
  return cost;
}

std::vector<Cost> operatorTimes(const LocalCost &cost, const CostModel &model,
                                llvm::ArrayRef<std::vector<int>> messages) {
  std::vector<Cost> times = cost.kernels;
  llvm::DenseMap<int, const graph::Sender *> senders; // by step of the loops; looked up only
  for (const graph::Sender &sender : cost.senders)
    senders[sender.step] = &sender;
  auto add = [&](llvm::ArrayRef<int> steps) {
    std::vector<const graph::Sender *> members;
    for (int step : steps)
      members.push_back(senders.lookup(step));
    for (auto [step, share] : llvm::zip_equal(steps, shareMessage(model, members)))
      times[size_t(cost.looped.members[size_t(step)].front())] += share;
  };
  llvm::DenseSet<int> joined; // looked up only
  for (const std::vector<int> &message : messages) {
    add(message);
    joined.insert(message.begin(), message.end());
  }
  for (const graph::Sender &sender : cost.senders)
    if (!joined.contains(sender.step))
      add(sender.step);
  return times;
}

llvm::Expected<graph::SentCollectives> sentCollectives(func::FuncOp func, const CostModel &model,
                                                       const JoinOptions &options, const CostModel *kernels) {
  llvm::Expected<LocalCost> cost = LocalCost::of(func, model, kernels);
  if (!cost)
    return cost.takeError();
  graph::SentCollectives how;
  const SentProgram sent = sendProgram(model, cost->toSend(), options);
  how.messages = graph::operatorsOf(cost->program, cost->looped, sent.messages);
  for (auto [op, ns] : llvm::zip_equal(cost->program.operators, operatorTimes(*cost, model, sent.messages)))
    if (ns > 0)
      how.times.push_back({op, ns});
  if (!sent.beside)
    return how;
  const graph::MessageFlow flow(cost->looped.flow, sent.messages);
  for (int step : sent.beside->order) {
    std::vector<Operation *> &turn = how.turns.emplace_back();
    for (int loop : flow.members[size_t(step)])
      for (int member : cost->looped.members[size_t(loop)])
        turn.push_back(cost->program.operators[size_t(member)]);
    if (sent.beside->beside[size_t(step)])
      how.beside.insert(how.beside.end(), turn.begin(), turn.end());
  }
  return how;
}

} // namespace tessera::strategies
