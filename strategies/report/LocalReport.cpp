// The report of a program that is one rank's: nothing was chosen, what it says is priced.
#include "strategies/report/Report.h"

#include "dialects/dist/DistDialect.h"
#include "dialects/dist/DistOps.h"
#include "dialects/graph/GraphOrigin.h"
#include "dialects/graph/Order.h"
#include "strategies/cost/LoopCost.h"

using namespace mlir;

namespace tessera::strategies {

namespace {

class LocalPricing {
public:
  LocalPricing(func::FuncOp func, const CostModel &model, llvm::function_ref<std::string(Value)> differs)
      : func_(func), model_(model), differs_(differs) {
    report_.name = func.getName().str();
  }

  llvm::Expected<FunctionReport> run() {
    Block &block = func_.getBody().front();
    for (Operation &op : block.without_terminator())
      if (isa<dist::ShardingRuleOpInterface>(op)) {
        auto cls = OperatorClass::of(&op);
        if (!cls)
          return cls.takeError();
        Strategy whole;
        whole.factors.resize((*cls)->rule.factors.size());
        classes_[&op] = {std::move(*cls), std::move(whole)};
      }
    const graph::FunctionFlow program(func_);
    const graph::LoopedFlow looped(program.flow, graph::formLoops(program.flow));
    std::vector<StepKernel> kernels;
    for (Operation *op : program.operators) {
      auto it = classes_.find(op);
      kernels.push_back(it == classes_.end() ? StepKernel() : StepKernel{it->second.cls.get(), &it->second.whole});
    }
    const std::vector<Cost> costs = loopCosts(model_, program.flow, looped, kernels);
    for (auto [op, cost] : llvm::zip(program.operators, costs))
      if (auto collective = dyn_cast<dist::CollectiveOp>(op))
        add(collective);
      else
        add(op, cost);
    addMemory(looped.flow);
    return std::move(report_);
  }

private:
  static int64_t bytesOf(Value v) { return numElements(shapeOf(v)) * elementBytes(v.getType()); }

  OperatorReport describeOperator(Operation *op) const {
    OperatorReport r;
    r.name = graph::nameOf(op);
    r.kind = op->getName().stripDialect().str();
    r.gradientOf = graph::gradientOf(op).str();
    r.updateOf = graph::parameterUpdatedBy(op).str();
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

  void add(dist::CollectiveOp op) {
    OperatorReport r = describeOperator(op);
    r.kind = op.getKind().str();
    r.collectives.push_back(
        describe(model_, op.getCollective(model_.mesh()), elementBytes(op.getX().getType()), "result 0"));
    const CollectiveReport &c = r.collectives.back();
    report_.communication += c.cost;
    report_.bytesSent += c.bytesSent;
    report_.numCollectives += dist::communicates(op.getCollectiveKind());
    report_.operators.push_back(std::move(r));
  }

  void add(Operation *op, Cost compute) {
    OperatorReport r = describeOperator(op);
    if (auto it = classes_.find(op); it != classes_.end()) {
      const OperatorClass &cls = *it->second.cls;
      r.rule = cls.rule.str();
      r.flops = cast<dist::ShardingRuleOpInterface>(op).getFlops(cls.operandShapes, cls.resultShapes);
      r.compute = compute;
    }
    report_.compute += r.compute;
    report_.operators.push_back(std::move(r));
  }

  /// What persists, and the largest live set in the order of execution.
  void addMemory(const graph::DataFlow &looped) {
    for (unsigned i = 0; i < func_.getNumArguments(); ++i) {
      llvm::StringRef role = graph::argRole(func_, i);
      if (role == graph::kParameter || role == graph::kState)
        report_.persistentBytes += bytesOf(func_.getArgument(i));
    }
    report_.peakBytes = report_.persistentBytes + graph::peak(looped, graph::executionOrder(looped)).bytes;
  }

  struct Whole {
    std::unique_ptr<OperatorClass> cls;
    Strategy whole; // nothing is cut
  };
  func::FuncOp func_;
  const CostModel &model_;
  llvm::function_ref<std::string(Value)> differs_;
  llvm::DenseMap<Operation *, Whole> classes_; // looked up only
  FunctionReport report_;
};

} // namespace

llvm::Expected<FunctionReport> priceLocalFunction(func::FuncOp func, const CostModel &model,
                                                  llvm::function_ref<std::string(Value)> differs) {
  return LocalPricing(func, model, differs).run();
}

} // namespace tessera::strategies
