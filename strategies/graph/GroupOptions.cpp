#include "strategies/graph/GroupOptions.h"

#include "dialects/graph/Graph.h"
#include "strategies/space/Enumerate.h"

#include <set>

using namespace mlir;

namespace tessera::strategies {

OptionBuilder::OptionBuilder(const FunctionAssignment &function, const FollowGroups &groups, const CostModel &model,
                             const BatchDependence &batch, const FixedStrategies *fixed, size_t maxOptions)
    : function_(function), program_(function.program), groups_(groups), model_(model), batch_(batch), fixed_(fixed),
      maxOptions_(maxOptions) {}

/// Keeps the cheapest option for every way to hand on the results and for every way to take an operand,
/// so that whatever the neighbours do there is an option that meets them, then fills up by cost.
std::vector<Strategy> OptionBuilder::prune(const OperatorClass &cls, std::vector<Strategy> all) const {
  if (all.size() <= maxOptions_)
    return all;
  std::vector<std::pair<Cost, size_t>> order;
  Strategy natural; // of the last one; those that only differ in how results are handed on stand together
  Cost cost = 0;    // its
  for (size_t i = 0; i < all.size(); ++i) {
    const Strategy &s = all[i];
    if (i == 0 || s.factors != natural.factors || s.linear != natural.linear || s.partial != natural.partial) {
      natural = s;
      natural.results.clear();
      cost = model_.operatorCost(cls, natural).total();
    }
    Cost handing = 0;
    for (size_t r = 0; r < s.results.size(); ++r)
      handing += model_.reshard(cls.resultShapes[r], cls.resultBytes[r], dist::naturalResult(cls.rule, natural, int(r)),
                                s.results[r]);
    order.push_back({cost + handing, i});
  }
  llvm::sort(order);
  std::vector<bool> keep(all.size(), false);
  size_t kept = 0;
  auto take = [&](size_t i) {
    if (!keep[i] && kept < maxOptions_) {
      keep[i] = true;
      ++kept;
    }
  };
  take(0); // nothing cut
  std::set<std::pair<int, Sharding>> seen;
  for (int side = 0; side < 2; ++side)
    for (auto [cost, i] : order) {
      bool fresh = false;
      size_t count = side == 0 ? cls.rule.results.size() : cls.rule.operands.size();
      for (size_t t = 0; t < count; ++t)
        fresh |= seen.insert({side * 1000 + int(t), side == 0 ? dist::resultSharding(cls.rule, all[i], int(t))
                                                              : dist::operandSharding(cls.rule, all[i], int(t))})
                     .second;
      // Half of the room is left for combinations.
      if (fresh && kept < maxOptions_ * 3 / 4)
        take(i);
    }
  for (auto [cost, i] : order)
    take(i);
  std::vector<Strategy> result;
  for (size_t i = 0; i < all.size(); ++i)
    if (keep[i])
      result.push_back(std::move(all[i]));
  return result;
}

const std::vector<Strategy> &OptionBuilder::headStrategies(int op) {
  const OperatorClass &cls = *program_.operators[op].cls;
  if (fixed_ && fixed_->groupOf[op] >= 0) {
    auto [it, fresh] = byOp_.try_emplace(op);
    if (fresh) {
      const Strategy &said = fixed_->strategies[op];
      Strategy natural = said;
      natural.results.clear();
      Strategy reduced = natural;
      reduceNow(cls.rule, reduced);
      // How a sum is handed on stays open unless the user said so.
      it->second = said == reduced ? resultVariants(cls, model_.mesh(), natural) : std::vector<Strategy>{said};
    }
    return it->second;
  }
  auto [it, fresh] = byClass_.try_emplace(cls.id);
  if (fresh)
    it->second = prune(cls, enumerateStrategies(cls, model_.mesh()));
  return it->second;
}

bool OptionBuilder::isVirtual(int group, Value value) const {
  int producer = program_.producer(value);
  const FollowGroup &c = groups_.list[group];
  if (producer < 0)
    return false;
  bool isHead = c.arg < 0 && c.ops.front() == producer;
  if (isHead)
    return false;
  return llvm::all_of(value.getUsers(), [&](Operation *user) {
    auto it = program_.index.find(user);
    return it != program_.index.end() && groups_.ofOp[it->second] == group && program_.mayFuse(producer, it->second);
  });
}

Strategy OptionBuilder::followerStrategy(const OperatorInfo &info, int followed,
                                         llvm::ArrayRef<const Sharding *> known) const {
  const OperatorClass &cls = *info.cls;
  llvm::SmallVector<int> order = {followed};
  for (size_t o = 0; o < known.size(); ++o)
    if (known[o] && int(o) != followed)
      order.push_back(int(o));
  llvm::SmallVector<const Sharding *> none(cls.resultShapes.size(), nullptr);
  Strategy strategy = strategyFrom(cls, model_.mesh(), known, none, order);
  // What is owed passes through if exactly the operands that owe it are linear together.
  llvm::SmallVector<int, 2> owing;
  for (size_t o = 0; o < known.size(); ++o)
    if (known[o] && known[o]->isPartial())
      owing.push_back(int(o));
  if (!owing.empty()) {
    const Sharding &first = *known[owing[0]];
    bool alike = llvm::all_of(owing, [&](int o) {
      return known[o]->partial == first.partial && known[o]->reduction == dist::Reduction::Sum;
    });
    for (int g = 0; alike && g < int(cls.rule.linear.size()); ++g)
      if (cls.rule.linear[g] == owing) {
        strategy.linear = g;
        strategy.partial = first.partial;
        if (llvm::Error e =
                dist::verifyStrategy(cls.rule, strategy, model_.mesh(), cls.operandShapes, cls.resultShapes)) {
          llvm::consumeError(std::move(e));
          strategy.linear = -1;
          strategy.partial.clear();
          continue;
        }
        return strategy;
      }
  }
  reduceNow(cls.rule, strategy);
  return strategy;
}

GroupOption OptionBuilder::derive(const FollowGroup &group, const Sharding *arg, const Strategy *head) const {
  GroupOption option;
  int self = -1;
  std::map<int, int> position; // operator -> position in the group
  for (size_t m = 0; m < group.ops.size(); ++m)
    position[group.ops[m]] = int(m);
  if (arg)
    option.arg = *arg;
  // Shardings of the values of this group as handed on.
  llvm::DenseMap<Value, Sharding> handed;
  func::FuncOp func = program_.func;
  if (group.arg >= 0) {
    handed[func.getArgument(unsigned(group.arg))] = *arg;
    self = groups_.ofArg[group.arg];
  } else {
    self = groups_.ofOp[group.ops.front()];
  }
  std::map<const void *, std::vector<Sharding>> resharded; // value -> paid for already
  int64_t copies = 0;                                      // bytes of reshards, so far
  auto payReshard = [&](Value v, const Sharding &to) {
    const Sharding &from = handed[v];
    std::vector<Sharding> &done = resharded[v.getAsOpaquePointer()];
    if (from == to || llvm::is_contained(done, to))
      return;
    Cost cost = model_.reshard(shapeOf(v), elementBytes(v.getType()), from, to);
    option.cost += cost;
    if (batch_.values.contains(v))
      option.growing += cost;
    copies += model_.localBytes(shapeOf(v), elementBytes(v.getType()), to);
    done.push_back(to);
  };
  Operation *terminator = program_.returnOp();
  for (size_t m = 0; m < group.ops.size(); ++m) {
    const OperatorInfo &info = program_.operators[group.ops[m]];
    const OperatorClass &cls = *info.cls;
    bool isHead = group.follow[m] < 0;
    Strategy strategy;
    if (isHead) {
      strategy = *head;
    } else {
      llvm::SmallVector<const Sharding *> known;
      for (Value v : info.op->getOperands()) {
        auto it = handed.find(v);
        known.push_back(it == handed.end() ? nullptr : &it->second);
      }
      strategy = followerStrategy(info, group.follow[m], known);
    }
    double streamed = 0;
    bool writes = isHead;
    copies = 0;
    for (size_t o = 0; o < info.op->getNumOperands(); ++o) {
      Value v = info.op->getOperand(unsigned(o));
      Sharding needs = dist::operandSharding(cls.rule, strategy, int(o));
      if (handed.contains(v))
        payReshard(v, needs);
      if (isHead || !isVirtual(self, v))
        streamed += double(model_.localBytes(cls.operandShapes[o], cls.operandBytes[o], needs));
    }
    for (size_t r = 0; r < info.op->getNumResults(); ++r) {
      Value v = info.op->getResult(unsigned(r));
      if (isHead || !isVirtual(self, v)) {
        writes = true;
        streamed += double(model_.localBytes(cls.resultShapes[r], cls.resultBytes[r],
                                             dist::naturalResult(cls.rule, strategy, int(r))));
      }
      handed[v] = dist::resultSharding(cls.rule, strategy, int(r));
    }
    Cost compute = model_.compute(cls, strategy, streamed);
    Cost launch = Cost(model_.topology().launch * 1e9);
    compute = writes ? compute : std::max<Cost>(0, compute - launch);
    option.compute += compute;
    option.cost += compute;
    if (batch_.operators[group.ops[m]])
      option.growing += std::max<Cost>(0, compute - launch);
    for (const OwnCollective &own : model_.ownCollectives(cls, strategy)) {
      Cost cost = model_.collective(own.collective, own.elementBytes);
      option.cost += cost;
      // Between the kernel and what is handed on, or around what is handed over, lies another buffer.
      copies += own.elementBytes * numElements(own.result < 0 ? own.collective.localOut : own.collective.localIn);
      if (own.result < 0 ? batch_.operators[group.ops[m]]
                         : batch_.values.contains(info.op->getResult(unsigned(own.result))))
        option.growing += cost;
    }
    option.strategies.push_back(std::move(strategy));
    option.transient.push_back(copies);
  }
  // Results of the function: an update returns to its argument, the rest is paid.
  for (OpOperand &use : terminator->getOpOperands()) {
    auto it = handed.find(use.get());
    if (it == handed.end())
      continue;
    int updates = -1;
    if (auto it = function_.updates.find(use.getOperandNumber()); it != function_.updates.end())
      updates = int(it->second);
    if (updates < 0)
      payReshard(use.get(), it->second.withoutPartial());
    else if (updates == group.arg)
      payReshard(use.get(), option.arg);
  }
  return option;
}

std::vector<int64_t> OptionBuilder::key(int c) const {
  const FollowGroup &group = groups_.list[c];
  std::vector<int64_t> key;
  func::FuncOp func = program_.func;
  llvm::DenseMap<Value, int64_t> number;
  auto returned = [&](Value v) {
    // Which results, and whose update: costs differ by it.
    for (OpOperand &use : v.getUses())
      if (!program_.index.contains(use.getOwner())) {
        auto it = function_.updates.find(use.getOperandNumber());
        key.push_back(it == function_.updates.end() ? 1 : int(it->second) == group.arg ? 2 : 3);
      }
    key.push_back(0);
  };
  if (group.arg >= 0) {
    Value v = func.getArgument(unsigned(group.arg));
    number[v] = 0;
    key.push_back(-1);
    key.push_back(elementBytes(v.getType()));
    for (int64_t d : shapeOf(v))
      key.push_back(d);
    key.push_back(int64_t(paddable(group.arg)));
    key.push_back(batch_.values.contains(v));
    returned(v);
  }
  for (size_t m = 0; m < group.ops.size(); ++m) {
    const OperatorInfo &info = program_.operators[group.ops[m]];
    key.push_back(-2);
    key.push_back(info.cls->id);
    key.push_back(group.follow[m]);
    key.push_back(batch_.operators[group.ops[m]]);
    for (Value v : info.op->getOperands()) {
      auto it = number.find(v);
      key.push_back(it != number.end() ? it->second : groups_.of(program_, v) < 0 ? -4 : -3);
    }
    for (Value v : info.op->getResults()) {
      number[v] = int64_t(number.size()) + 1;
      key.push_back(isVirtual(c, v));
      key.push_back(batch_.values.contains(v));
      returned(v);
    }
  }
  return key;
}

/// The dimensions of an argument that one of its users would cut into padded blocks: cutting others so would
/// only make something to move.
uint64_t OptionBuilder::paddable(int arg) const {
  func::FuncOp func = program_.func;
  Value value = func.getArgument(unsigned(arg));
  uint64_t dims = 0;
  for (const ValueUse &use : program_.uses(value)) {
    const OperatorClass &cls = *program_.operators[use.op].cls;
    for (auto [d, factors] : llvm::enumerate(cls.rule.operands[use.operand]))
      for (int axis = 0; axis < model_.mesh().numAxes(); ++axis) {
        int64_t shards = model_.mesh().axisSize(axis);
        if (factors.size() == 1 && cls.rule.factors[factors[0]].size % shards != 0 &&
            dist::canShard(cls.rule, factors[0], shards, cls.operandShapes, cls.resultShapes))
          dims |= uint64_t(1) << d;
      }
  }
  return dims;
}

/// Does the strategy take an operand that a source makes as a sum still owed? A source makes values as its users want
/// them, and no node of the graph stands for it; but nobody owes on it.
bool OptionBuilder::owesOfSource(int op, const Strategy &strategy) const {
  const OperatorInfo &info = program_.operators[op];
  for (auto [o, v] : llvm::enumerate(info.op->getOperands()))
    if (groups_.of(program_, v) < 0 && dist::operandSharding(info.cls->rule, strategy, int(o)).isPartial())
      return true;
  return false;
}

std::shared_ptr<const GroupOptions> OptionBuilder::options(int c, const Sharding *pinned) {
  const FollowGroup &group = groups_.list[c];
  bool isFixed = fixed_ && group.arg < 0 && fixed_->groupOf[group.ops.front()] >= 0;
  bool shared = !isFixed && !pinned;
  std::vector<int64_t> k;
  if (shared) {
    k = key(c);
    auto it = byKey_.find(k);
    if (it != byKey_.end())
      return it->second;
  }
  auto made = std::make_shared<GroupOptions>();
  if (group.arg >= 0) {
    func::FuncOp func = program_.func;
    Shape shape = shapeOf(func.getArgument(unsigned(group.arg)));
    std::vector<Sharding> all = pinned ? std::vector<Sharding>{*pinned}
                                       : enumerateShardings(shape, model_.mesh(), paddable(group.arg), 4 * maxOptions_);
    for (const Sharding &s : all)
      made->push_back(derive(group, &s, nullptr));
  } else {
    for (const Strategy &s : headStrategies(group.ops.front()))
      if (isFixed || !owesOfSource(group.ops.front(), s))
        made->push_back(derive(group, nullptr, &s));
  }
  if (shared)
    byKey_.emplace(std::move(k), made);
  return made;
}

} // namespace tessera::strategies
