#include "strategies/graph/GroupOptions.h"

#include "dialects/dist/ReshardedValues.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphKinds.h"
#include "strategies/cost/ProgramCost.h"
#include "strategies/space/Enumerate.h"
#include "strategies/space/InParallel.h"
#include "strategies/space/Units.h"

#include <set>

using namespace mlir;

namespace tessera::strategies {

OptionBuilder::OptionBuilder(const FunctionAssignment &function, const FollowGroups &groups, const LoopShares &shares,
                             const CostModel &model, const BatchDependence &batch, const FixedStrategies *fixed,
                             KnownOptions *known, bool least)
    : function_(function), program_(function.program), groups_(groups), shares_(shares), model_(model), batch_(batch),
      fixed_(fixed), known_(known ? *known : own_), least_(least) {}

std::vector<Strategy> OptionBuilder::headStrategies(int op) const {
  const OperatorClass &cls = *program_.operators[op].cls;
  if (!isFixed(op))
    return enumerateStrategies(cls, model_.mesh());
  const Strategy &said = fixed_->strategies[op];
  Strategy natural = said;
  natural.results.clear();
  Strategy reduced = natural;
  reduceNow(model_.mesh(), cls.rule, reduced);
  // How a sum is handed on stays open unless the user said so.
  return said == reduced ? resultVariants(cls, model_.mesh(), natural) : std::vector<Strategy>{said};
}

/// How often one of the operator's own collectives runs in a step.
int64_t OptionBuilder::timesOf(int op, const OwnCollective &own) const {
  const OperatorInfo &info = program_.operators[size_t(op)];
  return own.operand >= 0  ? program_.times(info.op->getOperand(unsigned(own.operand)))
         : own.result >= 0 ? program_.times(info.op->getResult(unsigned(own.result)))
                           : info.times;
}

/// What of an operator and its results grows with the batch: the operator first.
static std::vector<int64_t> growth(const OperatorInfo &info, int op, const BatchDependence &batch) {
  std::vector<int64_t> grows = {batch.operators[size_t(op)]};
  for (Value v : info.op->getResults())
    grows.push_back(batch.values.contains(v));
  return grows;
}

/// The heads that `op` can be; null until they are priced. Equal operators that run as often, and of which as much
/// grows, have the same.
GroupHeads &OptionBuilder::heads(int op) {
  const OperatorInfo &info = program_.operators[op];
  if (isFixed(op))
    return byOp_[op];
  std::vector<int64_t> runs = growth(info, op, batch_);
  runs.push_back(info.times);
  for (ValueRange values : {ValueRange(info.op->getOperands()), ValueRange(info.op->getResults())})
    for (Value v : values)
      runs.push_back(program_.times(v));
  if (groups_.released[size_t(op)]) {
    runs.push_back(-1);
    shares_.appendKey(op, runs);
  }
  return known_.heads(*info.cls, runs);
}

std::vector<GroupHead> OptionBuilder::priceHeads(int op, const CostModel &model) const {
  const OperatorInfo &info = program_.operators[op];
  const OperatorClass &cls = *info.cls;
  const std::vector<int64_t> grows = growth(info, op, batch_);
  struct Price : MemberCosts {
    int64_t transient = 0;
  };
  auto add = [&](Price &price, const OwnCollective &own) {
    const Cost cost = repeated(model.collective(own.collective, own.elementBytes), timesOf(op, own));
    if (!cls.addsUp) // a sum is reduced later
      price.transient += bufferBytes(own);
    price.cost += cost;
    price.least += repeated(model.leastCollective(own.collective, own.elementBytes), timesOf(op, own));
    if (grows[size_t(own.result) + 1])
      price.growing += cost;
  };
  std::vector<GroupHead> made;
  std::map<std::vector<Sharding>, int> natural, handed; // numbers of what is computed and of what is handed on
  std::map<std::pair<int, int>, Price> reshards;        // from the one to the other
  // What heads have in common that differ only in how they reduce their results: they stand side by side.
  Price price;
  int computed = -1;
  std::vector<Strategy> strategies = headStrategies(op);
  made.reserve(strategies.size());
  for (Strategy &strategy : strategies) {
    const Strategy *before = made.empty() ? nullptr : &made.back().strategy;
    GroupHead head;
    head.taken = before ? made.back().taken : 0;
    std::vector<Sharding> results;
    if (!before || before->factors != strategy.factors || before->linear != strategy.linear ||
        before->partial != strategy.partial) {
      head.taken += before != nullptr;
      Strategy alone = strategy;
      alone.results.clear();
      price = Price();
      const Cost once = groups_.released[size_t(op)] ? shares_.compute(model, op, alone, [](Value) { return false; })
                                                     : model.compute(cls, alone);
      price.cost = price.compute = repeated(once, info.times);
      if (grows[0])
        price.growing = repeated(std::max<Cost>(0, once - model.launch()), info.times);
      for (const OwnCollective &own : model.ownCollectives(cls, alone))
        add(price, own);
      for (size_t r = 0; r < cls.rule.results.size(); ++r)
        results.push_back(dist::naturalResult(model.mesh(), cls.rule, alone, int(r)));
      computed = natural.try_emplace(results, int(natural.size())).first->second;
    }
    results.clear();
    for (size_t r = 0; r < cls.rule.results.size(); ++r)
      results.push_back(dist::resultSharding(model.mesh(), cls.rule, strategy, int(r)));
    head.handed = handed.try_emplace(std::move(results), int(handed.size())).first->second;
    static_cast<MemberCosts &>(head) = price;
    head.transient = price.transient;
    if (!strategy.results.empty()) {
      auto [it, fresh] = reshards.try_emplace({computed, head.handed});
      if (fresh)
        for (const OwnCollective &own : model.ownCollectives(cls, strategy))
          if (own.result >= 0)
            add(it->second, own);
      head.cost += it->second.cost;
      head.least += it->second.least;
      head.growing += it->second.growing;
      head.transient += it->second.transient;
    }
    head.strategy = std::move(strategy);
    made.push_back(std::move(head));
  }
  return made;
}

Strategy OptionBuilder::followerStrategy(int op, int followed, llvm::ArrayRef<const Sharding *> known) const {
  const OperatorClass &cls = *program_.operators[size_t(op)].cls;
  llvm::SmallVector<int> order = {followed};
  for (size_t o = 0; o < known.size(); ++o)
    if (known[o] && int(o) != followed)
      order.push_back(int(o));
  llvm::SmallVector<const Sharding *> none(cls.resultShapes.size(), nullptr);
  Strategy strategy = strategyFrom(cls, model_.mesh(), known, none, order);
  keepLeafOrder(cls.rule, strategy);
  // A partial sum passes through if exactly the operands that are partial are linear together.
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
  // A sum that is read by a sum is reduced there, or by what that hands it on to.
  if (!groups_.readBySum[size_t(op)] ||
      dist::naturalResult(model_.mesh(), cls.rule, strategy, 0).reduction != dist::Reduction::Sum)
    reduceNow(model_.mesh(), cls.rule, strategy);
  return strategy;
}

/// The tail of an option on its way: the members one after the other, with the shardings that are handed on.
class OptionBuilder::Derivation {
public:
  /// `handed`: the argument at the head, or the results of the operator there. Copies that are kept are not cut over
  /// the axes `gathered`.
  Derivation(const OptionBuilder &builder, const CostModel &model, int group, llvm::ArrayRef<Sharding> handed,
             llvm::ArrayRef<int> gathered)
      : builder_(builder), program_(builder.program_), model_(model), batch_(builder.batch_),
        group_(builder.groups_.list[group]), gathered_(gathered), resharded_(model.mesh()) {
    func::FuncOp func = program_.func;
    tail_.handed.assign(handed.begin(), handed.end());
    if (group_.arg >= 0)
      handed_[func.getArgument(unsigned(group_.arg))] = handed.front();
    else
      for (auto [v, sharding] : llvm::zip_equal(program_.operators[group_.ops.front()].op->getResults(), handed))
        handed_[v] = sharding;
  }

