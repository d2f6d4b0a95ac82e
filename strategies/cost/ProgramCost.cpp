#include "strategies/cost/ProgramCost.h"

#include "dialects/dist/ReshardedValues.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/MemoryLoad.h"
#include "strategies/space/LiveRanges.h"

using namespace mlir;

namespace tessera::strategies {

namespace {

class Pricing {
public:
  Pricing(const ChosenProgram &chosen, const CostModel &model)
      : chosen_(chosen), program_(chosen.program), func_(chosen.program.func), model_(model), ranges_(chosen.program),
        resharded_(model.mesh()) {}

  llvm::Expected<ProgramCost> run() {
    noteHandedOn();
    addArguments();
    for (size_t i = 0; i < program_.operators.size(); ++i)
      if (llvm::Error e = addOperator(int(i)))
        return e;
    if (llvm::Error e = addOutputs())
      return e;
    for (const auto &[range, bytes] : copies_)
      load_.add(range.from, std::max(range.from, range.to), bytes);
    cost_.peakBytes = cost_.persistentBytes + load_.peak().bytes;
    return std::move(cost_);
  }

private:
  const ShardingRule &rule(int op) const { return program_.operators[op].cls->rule; }

  int64_t bytesOf(Value v, const Sharding &s) const {
    return model_.localBytes(shapeOf(v), elementBytes(v.getType()), s);
  }

  void noteHandedOn() {
    for (unsigned a = 0; a < func_.getNumArguments(); ++a)
      handed_[func_.getArgument(a)] = chosen_.args[a];
    for (auto [i, info] : llvm::enumerate(program_.operators))
      for (OpResult r : info.op->getResults())
        handed_[r] = dist::resultSharding(info.cls->rule, chosen_.strategies[i], int(r.getResultNumber()));
  }

  void addArguments() {
    for (unsigned a = 0; a < func_.getNumArguments(); ++a) {
      int64_t bytes = bytesOf(func_.getArgument(a), chosen_.args[a]);
      llvm::StringRef role = graph::argRole(func_, a);
      if (role == graph::kParameter || role == graph::kState) {
        cost_.persistentBytes += bytes;
        continue;
      }
      LiveRange range = ranges_.argument(a);
      load_.add(range.from, range.to, bytes);
    }
  }

  /// Fusion keeps it out of memory. Many readers ask: a learning rate is read by every update.
  bool staysInLoop(Value v) {
    auto [it, fresh] = staysInLoop_.try_emplace(v, false);
    if (fresh)
      it->second = program_.staysInLoop(v, [&](OpOperand &use) {
        int reader = program_.index.lookup(use.getOwner());
        return dist::operandSharding(rule(reader), chosen_.strategies[reader], int(use.getOperandNumber())) ==
               handed_[v];
      });
    return it->second;
  }

  llvm::Error addOperator(int i) {
    const OperatorInfo &info = program_.operators[i];
    const Strategy &strategy = chosen_.strategies[i];
    OperatorPrice price;
    for (auto [o, v] : llvm::enumerate(info.op->getOperands())) {
      Sharding needs = dist::operandSharding(info.cls->rule, strategy, int(o));
      if (!dist::canReshard(model_.mesh(), handed_[v], needs))
        return fail("operator '" + info.name + "' expects operand " + llvm::Twine(o) + " " +
                    dist::notOwed(model_.mesh(), handed_[v], needs));
      addReshard(v, needs, ranges_.time(i), PricedCollective::Operand, int(o), price.collectives);
    }
    addOwn(i, price);
    for (OpResult v : info.op->getResults()) {
      std::optional<LiveRange> range = ranges_.result(v, [&](unsigned arg) { return chosen_.args[arg] == handed_[v]; });
      if (range && !staysInLoop(v))
        load_.add(range->from, range->to, bytesOf(v, handed_[v]));
    }
    price.compute = model_.computeInLoop(
        *info.cls, strategy, [&](int o) { return staysInLoop(info.op->getOperand(unsigned(o))); },
        [&](int r) { return staysInLoop(info.op->getResult(unsigned(r))); });
    cost_.compute += price.compute;
    cost_.operators.push_back(std::move(price));
    return llvm::Error::success();
  }

