//===- TileCode.h - machine code for the tile operations of a tape ---------------------------------------===//
//
// A tile operation by itself reads its operands from the first-level cache and writes its result there. Code for
// several operations at once keeps what lies between them in registers. It is made for AVX-512, with Xbyak; where
// either is missing, and for operations without instructions here (calls, integers), the functions of VectorOps.h run.
//
//   tile operations {v = load x; t = v * s + b; r = relu t; copy r to y}
//   runs            {first 0, last 4, run}: for every vector of 16 elements load, fma, relu, store
//
// A run computes what its operations do one by one, to the bit (NaNs may have other payloads).
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CPU_FUSED_TILECODE_H
#define TESSERA_RUNTIME_BACKEND_CPU_FUSED_TILECODE_H

#include "runtime/backend/cpu/fused/Tape.h"

#include <memory>

namespace tessera::rt {

/// Runs tile operations [first, last) on n elements of each operand. `pointers` is the pointer table of the tape.
struct TileRun {
  size_t first, last;
  void (*run)(void *const *pointers, int64_t n);
};

class TileCode {
public:
  virtual ~TileCode() = default;
  /// In ascending order, apart from each other.
  std::vector<TileRun> runs;
};

/// Code for those of the tape's tile operations that gain by it. Null where there are none.
std::unique_ptr<TileCode> compileTile(const Tape &tape);

} // namespace tessera::rt

#endif
