//===- VectorOps.h - one elementwise operator over a tile of F32 ---------------------------------------===//
//
// The innermost loops of the fused-kernel engine. Every operand is either a vector of n elements or 16
// lanes that repeat (element i is lane i % 16): scalars are 16 equal lanes, the channels of a blocked
// layout 16 different ones. BOOL values are held as 0 and 1 in F32, integers as I64.
//
// The same source (VectorOps.inc) is compiled for AVX-512, AVX2 and the baseline; vectorOps() chooses at
// run time.
//
//   VectorFn add = vectorOps().find(VectorOp::Add, 2);   // bit 1: the second operand is lanes
//   add(y, x, bias, nullptr, n);                         // y[i] = x[i] + bias[i % 16]
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CPU_FUSED_VECTOROPS_H
#define TESSERA_RUNTIME_BACKEND_CPU_FUSED_VECTOROPS_H

#include <cstdint>

namespace tessera::rt {

constexpr int64_t kLanes = 16;
constexpr int64_t kTurns = 4;   // ExpressionCode.h: kPartialSums
constexpr int64_t kTerms = 256; // ExpressionCode.h: kTermsOfBlock
constexpr int64_t kLines = 4;   // sums at once: each alone would wait for its last addition

enum class VectorOp : uint8_t {
#define TESSERA_ELEMENTWISE(NAME, ...) NAME,
#include "runtime/support/Elementwise.def"
  Copy,
  NotZero,
  Fma,  // a * b + c
  Fms,  // a * b - c
  Fnma, // c - a * b
  // The same of a product that is rounded: two instructions.
  MulAdd,
  MulSub,
  SubMul,
  // On I64: comparisons give BOOL; the condition of SelectInt is BOOL.
  CopyInt,
  NegInt,
  AddInt,
  SubInt,
  MulInt,
  MaxInt,
  MinInt,
  EqInt,
  LtInt,
  LeInt,
  SelectInt,
  IntToFloat,
  IntToBool,
  BoolToInt,
  FloatToInt, // truncates; of a NaN 0, of what is out of range the nearest limit
  LoadI32,
  LoadI8,
  LoadU8,
  StoreI32,
  StoreI8,
  // Conversions from and to uint8_t in memory.
  LoadBool,
  StoreBool,
  // Conversions from and to uint16_t in memory.
  LoadBf16,
  StoreBf16,
  LoadF16,
  StoreF16,
  // To the nearest that the type has; stays F32.
  RoundBf16,
  RoundF16,
};

/// y[i] = op(a[i], b[i], c[i]) for i < n. y may be one of the operands.
using VectorFn = void (*)(void *y, const void *a, const void *b, const void *c, int64_t n);

struct VectorOps {
  const char *isa;
  /// The function for an operation. Bit k of `lanes` says that operand k is 16 lanes. Null if there is no such
  /// function.
  VectorFn (*find)(VectorOp op, unsigned lanes);
  /// acc[i % 16] += x[i] (or max, min) for i < n.
  void (*sumLanes)(double *acc, const float *x, int64_t n);
  /// acc[i % 16] += x[i] * y[i].
  void (*dotLanes)(double *acc, const float *x, const float *y, int64_t n);
  void (*maxLanes)(double *acc, const float *x, int64_t n);
  void (*minLanes)(double *acc, const float *x, int64_t n);
  /// acc[i] += x[i] (or max, min) for i < n.
  void (*sumFull)(double *acc, const float *x, int64_t n);
  void (*maxFull)(double *acc, const float *x, int64_t n);
  void (*minFull)(double *acc, const float *x, int64_t n);
  /// acc[i % period] += x[i] for i < n, at most some thousand; n is a multiple of the period, which is one of 16.
  void (*sumPeriods)(double *acc, const float *x, int64_t n, int64_t period);
  /// Adds n / lanes terms of `lanes` sums in order (ExpressionCode.h, kPartialSums), of which the first has number
  /// `term`: partial[(term + i / lanes) % 4 * lanes + i % lanes] += x[i] for i < n, in ascending order. n is a multiple
  /// of lanes. With every block that ends, sums[i % lanes] gets its sum, and the next one begins with partial sums of 0.
  void (*sumInTurn)(double *sums, float *partial, const float *x, int64_t n, int64_t lanes, int64_t term);
  /// The same of the products x[i] * y[i], which are rounded.
  void (*dotInTurn)(double *sums, float *partial, const float *x, const float *y, int64_t n, int64_t lanes,
                    int64_t term);
  /// Both of kLines sums of one lane, whose lines are `stride` apart: partial[line * 4 + ...] += x[line * stride + i].
  void (*sumLinesInTurn)(double *sums, float *partial, const float *x, int64_t stride, int64_t n, int64_t term);
  void (*dotLinesInTurn)(double *sums, float *partial, const float *x, const float *y, int64_t stride, int64_t n,
                         int64_t term);
  /// Ends a block of n sums, whose partial sums lie in planes.
  void (*endBlock)(double *sums, float *partial, int64_t plane, int64_t n);
  /// The largest of the bit patterns without their signs. If it is 0x7f800000 or more, there is an infinity or a NaN.
  uint32_t (*largestPattern)(const float *x, int64_t n);
  /// y[i] = uniform number of (key, index, step), index = first + i / period * outer + i % period * inner.
  void (*random)(float *y, uint64_t key, uint64_t first, int64_t outer, int64_t inner, int64_t period, int64_t n,
                 uint64_t step);
  /// y[i] = first + i * step for i < n, which wraps.
  void (*countFloats)(float *y, int64_t first, int64_t step, int64_t n);
  void (*countInts)(int64_t *y, int64_t first, int64_t step, int64_t n);
  /// y[i] = e^(x[i] - a) for i < n; returns the sum. y may be x.
  double (*expSum)(float *y, const float *x, float a, int64_t n);
  /// The largest of n numbers, or NaN if one is.
  float (*largest)(const float *x, int64_t n);
};

/// The fastest functions that this machine supports.
const VectorOps &vectorOps();

} // namespace tessera::rt

#endif