  GroupTail run() {
    const size_t first = group_.arg >= 0 ? 0 : 1;
    tail_.strategies.reserve(group_.ops.size() - first); // of thousands of tails: no room stays unused
    tail_.transient.reserve(group_.ops.size() - first);
    for (size_t m = first; m < group_.ops.size(); ++m)
      add(group_.ops[m], following(m));
    payResults();
    return std::move(tail_);
  }

private:
  Strategy following(size_t member) const {
    const OperatorInfo &info = program_.operators[group_.ops[member]];
    llvm::SmallVector<const Sharding *> known;
    for (Value v : info.op->getOperands()) {
      auto it = handed_.find(v);
      known.push_back(it == handed_.end() ? nullptr : &it->second);
    }
    Strategy strategy = builder_.followerStrategy(group_.ops[member], group_.follow[member], known);
    if (info.mayKeepCopy && strategy.results.empty())
      keepCopy(*info.cls, strategy);
    return strategy;
  }

  /// Hands the result on in a sharding that is not cut over gathered_.
  void keepCopy(const OperatorClass &cls, Strategy &strategy) const {
    const Sharding natural = dist::naturalResult(model_.mesh(), cls.rule, strategy, 0);
    Sharding copy = natural;
    for (auto [d, cut] : llvm::enumerate(copy.dims)) {
      llvm::erase_if(cut, [&](int axis) { return llvm::is_contained(gathered_, axis); });
      cut = cut.canonical(model_.mesh(), cls.resultShapes.front()[d]);
    }
    if (!dist::sameSharding(model_.mesh(), natural, copy))
      strategy.results.push_back(std::move(copy));
  }

