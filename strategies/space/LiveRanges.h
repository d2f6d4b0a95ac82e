//===- LiveRanges.h - when operators run and how long their values live, as the search sees it ------===//
//
// Times are positions in the order of execution that graph::executionOrder gives the global program with its loops:
// operator i runs at time(i), the results are read at end(). A value lives from the operator that makes it to its last
// reader, and with it lives what shows its bytes under another shape. The search bounds memory by these times. What is
// cut has other sizes, so the order of a local program may be another one.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SPACE_LIVERANGES_H
#define TESSERA_STRATEGIES_SPACE_LIVERANGES_H

#include "strategies/space/Program.h"

#include <optional>

namespace tessera::strategies {

/// Both times included.
struct LiveRange {
  int64_t from, to;
};

class LiveRanges {
public:
  explicit LiveRanges(const Program &program);

  int64_t time(int op) const { return times_[op]; }
  int64_t end() const { return end_; }
  /// Parameters and states live all the time.
  LiveRange argument(unsigned arg) const;
  /// nullopt: the value stays in a loop, is a view, or takes the place of an argument that it updates. That is so where
  /// the two lie alike.
  std::optional<LiveRange> result(mlir::Value value, llvm::function_ref<bool(unsigned arg)> liesAlike) const;

private:
  int64_t made(mlir::Value value) const;
  /// By an operator, of the value or a view of it.
  int64_t lastRead(mlir::Value value) const;

  const Program &program_;
  llvm::DenseMap<unsigned, unsigned> updates_; // result -> argument
  std::vector<int64_t> times_;
  llvm::DenseSet<mlir::Value> inLoops_; // looked up only
  int64_t end_ = 0;
};

} // namespace tessera::strategies

#endif
