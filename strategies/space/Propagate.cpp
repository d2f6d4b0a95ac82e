#include "strategies/space/Propagate.h"

#include "dialects/dist/leaves/LeafRule.h"

#include <algorithm>
#include <numeric>

using namespace mlir;

namespace tessera::strategies {

/// Whether every rank's part of every dimension that has the factor is one block. That is so if, in all tensors, a
/// minor factor is cut only where the major ones beside it are cut completely.
static bool isContiguous(const ShardingRule &rule, const Mesh &mesh, const Strategy &strategy, int factor) {
  for (const auto *tensors : {&rule.operands, &rule.results})
    for (const ShardingRule::TensorFactors &tensor : *tensors)
      for (const auto &dim : tensor) {
        if (dim.size() < 2 || !llvm::is_contained(dim, factor))
          continue;
        bool open = false; // a factor so far is not cut completely
        for (int f : dim) {
          int64_t shards = mesh.size(strategy.factors[f]);
          if (open && shards > 1)
            return false;
          open |= shards != rule.factors[f].size;
        }
      }
  return true;
}

bool assignDim(const OperatorClass &cls, const Mesh &mesh, llvm::ArrayRef<int> factors, const Cut &known,
               int64_t extent, Strategy &strategy) {
  auto used = [&](int axis) {
    return llvm::any_of(strategy.factors, [&](const Cut &cut) { return llvm::is_contained(cut, axis); });
  };
  size_t at = 0;
  for (auto [n, axis] : llvm::enumerate(known)) {
    if (mesh.axisSize(axis) == 1)
      continue;
    if (used(axis))
      return false;
    // A minor factor may be cut only where the major ones are cut completely, so that blocks stay contiguous.
    while (at < factors.size() && mesh.size(strategy.factors[factors[at]]) == cls.rule.factors[factors[at]].size)
      ++at;
    if (at == factors.size())
      return false;
    const int factor = factors[at];
    const int64_t size = cls.rule.factors[factor].size, unit = known.first(n + 1, mesh, extent).unit;
    Cut &own = strategy.factors[factor];
    const Cut before = own;
    // The dimension must get the very blocks that it is known to have.
    auto fits = [&, axis = axis](int64_t ownUnit) {
      own = before;
      own.push_back(axis);
      own.unit = ownUnit;
      if (size % ownUnit != 0)
        return false;
      own = own.canonical(mesh, size);
      return dist::canShard(cls.rule, factor, mesh.size(own), cls.operandShapes, cls.resultShapes, own.unit) &&
             isContiguous(cls.rule, mesh, strategy, factor) &&
             dist::dimensionCut(mesh, cls.rule, strategy, factors).unit == unit;
    };
    int64_t inner = 1;
    for (int minor : factors.drop_front(at + 1))
      inner *= cls.rule.factors[minor].size;
    if (!fits(1) && !(known.unit > inner && known.unit % inner == 0 && fits(known.unit / inner))) {
      own = before;
      return false;
    }
  }
  return true;
}

void keepLeafOrder(const ShardingRule &rule, Strategy &strategy) {
  if (llvm::none_of(strategy.factors, [](const Cut &cut) { return cut.size() > 1; }))
    return;
  const int factor = dist::leafFactor(rule);
  if (factor < 0)
    return;
  Cut &cut = strategy.factors[factor];
  cut.truncate(size_t(std::is_sorted_until(cut.begin(), cut.end()) - cut.begin()));
}

Strategy strategyFrom(const OperatorClass &cls, const Mesh &mesh, llvm::ArrayRef<const Sharding *> operands,
                      llvm::ArrayRef<const Sharding *> results, llvm::ArrayRef<int> order) {
  const ShardingRule &rule = cls.rule;
  Strategy strategy;
  strategy.factors.resize(rule.factors.size());
  llvm::SmallVector<int> all(operands.size() + results.size());
  std::iota(all.begin(), all.end(), 0);
  for (int t : order.empty() ? llvm::ArrayRef<int>(all) : order) {
    bool isOperand = size_t(t) < operands.size();
    int i = isOperand ? t : t - int(operands.size());
    const Sharding *known = isOperand ? operands[i] : results[i];
    if (!known)
      continue;
    const ShardingRule::TensorFactors &tensor = isOperand ? rule.operands[i] : rule.results[i];
    for (size_t d = 0; d < tensor.size() && d < known->dims.size(); ++d) {
      // A factor that an earlier tensor has cut stays as it is.
      bool taken = llvm::any_of(tensor[d], [&](int f) { return !strategy.factors[f].empty(); });
      if (!taken)
        assignDim(cls, mesh, tensor[d], known->dims[d], isOperand ? cls.operandShapes[i][d] : cls.resultShapes[i][d],
                  strategy);
    }
  }
  return strategy;
}

void reduceNow(const Mesh &mesh, const ShardingRule &rule, Strategy &strategy) {
  bool partial = false;
  llvm::SmallVector<Sharding> results;
  for (size_t i = 0; i < rule.results.size(); ++i) {
    Sharding natural = dist::naturalResult(mesh, rule, strategy, int(i));
    partial |= natural.isPartial();
    results.push_back(natural.withoutPartial());
  }
  if (partial)
    strategy.results = std::move(results);
}

int64_t workShards(const Mesh &mesh, const Strategy &strategy) {
  int64_t n = 1;
  for (const Cut &cut : strategy.factors)
    n *= mesh.size(cut);
  return n;
}

const Sharding &Assignment::of(Value value) const {
  auto it = values.find(value);
  assert(it != values.end() && "every value has a sharding by now");
  return it->second;
}

namespace {

bool isCut(const Sharding &sharding) {
  return llvm::any_of(sharding.dims, [](const Cut &cut) { return !cut.empty(); });
}

bool isUncut(const Strategy &strategy) {
  return llvm::all_of(strategy.factors, [](const Cut &cut) { return cut.empty(); });
}

void setStrategyOf(const Program &program, const Mesh &mesh, int i, Strategy strategy, Assignment &assignment) {
  const OperatorInfo &info = program.operators[i];
  for (unsigned r = 0; r < info.op->getNumResults(); ++r)
    assignment.values[info.op->getResult(r)] = dist::resultSharding(mesh, info.cls->rule, strategy, int(r));
  assignment.strategies[i] = std::move(strategy);
}

/// Operands may be sums that were reduced where they arose, only to be added up here, or to be added up here over all
/// micro-batches. The operator then takes them partial and reduces once. So the gradients of several micro-batches, or
/// of several uses of a parameter, are reduced together. An operator whose result is the sum that may be sent in fewer
/// bits takes them so, too.
void reduceOnce(const Program &program, const Mesh &mesh, int i, const llvm::DenseSet<int> &inside, Strategy &strategy,
                Assignment &assignment) {
  const OperatorInfo &info = program.operators[i];
  for (auto [g, group] : llvm::enumerate(info.cls->rule.linear)) {
    AxisList partial;
    bool all = group.size() > 1 || info.cls->addsUp || info.cls->resultWires.front();
    for (int operand : group) {
      Value value = info.op->getOperand(unsigned(operand));
      int producer = program.producer(value);
      if (!all || producer < 0 || !inside.contains(producer) || !value.hasOneUse() ||
          value.getDefiningOp()->getNumResults() != 1 ||
          info.cls->operandShapes[operand] != info.cls->resultShapes[0]) {
        all = false;
        break;
      }
      const Strategy &made = assignment.strategies[producer];
      Sharding natural = dist::naturalResult(mesh, program.operators[producer].cls->rule, made, 0);
      Sharding needs = dist::operandSharding(mesh, info.cls->rule, strategy, operand);
      if (partial.empty())
        partial = natural.partial;
      all = natural.reduction == dist::Reduction::Sum && natural.partial == partial && natural.dims == needs.dims &&
            assignment.of(value) == natural.withoutPartial();
    }
    if (!all)
      continue;
    for (int operand : group) {
      Value value = info.op->getOperand(unsigned(operand));
      Strategy &made = assignment.strategies[program.producer(value)];
      made.results.clear();
      assignment.values[value] =
          dist::naturalResult(mesh, program.operators[program.producer(value)].cls->rule, made, 0);
    }
    strategy.linear = int(g);
    strategy.partial = partial;
    return;
  }
}

void forward(const Program &program, const Mesh &mesh, int i, const llvm::DenseSet<int> &inside,
             const std::function<const Sharding *(Value)> &known, Assignment &assignment) {
  const OperatorInfo &info = program.operators[i];
  llvm::SmallVector<const Sharding *> operands, results(info.op->getNumResults(), nullptr);
  for (Value v : info.op->getOperands())
    operands.push_back(known(v));
  // The operand in most blocks decides first, and among equals the largest one. Small operands follow.
  llvm::SmallVector<int> order;
  for (size_t o = 0; o < operands.size(); ++o)
    if (operands[o])
      order.push_back(int(o));
  auto shards = [&](int o) {
    int64_t n = 1;
    for (const Cut &cut : operands[o]->dims)
      n *= mesh.size(cut);
    return n;
  };
  llvm::stable_sort(order, [&](int a, int b) {
    if (shards(a) != shards(b))
      return shards(a) > shards(b);
    return numElements(info.cls->operandShapes[a]) > numElements(info.cls->operandShapes[b]);
  });
  Strategy strategy;
  strategy.factors.resize(info.cls->rule.factors.size());
  if (!order.empty())
    strategy = strategyFrom(*info.cls, mesh, operands, results, order);
  reduceOnce(program, mesh, i, inside, strategy, assignment);
  reduceNow(mesh, info.cls->rule, strategy);
  setStrategyOf(program, mesh, i, std::move(strategy), assignment);
}

/// An operator that is computed whole on every rank may as well compute only the part that all of its users want.
/// Cutting its operands needs no communication.
void adopt(const Program &program, const Mesh &mesh, int i, const llvm::DenseSet<int> &inside, Assignment &assignment) {
  const OperatorInfo &info = program.operators[i];
  if (!isUncut(assignment.strategies[i]) || info.op->getNumResults() != 1)
    return;
  Value result = info.op->getResult(0);
  std::optional<Sharding> wanted;
  for (OpOperand &use : result.getUses()) {
    auto it = program.index.find(use.getOwner());
    if (it == program.index.end() || !inside.contains(it->second))
      return; // the value is returned, or read outside of `ops`: it stays whole
    Sharding needs = dist::operandSharding(mesh, program.operators[it->second].cls->rule,
                                           assignment.strategies[it->second], int(use.getOperandNumber()));
    if (wanted && !(*wanted == needs))
      return;
    wanted = std::move(needs);
  }
  if (!wanted || !isCut(*wanted))
    return;
  llvm::SmallVector<const Sharding *> none(info.op->getNumOperands(), nullptr);
  Strategy strategy = strategyFrom(*info.cls, mesh, none, {&*wanted});
  // An operand that is cut in another way would have to be gathered. Only whole operands are sliced.
  for (unsigned o = 0; o < info.op->getNumOperands(); ++o) {
    auto it = assignment.values.find(info.op->getOperand(o));
    if (it == assignment.values.end())
      return;
    Sharding needs = dist::operandSharding(mesh, info.cls->rule, strategy, int(o));
    if (!it->second.isReplicated() && !(it->second == needs))
      return;
  }
  setStrategyOf(program, mesh, i, std::move(strategy), assignment);
}

} // namespace

void propagate(const Program &program, const Mesh &mesh, llvm::ArrayRef<int> ops,
               const std::function<const Sharding *(Value)> &outside, Assignment &assignment, bool sliceKnown) {
  assignment.strategies.resize(program.operators.size());
  llvm::DenseSet<int> inside(ops.begin(), ops.end());
  auto isInside = [&](Value v) {
    int producer = program.producer(v);
    return producer >= 0 && inside.contains(producer);
  };
  auto known = [&](Value v) -> const Sharding * { return isInside(v) ? &assignment.of(v) : outside(v); };
  for (int i : ops)
    forward(program, mesh, i, inside, known, assignment);
  for (int i : llvm::reverse(ops)) {
    auto isFixed = [&](Value v) { return !isInside(v) && outside(v); };
    if (sliceKnown || llvm::none_of(program.operators[i].op->getOperands(), isFixed))
      adopt(program, mesh, i, inside, assignment);
  }
}

} // namespace tessera::strategies
