#include "strategies/graph/FollowGroups.h"

#include "dialects/graph/GraphAttributes.h"
#include "dialects/graph/GraphKinds.h"

#include <set>
#include <tuple>

using namespace mlir;

namespace tessera::strategies {

namespace {

/// An operator may follow an operand that has at least this many times its results' elements, although it reduces. The
/// collective is then too small for a choice of its own.
constexpr int64_t kSmallReduction = 16;

bool mayFollow(const OperatorClass &cls, size_t operand) {
  const ShardingRule &rule = cls.rule;
  llvm::SmallVector<bool> has(rule.factors.size(), false);
  for (const auto &dim : rule.operands[operand])
    for (int f : dim)
      has[f] = true;
  bool reduces = false;
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    if (rule.factors[f].size == 1)
      continue;
    if (!has[f])
      return false;
    reduces |= rule.factors[f].kind == dist::FactorKind::Reduce;
  }
  if (!reduces)
    return true;
  int64_t results = 0;
  for (const Shape &shape : cls.resultShapes)
    results += numElements(shape);
  return results * kSmallReduction <= numElements(cls.operandShapes[operand]);
}

/// By operator, whether its results may be partial sums: it sums itself, or it is linear in operands that may be
/// partial.
std::vector<bool> findPartial(const Program &program) {
  std::vector<bool> mayBePartial(program.operators.size(), false);
  for (auto [i, info] : llvm::enumerate(program.operators)) {
    const ShardingRule &rule = info.cls->rule;
    auto isPartial = [&, op = info.op](int operand) {
      const int producer = program.producer(op->getOperand(unsigned(operand)));
      return producer >= 0 && mayBePartial[size_t(producer)];
    };
    mayBePartial[i] =
        llvm::any_of(rule.factors,
                     [](const dist::Factor &f) { return f.size > 1 && f.reduction == dist::Reduction::Sum; }) ||
        llvm::any_of(rule.linear, [&](const auto &operands) { return llvm::all_of(operands, isPartial); });
  }
  return mayBePartial;
}

/// Whether the operator adds up over micro-batches, or is linear in several operands together, each of another group,
/// that may be partial.
bool addsSums(const Program &program, const FollowGroups &groups, int op, const std::vector<bool> &mayBePartial) {
  const OperatorInfo &info = program.operators[op];
  return llvm::any_of(info.cls->rule.linear, [&](const auto &operands) {
    llvm::SmallVector<int> seen;
    for (int operand : operands) {
      Value value = info.op->getOperand(unsigned(operand));
      const int group = groups.of(program, value), producer = program.producer(value);
      if (group < 0 || producer < 0 || !mayBePartial[size_t(producer)] || llvm::is_contained(seen, group))
        return false;
      seen.push_back(group);
    }
    return seen.size() > 1 || info.cls->addsUp;
  });
}

/// Fills groups.readBySum, from the last operator to the first, since readers come later.
void findReadBySums(const Program &program, const std::vector<bool> &isSum, FollowGroups &groups) {
  groups.readBySum.assign(program.operators.size(), false);
  for (size_t i = program.operators.size(); i-- > 0;) {
    Operation *op = program.operators[i].op;
    if (op->getNumResults() != 1 || !op->getResult(0).hasOneUse())
      continue;
    OpOperand &use = *op->getResult(0).getUses().begin();
    auto reader = program.index.find(use.getOwner());
    if (reader == program.index.end())
      continue;
    const int operand = int(use.getOperandNumber());
    groups.readBySum[i] =
        llvm::any_of(program.operators[reader->second].cls->rule.linear, [&, r = reader->second](const auto &operands) {
          return llvm::is_contained(operands, operand) &&
                 (isSum[size_t(r)] || (operands.size() == 1 && groups.readBySum[size_t(r)]));
        });
  }
}

} // namespace

bool isSource(const OperatorClass &cls) {
  return llvm::all_of(cls.operandShapes, [](const Shape &s) { return numElements(s) == 1; });
}

int FollowGroups::of(const Program &program, Value value) const {
  if (auto arg = dyn_cast<BlockArgument>(value))
    return ofArg[arg.getArgNumber()];
  return ofOp[program.producer(value)];
}