  void add(const dist::Collective &c, int64_t elementBytes, PricedCollective::Place place, int index,
           std::vector<PricedCollective> &list) {
    list.push_back({place, index, elementBytes, model_.collective(c, elementBytes), c});
    cost_.communication += list.back().cost;
  }

  /// Reshards the value for a reader at the time `used`, unless an earlier one has paid.
  void addReshard(Value v, const Sharding &needs, int64_t used, PricedCollective::Place place, int index,
                  std::vector<PricedCollective> &list) {
    const Sharding &have = handed_[v];
    dist::ReshardedValues::Want want = resharded_.want(v.getAsOpaquePointer(), have, needs);
    if (!want.needed)
      return;
    if (!want.first) {
      copies_[want.copy].first.to = std::max(copies_[want.copy].first.to, used);
      return;
    }
    int64_t from = dist::ReshardedValues::paidWhereMade(have) ? ranges_.made(v) : used;
    copies_.push_back({{from, used}, bytesOf(v, needs)});
    int64_t bytes = elementBytes(v.getType());
    for (const dist::Collective &c : model_.planReshard(shapeOf(v), bytes, have, needs))
      add(c, bytes, place, index, list);
  }

  /// What the operator brings along. Between the kernel and what is handed over lies another buffer.
  void addOwn(int i, OperatorPrice &price) {
    for (const OwnCollective &own : model_.ownCollectives(*program_.operators[i].cls, chosen_.strategies[i])) {
      load_.add(ranges_.time(i), ranges_.time(i), bufferBytes(own));
      PricedCollective::Place place = own.operand >= 0     ? PricedCollective::Operand
                                      : own.statistic >= 0 ? PricedCollective::Statistic
                                                           : PricedCollective::Result;
      add(own.collective, own.elementBytes, place, std::max({own.operand, own.statistic, own.result}),
          price.collectives);
    }
  }

  llvm::Error addOutputs() {
    for (OpOperand &use : program_.returnOp()->getOpOperands()) {
      Value v = use.get();
      unsigned r = use.getOperandNumber();
      const Sharding &wanted = chosen_.results[r];
      if (!dist::canReshard(model_.mesh(), handed_[v], wanted))
        return fail("result '" + graph::resultName(func_, r) + "' is expected " +
                    dist::notOwed(model_.mesh(), handed_[v], wanted));
      // An update is written where it lies as soon as it is made.
      bool update = ranges_.updatedBy(r) && program_.producer(v) >= 0;
      addReshard(v, wanted, update ? ranges_.made(v) : ranges_.end(), PricedCollective::Output, int(r), cost_.outputs);
    }
    return llvm::Error::success();
  }

  llvm::Error fail(const llvm::Twine &what) {
    return llvm::createStringError("function '" + func_.getName() + "': " + what);
  }

  const ChosenProgram &chosen_;
  const Program &program_;
  func::FuncOp func_;
  const CostModel &model_;
  const LiveRanges ranges_;
  dist::ReshardedValues resharded_;
  llvm::DenseMap<Value, Sharding> handed_;            // looked up only
  llvm::DenseMap<Value, bool> staysInLoop_;           // looked up only
  std::vector<std::pair<LiveRange, int64_t>> copies_; // of resharded values: when, bytes
  graph::MemoryLoad load_;
  ProgramCost cost_;
};

} // namespace

int64_t bufferBytes(const OwnCollective &own) {
  return own.elementBytes * numElements(own.result < 0 ? own.collective.localOut : own.collective.localIn);
}

llvm::Expected<ProgramCost> priceProgram(const ChosenProgram &chosen, const CostModel &model) {
  return Pricing(chosen, model).run();
}

} // namespace tessera::strategies
