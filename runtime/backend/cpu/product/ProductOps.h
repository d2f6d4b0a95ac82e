//===- ProductOps.h - the innermost loops of products whose order is fixed --------------------------------===//
//
// A micro tile is a few rows by a few vectors of a product, held in registers while its terms are added: each element
// is ((a0 * b0) + a1 * b1) + ..., in ascending order of the terms, every step one fused multiply-add. So an element
// depends on its row of A and its column of B alone, whatever tile it is in, and on no instruction set. Leaves that
// follow each other are one call, so that they share what begins and ends it; their sums are added as a tree.
//
// The columns of B are packed (`terms` times kColumns numbers), so that a term is one or two vectors, or lie so.
//
//   const ProductOps &ops = *productOps();
//   ops.packColumns(b, B, n, terms, columns);                 // B[term * n + column]
//   MicroTile t{.a = A, .rowStride = k, .termStride = 1, .b = b, .bStride = ops.columns, .terms = k};
//   t.bVectorStride = ops.vector;
//   t.y = y, t.yStride = n, t.yVectorStride = ops.vector;
//   ops.run(ops.rows, 2, t);                                  // writes y: [ops.rows][ops.columns], n numbers apart
//
// The same source (ProductOps.inc) is compiled for AVX-512 and AVX2.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CPU_PRODUCT_PRODUCTOPS_H
#define TESSERA_RUNTIME_BACKEND_CPU_PRODUCT_PRODUCTOPS_H

#include <cstddef>
#include <cstdint>

namespace tessera::rt {

/// Lines of the cache that are fetched while products are computed, one after the other: runs of lines side by side,
/// rows of runs, planes of rows.
struct Fetch {
  const float *next = nullptr;   // the line
  int64_t left = 0, lines = 0;   // of its run, with it; of every run
  const int64_t *runs = nullptr; // where a run begins in its row, in units; null: there is one
  int64_t unit = 0, run = 0, runCount = 1;
  const float *row = nullptr, *plane = nullptr; // where they begin
  int64_t rowsLeft = 0, rows = 0, stride = 0, planeStride = 0;
  int64_t now = 0; // how many lines a micro tile fetches
};

/// How far apart rows lie best whose terms lie side by side. The innermost loops know this distance, and that of pixels
/// in blocks of a vector: of any other they would need the multiples, which are more than there are registers. That
/// took 5 % of the time.
inline constexpr int64_t kCopiedRowStride = 400;

/// Terms that lie side by side: a block of channels, or the pixels of an image.
struct TermRuns {
  int64_t first = kEndless, length = kEndless;
  static constexpr int64_t kEndless = int64_t(1) << 62;
};

struct MicroTile {
  const float *a = nullptr;              // a[row * rowStride + term * termStride]
  int64_t rowStride = 0, termStride = 0; // one of them is 1
  const float *b = nullptr;              // b[term * bStride + vector * bVectorStride + lane], whole vectors are read
  int64_t bStride = 0, bVectorStride = 0;
  /// Behind each run of terms, of which the first one may be shorter, a and b go on so many numbers further.
  TermRuns runs;
  int64_t aJump = 0, bJump = 0;
  int64_t terms = 0, leaves = 1; // of a leaf, and how many leaves follow each other
  float *leafSums = nullptr; // where leaves wait for their neighbours: [levels of their tree][ops.rows][ops.columns]
  const float *before = nullptr; // [rows][ops.columns]: where the sum goes on from; null: from 0
  /// What is added to the sum when it is whole, one after the other, each [rows][ops.columns].
  const float *const *waiting = nullptr;
  size_t waitingCount = 0;
  float *y = nullptr; // y[row * yStride + vector * yVectorStride + lane], whole vectors are written; may be `before`
  int64_t yStride = 0, yVectorStride = 0;
  const float *next = nullptr; // [rows][ops.columns]: what the next micro tile begins with, to be on its way by then
  Fetch *fetch[2] = {};        // spread over the terms, since many at once would wait for each other
};

struct ProductOps {
  const char *isa;
  int64_t rows, columns; // the most of a micro tile
  int64_t vector;        // columns of a vector: half of `columns`
  /// 1 <= rows <= ops.rows; `vectors` is 1 or 2.
  void (*run)(int64_t rows, int64_t vectors, const MicroTile &tile);
  /// to[term * columns + column] = from[term * stride + column] for column < n, 0 up to ops.columns.
  void (*packColumns)(float *to, const float *from, int64_t stride, int64_t terms, int64_t n);
  /// The same of from[column * stride + term].
  void (*packTransposed)(float *to, const float *from, int64_t stride, int64_t terms, int64_t n);
  /// to[piece * toStride + i] = from[piece * fromStride + i] for i < n.
  void (*copyPieces)(float *to, int64_t toStride, const float *from, int64_t fromStride, int64_t pieces, int64_t n);
};

/// Those for this processor; null where it has no fused multiply-add.
const ProductOps *productOps();
/// All that this processor can run, the best first, null at the end.
const ProductOps *const *allProductOps();
/// The same loops on pairs of BF16: a float of an operand is two terms, the first in its lower half, and one
/// instruction adds both products to a sum in F32. Null where this processor has none.
const ProductOps *pairOps();

} // namespace tessera::rt

#endif
