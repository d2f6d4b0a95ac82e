//===- LiveRanges.h - when operators run, and how long their values live ---------------------------===//
//
// Times are counted in operators of the program: operator i runs at time(i), the results are read at end(). A value
// lives from the operator that makes it to its last reader. The search bounds memory by these times, and the program's
// cost reports it by them.
//
// The order is the program's own, except that updates of parameters and states, and what is only for them, run as soon
// as they can. This is what graph-schedule (compiler/partition/Schedule.cpp) makes of the local program, foretold
// before sizes and loops are known.
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
  int64_t end() const { return int64_t(times_.size()); }
  /// When the value is there: an argument from the start.
  int64_t made(mlir::Value value) const;
  /// Parameters and states live all the time.
  LiveRange argument(unsigned arg) const;
  /// nullopt: the value takes the place of an argument that it updates. That is so where the two lie alike.
  std::optional<LiveRange> result(mlir::Value value, llvm::function_ref<bool(unsigned arg)> liesAlike) const;
  /// The argument that a result of the function updates.
  std::optional<unsigned> updatedBy(unsigned result) const;

private:
  LiveRange untilLastRead(mlir::Value value) const;

  const Program &program_;
  llvm::DenseMap<unsigned, unsigned> updates_; // result -> argument
  std::vector<int64_t> times_;
};

} // namespace tessera::strategies

#endif
