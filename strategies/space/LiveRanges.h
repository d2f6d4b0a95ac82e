//===- LiveRanges.h - when operators run and how long their values live, as the search sees it ------===//
//
// Times are positions in the order of execution that graph::executionOrder gives the global program with its loops:
// operator i runs at time(i), and the results are read at end(). A value lives from the operator that makes it to its
// last reader; a reader of a view of the value counts as a reader of the value. What the body reads and does not make
// lives until its end, and a sum over micro-batches from its start on. The search bounds memory by these times. A local
// program may run in another order, since its tensors have other sizes.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SPACE_LIVERANGES_H
#define TESSERA_STRATEGIES_SPACE_LIVERANGES_H

#include "strategies/space/Program.h"

#include <optional>

namespace tessera::strategies {

/// The times at which a value lives, the first and the last one included.
struct LiveRange {
  int64_t from, to;
};

class LiveRanges {
public:
  explicit LiveRanges(const Program &program);

  /// When operator `op` runs.
  int64_t time(int op) const { return times_[op]; }
  int64_t end() const { return end_; }
  /// When an argument lives. Parameters and states live all the time.
  LiveRange argument(unsigned arg) const;
  /// When an operator's result lives. nullopt: it takes no memory of its own, since it stays in a loop, is a view, or
  /// takes the place of an argument that it updates. The last is so where `liesAlike` says that the two have one
  /// sharding.
  std::optional<LiveRange> result(mlir::Value value, llvm::function_ref<bool(unsigned arg)> liesAlike) const;
  /// When the body runs, of a program with micro-batches.
  LiveRange body() const { return {bodyFirst_, bodyLast_}; }
  /// When a copy that an operator makes of its result lives.
  LiveRange copy(mlir::Value value) const { return {made(value), lastRead(value)}; }

private:
  /// When the value's operator runs; 0 for an argument.
  int64_t made(mlir::Value value) const;
  /// When the last operator reads the value or a view of it.
  int64_t lastRead(mlir::Value value) const;

  const Program &program_;
  llvm::DenseMap<unsigned, unsigned> updates_; // result -> argument
  std::vector<int64_t> times_;
  llvm::DenseSet<mlir::Value> inLoops_; // looked up only
  int64_t end_ = 0;
  int64_t bodyFirst_ = 0, bodyLast_ = -1; // when the body runs
};

} // namespace tessera::strategies

#endif
