// The report of a program that is one rank's: nothing was chosen, what it says is priced.
#include "strategies/report/Report.h"

#include "dialects/dist/DistOps.h"
#include "dialects/graph/GraphOrigin.h"
#include "strategies/cost/LocalCost.h"

#include <map>

using namespace mlir;

namespace tessera::strategies {

namespace {

class LocalPricing {
public:
  LocalPricing(func::FuncOp func, const CostModel &model, const LocalCost &cost, const JoinOptions &join,
               llvm::function_ref<std::string(Value)> differs)
      : model_(model), cost_(cost), differs_(differs), sent_(sendProgram(model, cost.toSend(), join)) {
    if (join.overlap != Overlapping::Off)
      report_.leastTime = leastTime(model, cost.toSend());
    report_.name = func.getName().str();
  }

  FunctionReport run() {
    shareMessages();
    for (auto [i, op] : llvm::enumerate(cost_.program.operators))
      if (auto collective = dyn_cast<dist::CollectiveOp>(op))
        add(collective, cost_.program.times(int(i)));
      else
        add(op, cost_.classes[i].get(), cost_.kernels[i], cost_.program.times(int(i)));
    report_.numMessages -= joined_;
    report_.persistentBytes = cost_.persistentBytes;
    const graph::MessageFlow flow(cost_.looped.flow, sent_.messages);
    report_.peakBytes = report_.persistentBytes + peakBytes(flow.flow, sent_);
    if (sent_.beside)
      report_.beside = BesideCost::of(*sent_.beside);
    return std::move(report_);
  }

private:
  static int64_t bytesOf(Value v) { return numElements(shapeOf(v)) * elementBytes(v.getType()); }

  /// What each member of a message pays.
  void shareMessages() {
    std::map<int, const graph::Sender *> senders;
    for (const graph::Sender &sender : cost_.senders)
      senders[sender.step] = &sender;
    for (const std::vector<int> &message : sent_.messages) {
      std::vector<const graph::Sender *> members;
      for (int step : message)
        members.push_back(senders.at(step));
      for (auto [step, share] : llvm::zip_equal(message, shareMessage(model_, members)))
        shares_[cost_.program.operators[cost_.looped.members[step].front()]] = share;
      joined_ += (int64_t(message.size()) - 1) * cost_.program.times(cost_.looped.members[message.front()].front());
    }
  }

  OperatorReport describeOperator(Operation *op) const {
    OperatorReport r;
    r.name = graph::nameOf(op);
    r.kind = op->getName().stripDialect().str();
    r.gradientOf = graph::gradientOf(op).str();
    r.updateOf = graph::parameterUpdatedBy(op).str();
    r.inputs = inputNames(op);
    for (Value v : op->getOperands()) {
      r.operands.push_back(differs_(v));
      r.localOperands.push_back(shapeOf(v));
      r.bytes += bytesOf(v);
    }
    for (Value v : op->getResults()) {
      r.results.push_back(differs_(v));
      r.localResults.push_back(shapeOf(v));
      r.bytes += bytesOf(v);
    }
    r.strategy = r.results.empty() ? "" : r.results.front(); // nothing was chosen
    return r;
  }

  void add(dist::CollectiveOp op, int64_t times) {
    OperatorReport r = describeOperator(op);
    r.kind = op.getKind().str();
    CollectiveReport c =
        describe(model_, op.getCollective(model_.mesh()), elementBytes(op.getX().getType()), "result 0");
    if (auto share = shares_.find(op); share != shares_.end())
      c.setCost(share->second);
    c.repeat(times);
    r.times = times;
    report_.communication += c.cost;
    report_.bytesSent += c.bytesSent;
    report_.numCollectives += dist::communicates(op.getCollectiveKind()) ? times : 0;
    report_.numMessages += dist::communicates(op.getCollectiveKind()) ? times : 0;
    r.collectives.push_back(std::move(c));
    report_.operators.push_back(std::move(r));
  }

  void add(Operation *op, const OperatorClass *cls, Cost compute, int64_t times) {
    OperatorReport r = describeOperator(op);
    r.times = times;
    r.bytes *= times;
    if (cls) {
      r.rule = cls->rule.str();
      r.flops = cast<dist::ShardingRuleOpInterface>(op).getFlops(cls->operandShapes, cls->resultShapes) * double(times);
      r.compute = repeated(compute, times);
    }
    report_.compute += r.compute;
    report_.operators.push_back(std::move(r));
  }

  const CostModel &model_;
  const LocalCost &cost_;
  llvm::function_ref<std::string(Value)> differs_;
  const SentProgram sent_;
  llvm::DenseMap<Operation *, Cost> shares_; // looked up only
  int64_t joined_ = 0;                       // collectives that are sent with another one
  FunctionReport report_;
};

} // namespace

llvm::Expected<FunctionReport> priceLocalFunction(func::FuncOp func, const CostModel &model,
                                                  llvm::function_ref<std::string(Value)> differs,
                                                  const JoinOptions &join) {
  llvm::Expected<LocalCost> cost = LocalCost::of(func, model);
  if (!cost)
    return cost.takeError();
  return LocalPricing(func, model, *cost, join, differs).run();
}

} // namespace tessera::strategies
