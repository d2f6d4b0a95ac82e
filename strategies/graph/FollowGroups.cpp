#include "strategies/graph/FollowGroups.h"

#include <tuple>

using namespace mlir;

namespace tessera::strategies {

namespace {

/// A reduction to so small a part of the operand is paid where it arises: no choice worth a node.
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

} // namespace

bool isSource(const OperatorClass &cls) {
  return llvm::all_of(cls.operandShapes, [](const Shape &s) { return numElements(s) == 1; });
}

int FollowGroups::of(const Program &program, Value value) const {
  if (auto arg = dyn_cast<BlockArgument>(value))
    return ofArg[arg.getArgNumber()];
  return ofOp[program.producer(value)];
}

bool FollowGroups::staysInLoop(const Program &program, int group, Value value) const {
  return program.staysInLoop(value,
                             [&](OpOperand &use) { return ofOp[program.index.lookup(use.getOwner())] == group; });
}

FollowGroups formFollowGroups(const FunctionAssignment &function, llvm::ArrayRef<bool> isHead) {
  const Program &program = function.program;
  FollowGroups groups;
  groups.ofOp.assign(program.operators.size(), -1);
  for (unsigned a = 0; a < function.args.size(); ++a) {
    groups.ofArg.push_back(int(groups.list.size()));
    groups.list.push_back({int(a), {}, {}});
  }
  // When a head was made: arguments before all operators.
  auto headTime = [&](int c) {
    const FollowGroup &group = groups.list[c];
    return group.arg >= 0 ? -1 : group.ops.front();
  };
  for (size_t i = 0; i < program.operators.size(); ++i) {
    const OperatorInfo &info = program.operators[i];
    bool tiny = llvm::all_of(info.cls->resultShapes, [](const Shape &s) { return numElements(s) == 1; });
    if (!isHead[i] && isSource(*info.cls) && !tiny)
      continue;
    int best = -1, bestOperand = -1;
    std::tuple<int64_t, bool, int> bestKey;
    for (size_t o = 0; o < info.op->getNumOperands() && !isHead[i]; ++o) {
      int c = groups.of(program, info.op->getOperand(unsigned(o)));
      if (c < 0 || !mayFollow(*info.cls, o))
        continue;
      int arg = groups.list[c].arg;
      std::tuple<int64_t, bool, int> key{numElements(info.cls->operandShapes[o]),
                                         arg >= 0 && function.isPersistent(unsigned(arg)), headTime(c)};
      if (best < 0 || key > bestKey) {
        best = c;
        bestOperand = int(o);
        bestKey = key;
      }
    }
    if (best < 0) {
      // Constants of one element take part in nothing.
      if (info.op->getNumOperands() == 0 && tiny && !isHead[i])
        continue;
      best = int(groups.list.size());
      groups.list.push_back({});
    }
    groups.ofOp[i] = best;
    groups.list[best].ops.push_back(int(i));
    groups.list[best].follow.push_back(bestOperand);
  }
  return groups;
}

} // namespace tessera::strategies
