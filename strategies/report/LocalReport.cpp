// The report of a program that is one rank's: nothing was chosen, what it says is priced.
#include "strategies/report/Report.h"

#include "dialects/dist/DistDialect.h"
#include "dialects/dist/DistOps.h"
#include "dialects/graph/Fusion.h"
#include "dialects/graph/GraphOrigin.h"

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
        classes_[&op] = std::move(*cls);
      }
    for (Operation &op : block.without_terminator())
      if (auto collective = dyn_cast<dist::CollectiveOp>(op))
        add(collective);
      else
        add(&op);
    addMemory(block);
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

  /// Computed point by point and read only by what can be of the same loop: fusion keeps it out of memory.
  bool isVirtual(Value v) const {
    auto holds = [&](Operation *op, auto property) {
      auto it = op ? classes_.find(op) : classes_.end();
      return it != classes_.end() && property(it->second->rule);
    };
    return holds(v.getDefiningOp(), graph::streams) &&
           llvm::all_of(v.getUsers(), [&](Operation *u) { return holds(u, graph::mayEndLoop); });
  }

  void add(Operation *op) {
    OperatorReport r = describeOperator(op);
    if (auto it = classes_.find(op); it != classes_.end()) {
      const OperatorClass &cls = *it->second;
      Strategy whole;
      whole.factors.resize(cls.rule.factors.size());
      llvm::SmallVector<Shape> operands = cls.operandShapes, results = cls.resultShapes;
      r.rule = cls.rule.str();
      r.flops = cast<dist::ShardingRuleOpInterface>(op).getFlops(operands, results);
      r.compute = model_.computeInLoop(
          cls, whole, [&](int o) { return isVirtual(op->getOperand(unsigned(o))); },
          [&](int o) { return isVirtual(op->getResult(unsigned(o))); });
    }
    report_.compute += r.compute;
    report_.operators.push_back(std::move(r));
  }

  /// What persists, and the largest live set in the program's order.
  void addMemory(Block &block) {
    int64_t live = 0, peak = 0;
    for (unsigned i = 0; i < func_.getNumArguments(); ++i) {
      llvm::StringRef role = graph::argRole(func_, i);
      bool persists = role == graph::kParameter || role == graph::kState;
      (persists ? report_.persistentBytes : live) += bytesOf(func_.getArgument(i));
    }
    llvm::DenseMap<Value, Operation *> last; // looked up only
    for (Operation &op : block)
      for (Value v : op.getOperands())
        last[v] = &op;
    for (Operation &op : block.without_terminator()) {
      for (Value v : op.getResults())
        live += isVirtual(v) ? 0 : bytesOf(v);
      peak = std::max(peak, live);
      llvm::SmallDenseSet<Value> ended;
      for (Value v : op.getOperands())
        if (v.getDefiningOp() && last[v] == &op && !isVirtual(v) && ended.insert(v).second)
          live -= bytesOf(v);
    }
    report_.peakBytes = report_.persistentBytes + peak;
  }

  func::FuncOp func_;
  const CostModel &model_;
  llvm::function_ref<std::string(Value)> differs_;
  llvm::DenseMap<Operation *, std::unique_ptr<OperatorClass>> classes_; // looked up only
  FunctionReport report_;
};

} // namespace

llvm::Expected<FunctionReport> priceLocalFunction(func::FuncOp func, const CostModel &model,
                                                  llvm::function_ref<std::string(Value)> differs) {
  return LocalPricing(func, model, differs).run();
}

} // namespace tessera::strategies