namespace {

/// What an operator does that follows in a group that is not split.
enum class InSplit { Heads, MayHead, Follows };

/// `whole`: the groups that are split, and `split` says where, by operator. Null: no group is split.
FollowGroups form(const FunctionAssignment &function, const BatchDependence &batch, llvm::ArrayRef<bool> isFixed,
                  const FollowGroups *whole, const std::vector<InSplit> &split) {
  const Program &program = function.program;
  const std::vector<bool> mayBePartial = findPartial(program);
  std::vector<bool> isSum(program.operators.size(), false);
  FollowGroups groups;
  groups.ofOp.assign(program.operators.size(), -1);
  for (unsigned a = 0; a < function.args.size(); ++a) {
    groups.ofArg.push_back(int(groups.list.size()));
    groups.list.push_back({int(a), {}, {}});
  }
  // The place of a head in program order: arguments come before all operators.
  auto headTime = [&](int c) {
    const FollowGroup &group = groups.list[c];
    return group.arg >= 0 ? -1 : group.ops.front();
  };
  for (size_t i = 0; i < program.operators.size(); ++i) {
    const OperatorInfo &info = program.operators[i];
    groups.released.resize(i, false);
    bool tiny = llvm::all_of(info.cls->resultShapes, [](const Shape &s) { return numElements(s) == 1; });
    if (!isFixed[i] && isSource(*info.cls) && !tiny)
      continue;
    isSum[i] = !batch.operators[i] && addsSums(program, groups, int(i), mayBePartial);
    const bool isHead = isFixed[i] || isSum[i] || (whole && split[i] == InSplit::MayHead);
    groups.released.push_back(isHead && whole && split[i] != InSplit::Heads);
    int best = -1, bestOperand = -1;
    std::tuple<int64_t, bool, int> bestKey;
    for (size_t o = 0; o < info.op->getNumOperands() && !isHead; ++o) {
      Value operand = info.op->getOperand(unsigned(o));
      int c = groups.of(program, operand);
      if (c < 0 || !mayFollow(*info.cls, o))
        continue;
      // What is left of a group stays together, so that it can be cut as the group was.
      if (whole && whole->of(program, operand) != whole->ofOp[i])
        continue;
      int arg = groups.list[c].arg;
      std::tuple<int64_t, bool, int> key{numElements(info.cls->operandShapes[o]),
                                         !whole && arg >= 0 && function.isPersistent(unsigned(arg)), headTime(c)};
      if (best < 0 || key > bestKey) {
        best = c;
        bestOperand = int(o);
        bestKey = key;
      }
    }
    if (best < 0) {
      // A constant of one element belongs to no group.
      if (info.op->getNumOperands() == 0 && tiny && !isHead)
        continue;
      best = int(groups.list.size());
      groups.list.push_back({});
    }
    groups.ofOp[i] = best;
    groups.list[best].ops.push_back(int(i));
    groups.list[best].follow.push_back(bestOperand);
  }
  groups.released.resize(program.operators.size(), false);
  findReadBySums(program, isSum, groups);
  return groups;
}

/// By group and loop: what the group has of the loop updates the argument at its head. Elsewhere than that lies, the
/// new value would take memory of its own until the step ends.
std::set<std::pair<int, int>> updatingLoops(const FunctionAssignment &function, const FollowGroups &whole) {
  const Program &program = function.program;
  std::set<std::pair<int, int>> loops;
  for (auto [result, arg] : function.updates) {
    const int op = program.producer(program.returnOp()->getOperand(result));
    if (op >= 0 && whole.ofOp[size_t(op)] == whole.ofArg[arg])
      loops.insert({whole.ofArg[arg], program.operators[size_t(op)].loop});
  }
  return loops;
}

std::vector<InSplit> whereToSplit(const FunctionAssignment &function, const FollowGroups &whole) {
  const Program &program = function.program;
  std::vector<InSplit> split(program.operators.size(), InSplit::Heads);
  const std::set<std::pair<int, int>> updating = updatingLoops(function, whole);
  std::set<std::pair<int, int>> loops; // by group
  for (const auto &[c, group] : llvm::enumerate(whole.list))
    for (auto [op, followed] : llvm::zip_equal(group.ops, group.follow)) {
      const OperatorInfo &info = program.operators[size_t(op)];
      if (followed < 0)
        continue;
      // A copy that a group keeps is a matter of the group, which counts its memory, and so are views of it: another
      // group would want a copy that lives as long. The same goes for what shows a value anew: it shows what its group
      // has in memory. What is Free belongs to its readers' loops.
      const int maker = program.producer(info.op->getOperand(unsigned(followed)));
      const bool showsCopy = maker >= 0 && program.operators[size_t(maker)].mayKeepCopy && graph::isView(info.op);
      const bool showsAnew = info.op->hasAttr(graph::kAnewAttr);
      const bool mayHead = !info.mayKeepCopy && !showsCopy && !showsAnew && !updating.count({int(c), info.loop}) &&
                           info.cls->part != graph::LoopPart::Free && !isSource(*info.cls);
      const bool isFirst = info.cls->part == graph::LoopPart::None || loops.insert({int(c), info.loop}).second;
      split[size_t(op)] = mayHead && isFirst ? InSplit::MayHead : InSplit::Follows;
    }
  return split;
}

} // namespace

FollowGroups formFollowGroups(const FunctionAssignment &function, const BatchDependence &batch,
                              llvm::ArrayRef<bool> isFixed) {
  FollowGroups groups = form(function, batch, isFixed, nullptr, {});
  groups.whole = groups.ofOp;
  return groups;
}

FollowGroups splitFollowGroups(const FunctionAssignment &function, const BatchDependence &batch,
                               llvm::ArrayRef<bool> isFixed, const FollowGroups &whole) {
  FollowGroups groups = form(function, batch, isFixed, &whole, whereToSplit(function, whole));
  groups.whole = whole.ofOp;
  return groups;
}

} // namespace tessera::strategies
