#include "strategies/space/LiveRanges.h"

#include "dialects/graph/Fusion.h"
#include "dialects/graph/Graph.h"

using namespace mlir;

namespace tessera::strategies {

/// By operator: it streams, and everything that reads it is an update or only for one.
static std::vector<bool> onlyForUpdates(const Program &program, const llvm::DenseMap<unsigned, unsigned> &updates) {
  std::vector<bool> only(program.operators.size(), false);
  for (size_t i = program.operators.size(); i-- > 0;) {
    const OperatorInfo &info = program.operators[i];
    only[i] = graph::streams(info.cls->rule) && llvm::all_of(info.op->getUses(), [&](OpOperand &use) {
                auto it = program.index.find(use.getOwner());
                return it == program.index.end() ? updates.contains(use.getOperandNumber()) : bool(only[it->second]);
              });
  }
  return only;
}

LiveRanges::LiveRanges(const Program &program) : program_(program) {
  func::FuncOp func = program.func;
  for (unsigned a = 0; a < func.getNumArguments(); ++a)
    if (auto r = graph::updateOf(func, a))
      updates_[*r] = a;
  const std::vector<bool> early = onlyForUpdates(program, updates_);
  for (size_t i = 0; i < program.operators.size(); ++i) {
    int64_t time = early[i] ? 0 : int64_t(i);
    for (Value v : program.operators[i].op->getOperands())
      if (int p = program.producer(v); early[i] && p >= 0)
        time = std::max(time, times_[p]);
    times_.push_back(time);
  }
}

int64_t LiveRanges::made(Value value) const {
  int producer = program_.producer(value);
  return producer < 0 ? 0 : times_[producer];
}

LiveRange LiveRanges::untilLastRead(Value value) const {
  LiveRange range{made(value), made(value)};
  for (Operation *user : value.getUsers())
    if (auto it = program_.index.find(user); it != program_.index.end())
      range.to = std::max(range.to, times_[it->second]);
  return range;
}

LiveRange LiveRanges::argument(unsigned arg) const {
  func::FuncOp func = program_.func;
  llvm::StringRef role = graph::argRole(func, arg);
  if (role == graph::kParameter || role == graph::kState)
    return {0, end()};
  return untilLastRead(func.getArgument(arg));
}

std::optional<LiveRange> LiveRanges::result(Value value, llvm::function_ref<bool(unsigned)> liesAlike) const {
  LiveRange range = untilLastRead(value);
  for (OpOperand &use : value.getUses()) {
    if (program_.index.contains(use.getOwner()))
      continue;
    std::optional<unsigned> arg = updatedBy(use.getOperandNumber());
    if (arg && liesAlike(*arg))
      return std::nullopt;
    range.to = end();
  }
  return range;
}

std::optional<unsigned> LiveRanges::updatedBy(unsigned result) const {
  auto it = updates_.find(result);
  return it == updates_.end() ? std::nullopt : std::optional(it->second);
}

} // namespace tessera::strategies
