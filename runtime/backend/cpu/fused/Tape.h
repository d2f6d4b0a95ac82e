//===- Tape.h - an expression compiled for the fused-kernel engine -------------------------------------===//
//
// buildTape turns an expression over operands in any common layout into
//
//   outer loops      over rows; a row is m * p elements that lie side by side in every full operand
//   lane operations  once per row, on 16 lanes: all that does not change along the row except with period p
//   tile operations  once per tile of a row, on vectors
//
// Example: y = relu(x * s + b) with x nChw16c [32, 64, 8, 8] and s, b per channel: the domain [32, 64, 8, 8]
// becomes the physical [32, 4, 64, 16]; outer loops 32 and 4; row m = 64, p = 16; s and b are lanes; tile
// operations {fma t, x, s, b; relu y, t}. Multiplications that feed one addition become fma; in a reproducible plan an
// operation that rounds the product.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CPU_FUSED_TAPE_H
#define TESSERA_RUNTIME_BACKEND_CPU_FUSED_TAPE_H

#include "runtime/backend/ExpressionCode.h"
#include "runtime/backend/cpu/fused/VectorOps.h"

#include <optional>

namespace tessera::rt {

/// Whether a row of m * p elements has periods rather than lanes.
constexpr bool isPeriod(int64_t p) { return p > kLanes; }

/// How an operand moves with the outer loops (strides in elements) and along a row.
struct TapeOperand {
  Shape outer;
  bool full = false;      // one element per element of the row; else lanes, or a period
  int64_t laneStride = 0; // lanes, period: element j is (j % p) * laneStride
  // A sum along the row may have a result for each so many elements, so far apart; 0: one for all.
  int64_t segment = 0, segmentStride = 0;
};

struct TapeOp {
  TapeOp(VectorOp op, unsigned lanes, uint32_t y, uint32_t a, uint32_t b, uint32_t c)
      : run(vectorOps().find(op, lanes)), op(op), lanes(lanes), y(y), a(a), b(b), c(c) {}
  TapeOp(VectorOp op, unsigned lanes, uint32_t y, uint32_t a) : TapeOp(op, lanes, y, a, a, a) {}

  VectorFn run;
  VectorOp op;
  unsigned lanes;      // bit k: operand k is 16 lanes
  bool period = false; // among laneOps: computes a period
  uint32_t y, a, b, c; // indices into the pointer table
};

/// A value made from the index: iota or random.
struct TapeSource {
  Op op = Op::Iota;
  plan::DType type = plan::F32;
  uint32_t y = 0, step = 0; // pointer-table index; random: index of the input that holds the step
  uint64_t key = 0, first = 0;
  Shape outer;
  int64_t strideM = 0, strideP = 0;
  bool full = true;
  size_t before = 0; // runs before tileOps[before], or laneOps[before]
};

struct TapeInput {
  TapeOperand place;
  const TensorView *view;
  uint32_t pointer = 0; // full: set to memory; lanes and period: filled from memory
  bool used = false;
};

struct TapeStore { // a full result, straight from or copied to memory
  TapeOperand place;
  size_t output = 0;
  uint32_t pointer = 0;
};

struct TapeReduction {
  TapeOperand place; // full: kept along the row; else summed along it (to p lanes, to a period, or to one)
  plan::Reduction kind;
  size_t output = 0;
  uint32_t source = 0; // pointer-table index
  bool sourceLanes = false;
  int64_t count = 0;   // elements of the result
  bool dot = false;    // the sum is of source * factor; an ordered one of the rounded products
  uint32_t factor = 0; // pointer-table index
  Shape term;          // an ordered sum: how the number of a term moves with the outer loops
};

struct Tape {
  Shape outer;
  int64_t m = 1, p = 1;
  std::vector<TapeInput> inputs;
  std::vector<TapeStore> stores;
  std::vector<TapeReduction> reductions;
  std::vector<TapeOp> laneOps, tileOps;
  std::vector<TapeOp> copyOps; // after the sums of a tile, since they may overwrite an input that those read
  std::vector<TapeSource> sources;
  struct Constant { // lanes that never change
    uint32_t pointer;
    plan::DType type;
    double value;
  };
  std::vector<Constant> constants;
  uint32_t pointers = 0;                                   // size of the pointer table
  std::vector<uint32_t> lanePointers;                      // those that need 16 lanes of storage
  std::vector<std::pair<uint32_t, uint32_t>> slotPointers; // (pointer, tile slot)
  struct Period { // needs storage of a period, over and over, as far as a tile may read
    uint32_t pointer;
    int64_t bytes; // of a number
  };
  std::vector<Period> periods;
  uint32_t slots = 0;
  bool wide = false; // some tile buffer holds integers, of 8 bytes
  // The reductions are sums whose terms have an order (OrderedSums.h). Along a row a sum is kept, or its terms have
  // ascending numbers without a gap.
  bool ordered = false;

  int64_t rows() const { return elementCount(outer); }
  int64_t rowLength() const { return m * p; }
  bool periodic() const { return isPeriod(p); }
  bool inPeriod(const TapeOperand &operand) const { return !operand.full && operand.laneStride != 0 && periodic(); }
};

/// The tape of a call, or nothing where the engine does not do it (integer arithmetic, mixed layouts).
/// The tape points into `call`, whose operands must outlive it.
std::optional<Tape> buildTape(const ExpressionCode &code, const KernelCall &call);

} // namespace tessera::rt

#endif
