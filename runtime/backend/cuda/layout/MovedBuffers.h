//===- MovedBuffers.h - buffers that lie elsewhere than the plan says ----------------------------------------===//
//
// The base of what gives buffers of a plan memory of their own, behind the arena.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CUDA_LAYOUT_MOVEDBUFFERS_H
#define TESSERA_RUNTIME_BACKEND_CUDA_LAYOUT_MOVEDBUFFERS_H

#include "runtime/backend/Tensor.h"

#include <cstdint>
#include <vector>

namespace tessera::rt::cuda {

class MovedBuffers {
public:
  /// How much memory is needed.
  uint64_t bytes() const { return bytes_; }
  /// Moves views of the plan's buffers to that memory, which begins as aligned as an arena ends.
  void place(std::vector<TensorView> &buffers, char *memory) const {
    for (const Move &move : moves_)
      buffers[move.buffer].data = memory + move.offset;
  }

protected:
  struct Move {
    uint32_t buffer;
    uint64_t offset;
  };
  std::vector<Move> moves_;
  uint64_t bytes_ = 0;
};

} // namespace tessera::rt::cuda

#endif