  /// `grows`: with the batch.
  void pay(Cost cost, bool grows) {
    tail_.cost += cost;
    if (grows)
      tail_.growing += cost;
  }

  /// Returns whether the reader takes a copy.
  bool payReshard(Value v, const Sharding &to) {
    const Sharding &from = handed_[v];
    const dist::ReshardedValues::Want want = resharded_.want(v.getAsOpaquePointer(), from, to);
    if (!want.first)
      return want.needed;
    const dist::Wire wire = graph::sentAs(v);
    pay(repeated(model_.reshard(shapeOf(v), elementBytes(v.getType()), from, to, wire), program_.times(v)),
        batch_.values.contains(v));
    if (builder_.least_)
      tail_.least +=
          repeated(model_.leastReshard(shapeOf(v), elementBytes(v.getType()), from, to, wire), program_.times(v));
    copies_ += model_.localBytes(shapeOf(v), elementBytes(v.getType()), to);
    const int producer = program_.producer(v);
    if (producer < 0)
      tail_.copies.push_back({-1, 0, to});
    else
      tail_.copies.push_back({int(llvm::lower_bound(group_.ops, producer) - group_.ops.begin()),
                              int(cast<OpResult>(v).getResultNumber()), to});
    return true;
  }

  void add(int op, Strategy strategy) {
    const OperatorInfo &info = program_.operators[op];
    const OperatorClass &cls = *info.cls;
    copies_ = 0;
    llvm::SmallVector<Value> moved;
    for (auto [o, v] : llvm::enumerate(info.op->getOperands()))
      if (handed_.contains(v) && payReshard(v, dist::operandSharding(model_.mesh(), cls.rule, strategy, int(o))))
        moved.push_back(v);
    for (auto [r, v] : llvm::enumerate(info.op->getResults()))
      handed_[v] = dist::resultSharding(model_.mesh(), cls.rule, strategy, int(r));
    const Cost compute =
        builder_.shares_.compute(model_, op, strategy, [&](Value v) { return llvm::is_contained(moved, v); });
    tail_.compute += repeated(compute, info.times);
    tail_.cost += repeated(compute, info.times);
    if (batch_.operators[op])
      tail_.growing += repeated(std::max<Cost>(0, compute - model_.launch()), info.times);
    for (const OwnCollective &own : model_.ownCollectives(cls, strategy)) {
      copies_ += bufferBytes(own);
      tail_.least += repeated(model_.leastCollective(own.collective, own.elementBytes), builder_.timesOf(op, own));
      pay(repeated(model_.collective(own.collective, own.elementBytes), builder_.timesOf(op, own)),
          own.result < 0 ? batch_.operators[op] : batch_.values.contains(info.op->getResult(unsigned(own.result))));
    }
    tail_.strategies.push_back(std::move(strategy));
    tail_.transient.push_back(copies_);
  }

