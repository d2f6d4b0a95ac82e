#include "strategies/graph/LoopShares.h"

#include <map>
#include <set>

using namespace mlir;

namespace tessera::strategies {

LoopShares::LoopShares(const Program &program, const FollowGroups &groups)
    : program_(program), groups_(groups), shares_(program.operators.size()) {
  for (const OperatorInfo &info : program.operators)
    for (Value v : info.op->getResults())
      if (isUnwritten(v)) {
        unwritten_.insert(v);
        shared_.insert(v);
      }
  findShares();
}

bool LoopShares::isHead(int op) const {
  const int group = groups_.ofOp[size_t(op)];
  return group >= 0 && groups_.list[size_t(group)].arg < 0 && groups_.list[size_t(group)].ops.front() == op &&
         !groups_.released[size_t(op)];
}

bool LoopShares::isInLoop(int op) const {
  const graph::LoopPart part = program_.operators[size_t(op)].cls->part;
  return (part == graph::LoopPart::Points || part == graph::LoopPart::Reduction) && groups_.ofOp[size_t(op)] >= 0 &&
         !isHead(op);
}

/// Whether fusion keeps the value out of memory if it is not resharded. All readers are in one group: if one of several
/// groups reshards it, it is written for all, and no edge could say so.
bool LoopShares::isUnwritten(Value value) const {
  const int made = program_.producer(value);
  if (groups_.ofOp[size_t(made)] < 0 || isHead(made) || value.use_empty())
    return false;
  auto first = program_.index.find(value.use_begin()->getOwner());
  if (first == program_.index.end())
    return false;
  const int group = groups_.whole[size_t(first->second)];
  return group >= 0 && program_.staysInLoop(value, [&](OpOperand &use) {
    const int reader = program_.index.lookup(use.getOwner());
    return groups_.whole[size_t(reader)] == group && !isHead(reader);
  });
}

void LoopShares::findShares() {
  struct Part { // what a group has of a loop
    int first;  // its first operator
    bool starts = true;
    llvm::DenseSet<Value> read = {}; // looked up only
  };
  std::map<std::pair<int, int>, Part> parts; // by group and loop
  std::set<std::pair<int, int>> linked;      // parts of a group that was split: a reshard between them starts a kernel
  for (size_t i = 0; i < program_.operators.size(); ++i) {
    const OperatorInfo &info = program_.operators[i];
    Share &share = shares_[i];
    share.atHand.assign(info.op->getNumOperands(), false);
    share.link.assign(info.op->getNumOperands(), false);
    for (auto [o, v] : llvm::enumerate(info.op->getOperands()))
      share.atHand[o] = unwritten_.contains(v);
    if (!isInLoop(int(i)))
      continue;
    const int group = groups_.whole[i];
    auto [part, fresh] = parts.try_emplace({group, info.loop}, Part{int(i)});
    share.starts = fresh;
    for (auto [o, v] : llvm::enumerate(info.op->getOperands())) {
      const int maker = program_.producer(v);
      if (maker < 0 || !isInLoop(maker) || program_.operators[size_t(maker)].loop != info.loop) {
        share.atHand[o] = share.atHand[o] || !part->second.read.insert(v).second;
        continue;
      }
      share.atHand[o] = true;
      shared_.insert(v);
      const int from = groups_.whole[size_t(maker)];
      const int here = groups_.ofOp[i], there = groups_.ofOp[size_t(maker)];
      if (from == group && here != there)
        share.link[o] = linked.insert({here, there}).second;
      if (from == group || !part->second.starts || parts.at({from, info.loop}).first > part->second.first)
        continue;
      share.link[o] = true;
      part->second.starts = false;
      shares_[size_t(part->second.first)].starts = false;
    }
  }
}

Cost LoopShares::compute(const CostModel &model, int op, const Strategy &strategy,
                         llvm::function_ref<bool(Value)> isResharded) const {
  const OperatorInfo &info = program_.operators[size_t(op)];
  const Share &share = shares_[size_t(op)];
  auto operand = [&](int o) { return info.op->getOperand(unsigned(o)); };
  auto result = [&](int r) { return info.op->getResult(unsigned(r)); };
  bool starts = share.starts;
  for (size_t o = 0; o < share.link.size(); ++o)
    starts |= share.link[o] && isResharded(operand(int(o)));
  if (info.cls->part == graph::LoopPart::Free)
    starts = llvm::any_of(info.op->getResults(), [&](Value v) { return !unwritten_.contains(v) || isResharded(v); });
  return model.computeInLoop(
      *info.cls, strategy,
      [&](int o) { return share.atHand[size_t(o)] && !(shared_.contains(operand(o)) && isResharded(operand(o))); },
      [&](int r) { return unwritten_.contains(result(r)) && !isResharded(result(r)); }, starts);
}

void LoopShares::appendKey(int op, std::vector<int64_t> &key) const {
  const Share &share = shares_[size_t(op)];
  key.push_back(share.starts);
  for (size_t o = 0; o < share.link.size(); ++o)
    key.push_back(share.atHand[o] + 2 * share.link[o]);
  for (Value v : program_.operators[size_t(op)].op->getResults())
    key.push_back(unwritten_.contains(v) + 2 * shared_.contains(v));
}

} // namespace tessera::strategies
