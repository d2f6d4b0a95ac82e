//===- OrderedProduct.h - products in float32 whose bits do not depend on how they are cut ------------------===//
//
// y = A * B for reproducible plans. The terms of a leaf are added in ascending order, one fused multiply-add each, and
// the leaves' sums as a balanced tree, neighbours first. Rows, columns, threads, tiles and instruction set change no
// bit: one rank's product with four leaves is the tree of four ranks' products with one leaf each.
//
// How the operands lie is told by ProductOperands, which copies parts of them.
//
//   ProductSizes sizes{.m = 256, .n = 4096, .k = 4096, .leaves = 4};
//   OrderedProduct product(sizes, threads, *productOps(), std::move(operands), "matmul");
//   product.run(scratch);
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CPU_PRODUCT_ORDEREDPRODUCT_H
#define TESSERA_RUNTIME_BACKEND_CPU_PRODUCT_ORDEREDPRODUCT_H

#include "runtime/backend/Kernel.h"
#include "runtime/backend/cpu/product/ProductOps.h"

#include <algorithm>
#include <memory>

namespace tessera::rt {

/// Whether every operand is F32 and not empty, and this processor has ProductOps.
bool acceptsProduct(const KernelCall &call);
/// And the plan is reproducible.
bool acceptsOrdered(const KernelCall &call);

struct ProductSizes {
  int64_t matrices = 1; // products of their own
  int64_t m = 1, n = 1, k = 1;
  int64_t leaves = 1; // equal ranges of k, a power of two
};

/// Rows of a matrix, numbers apart: what is fetched into a cache before it is read.
struct Source {
  const float *data = nullptr;
  int64_t rows = 0, columns = 0, stride = 0;
  int64_t planes = 1, planeStride = 0; // as many such matrices
  /// Not null: of each row only the `piece` numbers at pieces[i] * piece, for i < columns / piece.
  const int64_t *pieces = nullptr;
  int64_t piece = 0;
};

/// A range of rows or columns, and one of terms.
struct Panel {
  int64_t matrix, first, count;
  int64_t term, terms;
};

/// Where an operand lies as it is read.
struct InPlace {
  const float *data = nullptr; // null: it must be copied
  int64_t stride = 0;          // from term to term; of A whose terms lie side by side, from row to row
  int64_t vectorStride = 0;    // of B
  int64_t jump = 0;            // from the end of a run of terms to the next one
};

/// How far apart rows and vectors of y lie.
struct ResultStrides {
  int64_t row = 0, vector = 0;
};

class ProductOperands {
public:
  virtual ~ProductOperands() = default;
  /// Before anything is stored.
  virtual void begin(int threads) const {}
  /// How packRows lays rows: to[row * stride + term], or else to[term * stride + row].
  virtual bool termsSideBySide() const = 0;
  virtual void packRows(float *to, int64_t stride, const Panel &panel) const = 0;
  /// As ProductOps::packColumns does; at most ops.columns columns.
  virtual void packColumns(float *to, const ProductOps &ops, const Panel &panel) const = 0;
  /// What those read; empty where it is not one rectangle.
  virtual Source rows(const Panel &panel) const = 0;
  virtual Source columns(const Panel &panel) const = 0;
  /// How many rows lie side by side for every term, from a multiple of that on; 1 where terms lie side by side.
  virtual int64_t rowBlock() const { return 1; }
  /// The runs of terms of operands that lie in place, from a term on.
  virtual TermRuns runs(int64_t term) const { return {}; }
  /// A; asked for where rows lie side by side in blocks, and where terms lie side by side.
  virtual InPlace rowsInPlace(const Panel &panel) const { return {}; }
  /// B, whose columns are whole vectors.
  virtual InPlace columnsInPlace(const ProductOps &ops, const Panel &panel) const { return {}; }
  /// Whether a term of columns in place is whole lines of the cache, so that a copy would only bring them together.
  virtual bool columnsAreLines() const { return false; }
  virtual ResultStrides strides(const ProductOps &ops) const = 0;
  /// Where rows of y begin whose columns are whole vectors; null where they must be stored one by one.
  virtual float *place(const ProductOps &ops, int64_t matrix, int64_t row, int64_t rows, int64_t column) const = 0;
  /// Stores tile[row][ops.columns].
  virtual void store(const float *tile, const ProductOps &ops, int64_t matrix, int64_t row, int64_t rows,
                     int64_t column, int64_t columns) const = 0;
};

/// A length in `count` parts, each a multiple of `grain` but the last one, that differ by one grain at most. Of few
/// elements there may be fewer.
struct Cut {
  int64_t length = 1, grain = 1, count = 1;
  Cut() = default;
  Cut(int64_t length, int64_t count, int64_t grain);
  int64_t begin(int64_t i) const { return std::min(length, i * grains() / count * grain); }
  int64_t size(int64_t i) const { return begin(i + 1) - begin(i); }
  int64_t largest() const { return std::min(length, (grains() + count - 1) / count * grain); }

private:
  int64_t grains() const { return (length + grain - 1) / grain; }
};

class OrderedProduct final : public BoundKernel {
public:
  OrderedProduct(const ProductSizes &sizes, int threads, const ProductOps &ops,
                 std::unique_ptr<ProductOperands> operands);

  Status run(std::byte *scratch) override;
  size_t scratchBytes() const override { return size_t(threads_) * perThread(); }
  std::string describe() const override;

private:
  /// A chunk of a tile of a matrix.
  struct Chunk {
    int64_t matrix, row, rows, column, columns; // of the tile
    int64_t group, piece; // leaves number group * leaves_ and following; the part of the only leaf
    int64_t term, terms;
    Panel rowPanel(int64_t first, int64_t count) const { return {matrix, row + first, count, term, terms}; }
    Panel columnPanel(int64_t first, int64_t count) const { return {matrix, column + first, count, term, terms}; }
    bool sameColumns(const Chunk &other) const {
      return matrix == other.matrix && column == other.column && term == other.term && terms == other.terms;
    }
  };

  void chooseTiles();
  int64_t chunkCount() const { return sizes_.leaves / leaves_ * chunks_.count; }
  Chunk at(int64_t i) const;
  /// `copied`: the chunk before it has left the copies of its columns. Returns whether it leaves those of the next one.
  bool compute(float *memory, const Chunk &chunk, const Chunk *next, bool copied) const;

  size_t perThread() const;

  ProductSizes sizes_;
  int threads_;
  const ProductOps &ops_;
  std::unique_ptr<ProductOperands> operands_;
  int64_t leaf_, leaves_; // terms of a leaf; leaves of a chunk, 1 where a leaf has several chunks
  Cut chunks_;            // of leaves_ leaves
  size_t levels_;         // of the tree above chunks
  Cut rows_, columns_;
  int64_t bands_ = 1; // of rows of tiles, a thread each
  int64_t panel_ = 1; // rows of a micro tile
  int64_t group_ = 1; // rows that are copied at once
  bool termsSideBySide_;
  bool sideBySide_; // one tile after the other in a row of tiles
  ResultStrides strides_;
  int64_t rowBlock_;
  int64_t rowStride_; // of copied rows
  // What a thread has in scratch memory, in numbers: a micro tile, sums of a level, copies of rows and of columns.
  int64_t micro_, sums_, copiedRows_, copiedColumns_;
};

} // namespace tessera::rt

#endif