  /// Results of the function: an update returns to its argument, the rest is reduced.
  void payResults() {
    for (OpOperand &use : program_.returnOp()->getOpOperands()) {
      auto it = handed_.find(use.get());
      if (it == handed_.end())
        continue;
      auto update = builder_.function_.updates.find(use.getOperandNumber());
      if (update == builder_.function_.updates.end())
        payReshard(use.get(), it->second.withoutPartial());
      else if (int(update->second) == group_.arg)
        payReshard(use.get(), tail_.handed.front());
    }
  }

  const OptionBuilder &builder_;
  const Program &program_;
  const CostModel &model_;
  const BatchDependence &batch_;
  const FollowGroup &group_;
  const llvm::ArrayRef<int> gathered_;
  dist::ReshardedValues resharded_;
  llvm::DenseMap<Value, Sharding> handed_; // by values of the group, as handed on
  int64_t copies_ = 0;                     // bytes of reshards around the present operator
  GroupTail tail_;
};

std::vector<int64_t> OptionBuilder::key(int c) const {
  const FollowGroup &group = groups_.list[c];
  std::vector<int64_t> key = {least_};
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
    for (const auto &units : argumentUnits(program_, model_.mesh(), v)) {
      key.push_back(int64_t(units.size()));
      key.insert(key.end(), units.begin(), units.end());
    }
    key.push_back(batch_.values.contains(v));
    key.push_back(program_.times(v));
    returned(v);
  }
  for (size_t m = 0; m < group.ops.size(); ++m) {
    const OperatorInfo &info = program_.operators[group.ops[m]];
    key.push_back(-2);
    key.push_back(known_.number(*info.cls));
    key.push_back(group.follow[m]);
    key.push_back(groups_.released[size_t(group.ops[m])]);
    key.push_back(batch_.operators[group.ops[m]]);
    key.push_back(groups_.readBySum[size_t(group.ops[m])]);
    key.push_back(info.times);
    key.push_back(info.mayKeepCopy);
    shares_.appendKey(group.ops[m], key);
    for (Value v : info.op->getOperands()) {
      key.push_back(program_.times(v));
      auto it = number.find(v);
      key.push_back(it != number.end() ? it->second : groups_.of(program_, v) < 0 ? -4 : -3);
    }
    for (Value v : info.op->getResults()) {
      number[v] = int64_t(number.size()) + 1;
      key.push_back(batch_.values.contains(v));
      key.push_back(program_.times(v));
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

/// Whether the strategy takes an operand as partial that a source makes. A source makes values as its users want them,
/// and no node of the graph stands for it. But what it makes is never partial.
bool OptionBuilder::takesSourcePartial(int op, const Strategy &strategy) const {
  const OperatorInfo &info = program_.operators[op];
  for (auto [o, v] : llvm::enumerate(info.op->getOperands()))
    if (groups_.of(program_, v) < 0 &&
        dist::operandSharding(model_.mesh(), info.cls->rule, strategy, int(o)).isPartial())
      return true;
  return false;
}

/// Over which axes the copies that a group may keep are gathered: every set of those that cut what is handed on. Over
/// none in a group that keeps no copies.
std::vector<AxisList> OptionBuilder::gathers(const FollowGroup &group, llvm::ArrayRef<Sharding> handed) const {
  std::vector<AxisList> sets = {{}};
  if (llvm::none_of(group.ops, [&](int op) { return program_.operators[size_t(op)].mayKeepCopy; }))
    return sets;
  for (int axis = 0; axis < model_.mesh().numAxes(); ++axis) {
    const bool cuts = llvm::any_of(handed, [&](const Sharding &s) {
      return llvm::any_of(s.dims, [&](const Cut &cut) { return llvm::is_contained(cut, axis); });
    });
    for (size_t s = 0, known = sets.size(); s < known && cuts && model_.mesh().axisSize(axis) > 1; ++s) {
      sets.push_back(sets[s]);
      sets.back().push_back(axis);
    }
  }
  return sets;
}

/// Not empty. `heads`: of a group with an operator at its head.
GroupOptions OptionBuilder::optionsOf(int c, const Sharding *pinned, GroupHeads heads, const CostModel &model) const {
  const FollowGroup &group = groups_.list[c];
  GroupOptions made;
  auto tails = std::make_shared<std::deque<GroupTail>>(); // options refer to them
  auto addTails = [&](llvm::ArrayRef<Sharding> handed) {
    llvm::SmallVector<const GroupTail *, 1> added;
    for (const AxisList &gathered : gathers(group, handed)) {
      const int id = int(tails->size());
      GroupTail &tail = tails->emplace_back(Derivation(*this, model, c, handed, gathered).run());
      tail.id = id;
      added.push_back(&tail);
    }
    return added;
  };
  if (group.arg >= 0) {
    func::FuncOp func = program_.func;
    Shape shape = shapeOf(func.getArgument(unsigned(group.arg)));
    for (const Sharding &s :
         pinned ? std::vector<Sharding>{*pinned}
                : enumerateShardings(shape, model.mesh(), paddable(group.arg),
                                     argumentUnits(program_, model.mesh(), func.getArgument(unsigned(group.arg)))))
      for (const GroupTail *tail : addTails(s))
        made.push_back({nullptr, tail});
  } else {
    const int op = group.ops.front();
    const ShardingRule &rule = program_.operators[op].cls->rule;
    made.heads = std::move(heads);
    std::map<int, llvm::SmallVector<const GroupTail *, 1>> tailsOf; // by what is handed on
    for (const GroupHead &head : *made.heads) {
      if (!isFixed(op) && takesSourcePartial(op, head.strategy))
        continue;
      auto [it, fresh] = tailsOf.try_emplace(head.handed);
      if (fresh) {
        llvm::SmallVector<Sharding> handed;
        for (size_t r = 0; r < rule.results.size(); ++r)
          handed.push_back(dist::resultSharding(model.mesh(), rule, head.strategy, int(r)));
        it->second = addTails(handed);
      }
      for (const GroupTail *tail : it->second)
        made.push_back({&head, tail});
    }
  }
  made.tails = std::move(tails);
  return made;
}

std::vector<std::shared_ptr<const GroupOptions>> OptionBuilder::options(llvm::ArrayRef<const Sharding *> pinned,
                                                                        int threads) {
  const std::vector<const CostModel *> models = model_.perThread(threads);
  using Place = std::shared_ptr<const GroupOptions>;
  struct Unmade {
    int group;
    GroupHeads *heads; // null: an argument is at the head
    Place *place;
  };
  KnownOptions::Options here; // of this function alone
  KnownOptions::Options &places = known_.options() ? *known_.options() : here;
  std::deque<Place> own;    // of groups that no other one equals
  std::vector<Place *> all; // by group; equal ones have one
  std::vector<Unmade> unmade;
  std::vector<std::pair<int, GroupHeads *>> unpriced; // operators and their heads
  std::set<const void *> seen;
  for (int c = 0; c < int(groups_.list.size()); ++c) {
    const FollowGroup &group = groups_.list[c];
    const int head = group.arg < 0 ? group.ops.front() : -1;
    Place &place = !pinned[c] && (head < 0 || !isFixed(head)) ? places[key(c)] : own.emplace_back();
    all.push_back(&place);
    if (place || !seen.insert(&place).second)
      continue;
    unmade.push_back({c, head < 0 ? nullptr : &heads(head), &place});
    if (GroupHeads *known = unmade.back().heads; known && !*known && seen.insert(known).second)
      unpriced.push_back({head, known});
  }
  inParallel(threads, unpriced.size(), [&](size_t i, size_t thread) {
    auto [op, known] = unpriced[i];
    *known = std::make_shared<const std::vector<GroupHead>>(priceHeads(op, *models[thread]));
  });
  inParallel(threads, unmade.size(), [&](size_t i, size_t thread) {
    auto [group, heads, place] = unmade[i];
    *place = std::make_shared<const GroupOptions>(
        optionsOf(group, pinned[group], heads ? *heads : nullptr, *models[thread]));
  });
  std::vector<Place> list;
  for (const Place *place : all)
    list.push_back(*place);
  return list;
}

} // namespace tessera::strategies
