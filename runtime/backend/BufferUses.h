//===- BufferUses.h - how often a plan reads and writes its buffers -----------------------------------------===//
//
//   matmul x, w -> t;  relu t -> y       =>   reads(t) == 1, writes(t) == 1, kept(t) is false: nothing needs t but relu
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_BUFFERUSES_H
#define TESSERA_RUNTIME_BACKEND_BUFFERUSES_H

#include "runtime/plan/PlanInfo.h"

#include <cstdint>
#include <vector>

namespace tessera::rt {

/// Counts how often buffers are read and written, in all programs and from outside of the plan. A view counts as the
/// buffer that it views.
class BufferUses {
public:
  explicit BufferUses(const plan::Plan &plan);
  uint32_t root(uint32_t buffer) const { return root_[buffer]; }
  int reads(uint32_t buffer) const { return reads_[root(buffer)]; }
  int writes(uint32_t buffer) const { return writes_[root(buffer)]; }
  /// From now on a step reads the buffer, and writes over it.
  void addUpdate(uint32_t buffer) {
    ++reads_[root(buffer)];
    ++writes_[root(buffer)];
  }
  /// Whether the contents outlive the program or are read from outside.
  bool kept(uint32_t buffer) const { return kept_[root(buffer)]; }

private:
  std::vector<uint32_t> root_;
  std::vector<int> reads_, writes_;
  std::vector<bool> kept_;
};

} // namespace tessera::rt

#endif
