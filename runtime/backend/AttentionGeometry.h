//===- AttentionGeometry.h - the operands of attention and of its gradient -------------------------===//
//
// Attention and its gradient have the same operands but for dy in front, and what attention has kept for the gradient:
//
//   attention       q, k, v [, bias] [, keep]                       -> y [, statistics]
//   attention_grad  dy, q, k, v [, y, statistics] [, bias] [, keep] -> dq, dk, dv
//
// where old plans have gradients without y and statistics. All tensors but the last three are rows of `depth` elements
// per batch and head, at `base(batch, head) + row * stride`:
//
//   q [2, 8, 5, 16], k and v [2, 4, 7, 16]:  batches 2, heads 8, keyHeads 4, rows 5, keys 7; head 3 of q meets head 1
//   q [2, 5, 8, 16] with rows_first:         the same, but a row's heads lie side by side: stride 8 * 16
//
// The statistics are log sum e^score of each row, [batch.., heads, rows] in any case: here 2 * 8 * 5 numbers.
//
// keep is there with the attribute kKeepScale: [batch.., heads, rows, keys] in any case, of BOOL or of the type of q.
// The probabilities that are multiplied with v, and the gradient of all, are multiplied by keep (0 or 1) and that
// number.
//
// q, k and v may be parts of what the call is given, as a projection has left them side by side: some heads, and of
// each row some columns. The attribute kOperandParts has {first head, heads, first column, columns} of each of the
// three:
//
//   three times x [2, 5, 8, 48] with rows_first, parts {0, 8, 0, 16,  0, 8, 16, 16,  0, 8, 32, 16}
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_ATTENTIONGEOMETRY_H
#define TESSERA_RUNTIME_BACKEND_ATTENTIONGEOMETRY_H

#include "runtime/backend/Kernel.h"

namespace tessera::rt {

struct AttentionGeometry {
  /// The places of the rows of one of the tensors.
  struct Rows {
    int64_t heads = 1, rows = 1, depth = 1;
    bool rowsFirst = false;
    // In a larger tensor: its heads, the elements of its rows, and where in them the part begins.
    int64_t allHeads = 1, width = 1, firstHead = 0, firstColumn = 0;

    static Rows whole(int64_t heads, int64_t rows, int64_t depth, bool rowsFirst) {
      return {heads, rows, depth, rowsFirst, heads, depth, 0, 0};
    }
    /// The elements between rows, between heads, and between batches.
    int64_t stride() const { return rowsFirst ? allHeads * width : width; }
    int64_t headStride() const { return rowsFirst ? width : rows * width; }
    int64_t batchStride() const { return rows * allHeads * width; }
    int64_t base(int64_t batch, int64_t head) const {
      return batch * batchStride() + (firstHead + head) * headStride() + firstColumn;
    }
    bool isPart() const { return allHeads != heads || width != depth; }
    /// The same rows in a tensor of their own.
    Rows alone() const { return whole(heads, rows, depth, rowsFirst); }
    int64_t elements() const { return heads * rows * depth; }
  };

  int64_t batches = 1;
  Rows q, k, v, y; // dy lies like y
  Rows dq, dk, dv; // like q, k and v, but never as parts
  double scale = 1, outside = 0;
  bool causal = false;
  int64_t start = 0;
  bool hasBias = false, hasStatistics = false, hasKeep = false;
  double keepScale = 1;
  Shape batch;       // its dimensions
  Shape biasStrides; // of the batch dimensions, head, row, key; 0 where the bias is stretched

  int64_t heads() const { return q.heads; }
  int64_t group() const { return q.heads / k.heads; } // heads of q per head of k
  int64_t rows() const { return q.rows; }
  int64_t keys() const { return k.rows; }
  int64_t rowStride() const { return biasStrides[batch.size() + 1]; }
  int64_t keyStride() const { return biasStrides[batch.size() + 2]; }
  /// The number of statistics, and the first of a head of a batch.
  int64_t lines() const { return batches * heads() * rows(); }
  int64_t lineBase(int64_t batchIndex, int64_t head) const { return (batchIndex * heads() + head) * rows(); }
  /// The first element of what is kept for a head of a batch; those of a row lie side by side, and rows, too.
  int64_t keepBase(int64_t batchIndex, int64_t head) const { return lineBase(batchIndex, head) * keys(); }
  /// The first element of the bias for a head of a batch.
  int64_t biasBase(int64_t batchIndex, int64_t head) const;
  /// The number of keys, from the first on, whose scores in this row are not `outside`.
  int64_t inside(int64_t row) const {
    if (!causal)
      return keys();
    if (start >= keys()) // row + start might overflow
      return keys();
    if (start < -rows())
      return 0;
    int64_t n = row + start + 1;
    return n < 0 ? 0 : n < keys() ? n : keys();
  }
};

/// Where operands of the gradient and a result of attention are, if there are statistics.
inline constexpr size_t kGradientY = 4, kGradientStatistics = 5, kStatisticsResult = 1;

/// What the call has of them, of a bias, and of what dropout keeps; null: it has none.
const TensorView *statisticsOf(const KernelCall &call);
const TensorView *biasOf(const KernelCall &call);
const TensorView *keepOf(const KernelCall &call);

/// Statistics below this number, and above its negative, tell probabilities: one of F32 is off by at most 2^-18 there.
/// A gradient makes others again, maximum and sum of the row. Beside scores far from 0, as of a row that sees masked
/// keys alone, the logarithm of the sum would keep few digits or none.
inline constexpr double kLargestStatistic = 128;

/// An error if operands and attributes do not fit together. In a valid geometry there is at least one row, key and
/// head.
Result<AttentionGeometry> attentionGeometry(const KernelCall &call);

} // namespace tessera::rt

#endif
