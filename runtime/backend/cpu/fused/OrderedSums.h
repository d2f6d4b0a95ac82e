//===- OrderedSums.h - sums whose bits depend on nothing but their terms --------------------------------===//
//
// The sums of a loop in a reproducible plan. Their order (ExpressionCode.h, kPartialSums) says nothing of rows, tiles
// and threads. So a result is summed by one thread, which meets its terms in ascending order: a loop's work is cut in
// shares, and a share owns results. A share has some indices of those outer loops that every sum keeps, or some tiles
// of every row if all sums keep the row. A loop that has neither, such as a sum of everything, is one share.
//
//   OrderedSums sums(tape, threads, tile);                      // may shorten the tiles
//   sums.start(memory);
//   for each share, on any thread: for its rows and tiles: sums.add(memory, r, ..., x, n);
//   sums.finish(call, memory);
//
// A result has the sum of its blocks in F64, and the partial sums of the block that has not ended in F32. They lie in
// as many planes of all results.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CPU_FUSED_ORDEREDSUMS_H
#define TESSERA_RUNTIME_BACKEND_CPU_FUSED_ORDEREDSUMS_H

#include "runtime/backend/cpu/fused/Tape.h"

namespace tessera::rt {

class OrderedSums {
public:
  /// For a tape with `ordered` that outlives this. `tile` is the most elements of a tile.
  OrderedSums(const Tape &tape, int threads, int64_t &tile);

  /// Bytes of all sums.
  int64_t bytes() const { return bytes_; }
  int64_t shares() const { return shares_; }

  /// The rows [firstRow, lastRow) that may be a share's, of which those are that owns() takes, and tiles of each.
  struct Share {
    int64_t firstRow, lastRow, firstOwner, lastOwner, firstTile, lastTile;
  };
  Share share(int64_t number) const;
  /// Whether the row with this index of the outer loops is the share's.
  bool owns(const Share &share, const Shape &index) const;

  void start(double *memory) const;
  /// Adds n elements of a row, from its element `at` on, to reduction r; or their products with `factor`, if it is not
  /// null. `result` is the row's first result, `term` the number of its first term.
  void add(double *memory, size_t r, int64_t result, int64_t term, int64_t at, const float *x, const float *factor,
           int64_t n) const;
  /// Writes the results.
  void finish(const KernelCall &call, double *memory) const;

private:
  /// How many results of reduction r lie along a row: the lanes, or one where all of it is summed.
  int64_t lanesOf(size_t r) const;
  /// Sums of neighbouring results.
  struct Place {
    double *sums;
    float *partial; // in planes
    Place from(int64_t result) const { return {sums + result, partial + result}; }
  };
  Place place(double *memory, size_t r) const;
  /// Adds n elements that are summed along the row, or their products.
  void addAlong(const Place &place, size_t r, int64_t term, const float *x, const float *factor, int64_t n) const;
  /// The same of kLines lines of n elements that follow each other, whose results lie `apart`.
  void addLines(const Place &place, int64_t apart, size_t r, int64_t term, const float *x, const float *factor,
                int64_t n) const;

  const Tape &tape_;
  VectorFn add_ = vectorOps().find(VectorOp::Add, 0), productAdd_ = vectorOps().find(VectorOp::MulAdd, 0);
  std::vector<int64_t> at_, plane_; // by reduction: its first sum, in units of 8 bytes; the length of a plane
  Shape owner_;                     // how the number of a row's owner moves with the outer loops
  int64_t owners_ = 1, tiles_ = 1, shares_ = 1, bytes_ = 0;
  bool byOwner_ = true;
};

} // namespace tessera::rt

#endif
