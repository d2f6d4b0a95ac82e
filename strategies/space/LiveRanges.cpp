#include "strategies/space/LiveRanges.h"

#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphKinds.h"
#include "dialects/graph/flow/Order.h"

using namespace mlir;

namespace tessera::strategies {

LiveRanges::LiveRanges(const Program &program) : program_(program) {
  func::FuncOp func = program.func;
  for (unsigned a = 0; a < func.getNumArguments(); ++a)
    if (auto r = graph::updateOf(func, a))
      updates_[*r] = a;
  std::vector<int> loops;
  for (const OperatorInfo &info : program.operators)
    loops.push_back(info.loop);
  const graph::FunctionFlow own(func);
  const graph::LoopedFlow looped(own.flow, loops);
  for (auto [v, inMemory] : llvm::enumerate(looped.inMemory))
    if (!inMemory)
      inLoops_.insert(own.tensors[v]);
  const std::vector<int> order = graph::executionOrder(looped.flow);
  end_ = int64_t(order.size());
  std::vector<int64_t> position(order.size());
  for (auto [time, step] : llvm::enumerate(order)) {
    position[step] = int64_t(time);
    if (looped.flow.steps[step].section == graph::Section::Body) {
      bodyFirst_ = bodyLast_ < 0 ? int64_t(time) : bodyFirst_;
      bodyLast_ = int64_t(time);
    }
  }
  times_.resize(program.operators.size());
  for (size_t i = times_.size(); i-- > 0;) {
    if (int step = looped.stepOf[i]; step >= 0) {
      times_[i] = position[step];
      continue;
    }
    // A Free operator that only loops read is computed in these loops: it runs with the first of them.
    times_[i] = end_;
    for (Operation *user : program.operators[i].op->getUsers())
      if (auto it = program.index.find(user); it != program.index.end())
        times_[i] = std::min(times_[i], times_[it->second]);
  }
}

int64_t LiveRanges::made(Value value) const {
  int producer = program_.producer(value);
  return producer < 0 ? 0 : times_[producer];
}

int64_t LiveRanges::lastRead(Value value) const {
  const int producer = program_.producer(value);
  const bool madeInBody = producer >= 0 && program_.operators[producer].section == graph::Section::Body;
  int64_t last = made(value);
  for (Operation *user : value.getUsers()) {
    auto it = program_.index.find(user);
    if (it == program_.index.end())
      continue;
    last = std::max(last, times_[it->second]);
    if (!madeInBody && program_.operators[it->second].section == graph::Section::Body)
      last = std::max(last, bodyLast_); // the next micro-batch reads it, too
    if (graph::isView(user))
      last = std::max(last, lastRead(user->getResult(0)));
  }
  return last;
}

LiveRange LiveRanges::argument(unsigned arg) const {
  func::FuncOp func = program_.func;
  llvm::StringRef role = graph::argRole(func, arg);
  if (role == graph::kParameter || role == graph::kState)
    return {0, end()};
  return {0, lastRead(func.getArgument(arg))};
}

std::optional<LiveRange> LiveRanges::result(Value value, llvm::function_ref<bool(unsigned)> liesAlike) const {
  if (inLoops_.contains(value) || graph::isView(value.getDefiningOp()))
    return std::nullopt;
  LiveRange range{made(value), lastRead(value)};
  if (graph::isAccumulated(value))
    range = {bodyFirst_, std::max(bodyLast_, range.to)};
  for (OpOperand &use : value.getUses()) {
    if (program_.index.contains(use.getOwner()))
      continue;
    auto update = updates_.find(use.getOperandNumber());
    if (update != updates_.end() && liesAlike(update->second))
      return std::nullopt;
    range.to = end();
  }
  return range;
}

} // namespace tessera::strategies
