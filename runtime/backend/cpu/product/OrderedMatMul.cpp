// A tile of the result is computed by one thread, chunk by chunk of its terms. A chunk is a part of a leaf, a leaf, or
// several neighbouring leaves: as many terms as fit the caches with the tile's rows and columns, which are copied there.
// Of what a chunk leaves behind, a binary counter says what it is added to: after leaf number i, as many sums are
// complete as i has ones at its end (0: none, 1: l0 + l1, 3: l2 + l3, and that to l0 + l1).
//
// The scheme of copies and tiles is that of Goto and van de Geijn, "Anatomy of High-Performance Matrix
// Multiplication" (2008), with A's panel in the first cache and B's in the second.
#include "runtime/backend/cpu/product/OrderedMatMul.h"

#include "runtime/backend/Parallel.h"
#include "runtime/backend/cpu/product/ProductOps.h"
#include "runtime/plan/Alignment.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace tessera::rt {
namespace {

// A panel of A is 12 KiB then, the columns of B 512 KiB: the first and the second cache of the processors at hand. Of the
// sizes tried (192 to 512 terms, 120 to 768 rows, 256 to 1,024 columns) these are the fastest for the products of an
// MLP, GPT-2 and a ViT; more rows than columns, since columns are copied again for every tile of rows.
constexpr int64_t kTerms = 256, kTileRows = 768, kTileColumns = 512;
constexpr int64_t kPad =
    16; // numbers between copied rows, so that rows a power of two apart share no lines of the cache
constexpr size_t kMostLevels = 32; // of a tree

int64_t parts(int64_t n, int64_t most) { return (n + most - 1) / most; }

/// A length in equal parts of at most `most`, each a multiple of `grain` but the last one.
struct Cut {
  int64_t length, part;
  Cut(int64_t length, int64_t most, int64_t grain)
      : length(length), part(std::min(length, parts(parts(length, parts(length, most)), grain) * grain)) {}
  int64_t count() const { return parts(length, part); }
  int64_t begin(int64_t i) const { return i * part; }
  int64_t size(int64_t i) const { return std::min(part, length - begin(i)); }
};

/// The rows of all matrices as those of one, where they share B and lie one after the other.
MatMulGeometry joinRows(MatMulGeometry g) {
  const int64_t matrices = elementCount(g.batch);
  for (int64_t i = 0; i < matrices; ++i)
    if (g.transposeA || g.operands(i) != std::pair(i, int64_t(0)))
      return g;
  g.m *= matrices;
  g.batch.clear();
  return g;
}

class OrderedMatMul final : public BoundKernel {
public:
  OrderedMatMul(const KernelCall &call, const MatMulGeometry &g, const ProductOps &ops)
      : g_(joinRows(g)), ops_(ops), threads_(call.threads), a_(call.inputs[0].as<float>()),
        b_(call.inputs[1].as<float>()), y_(call.outputs[0].as<float>()), leaf_(g_.k / g_.leaves),
        leaves_(std::min<int64_t>(g_.leaves, std::bit_floor(uint64_t(std::max<int64_t>(kTerms / leaf_, 1))))),
        chunks_(leaf_ * leaves_, kTerms, 1), levels_(size_t(std::countr_zero(uint64_t(g_.leaves / leaves_)))),
        rows_(g_.m, kTileRows, 1), columns_(g_.n, kTileColumns, ops.columns) {
    const int64_t matrices = elementCount(g_.batch);
    // Every thread gets as many tiles as the others, if the result has enough columns or else rows.
    for (int64_t most = kTileColumns;
         matrices * rows_.count() * columns_.count() % threads_ != 0 && most > 2 * ops.columns; most -= ops.columns)
      columns_ = Cut(g_.n, most, ops.columns);
    for (int64_t most = kTileRows; matrices * rows_.count() * columns_.count() % threads_ != 0 && most > 2 * ops.rows;
         most -= ops.rows)
      rows_ = Cut(g_.m, most, 1);
    panel_ = parts(rows_.part, parts(rows_.part, ops.rows));
    packs_ = g.transposeB || rows_.part > ops.rows;
  }

  size_t scratchBytes() const override { return size_t(threads_) * perThread(); }
  int threads() const override { return threads_; }
  std::string describe() const override {
    return std::string("ordered product ") + ops_.isa + ", " + std::to_string(g_.leaves) +
           (g_.leaves == 1 ? " leaf" : " leaves") + " in tiles of " + std::to_string(rows_.part) + " x " +
           std::to_string(columns_.part) + " x " + std::to_string(chunks_.part);
  }

  Status run(std::byte *scratch) override {
    const int64_t perMatrix = rows_.count() * columns_.count(), all = elementCount(g_.batch) * perMatrix;
    parallelFor(threads_, threads_, [&](int64_t first, int64_t last) {
      for (int64_t t = first; t < last; ++t)
        for (int64_t i = all * t / threads_; i < all * (t + 1) / threads_; ++i)
          tile(scratch + size_t(t) * perThread(), i / perMatrix, i % perMatrix % rows_.count(),
               i % perMatrix / rows_.count());
    });
    return Status();
  }

private:
  /// What a thread has in scratch memory, in numbers.
  int64_t microSize() const { return ops_.rows * ops_.columns; }
  int64_t sumsSize() const { return parts(rows_.part, panel_) * parts(columns_.part, ops_.columns) * microSize(); }
  int64_t copySizeA() const { return (rows_.part + panel_) * (chunks_.part + kPad); }
  int64_t copySizeB() const { return parts(columns_.part, ops_.columns) * ops_.columns * chunks_.part; }
  size_t perThread() const {
    const int64_t numbers =
        copySizeA() + copySizeB() + int64_t(levels_ + 1) * sumsSize() + int64_t(kMostLevels + 1) * microSize();
    return aligned(size_t(numbers) * sizeof(float));
  }

  /// Copies rows of A so that they lie close together: as they are, or panel by panel where A is transposed.
  void packRows(float *to, const float *matrix, int64_t row, int64_t m, int64_t term, int64_t terms) const {
    if (!g_.transposeA) {
      for (int64_t r = 0; r < m; ++r)
        std::memcpy(to + r * (chunks_.part + kPad), matrix + (row + r) * g_.k + term, size_t(terms) * sizeof(float));
      return;
    }
    for (int64_t p = 0; p < m; p += panel_, to += panel_ * chunks_.part) {
      const size_t bytes = size_t(std::min(panel_, m - p)) * sizeof(float);
      for (int64_t t = 0; t < terms; ++t)
        std::memcpy(to + t * panel_, matrix + (term + t) * g_.m + row + p, bytes);
    }
  }

  void packColumns(float *to, const float *matrix, int64_t column, int64_t n, int64_t term, int64_t terms) const {
    for (int64_t c = 0; c < n; c += ops_.columns, to += ops_.columns * chunks_.part) {
      const int64_t some = std::min(ops_.columns, n - c);
      if (g_.transposeB)
        ops_.packTransposed(to, matrix + (column + c) * g_.k + term, g_.k, terms, some);
      else if (packs_ || some < ops_.columns)
        ops_.packColumns(to, matrix + term * g_.n + column + c, g_.n, terms, some);
    }
  }

  /// Computes one tile of one matrix.
  void tile(std::byte *scratch, int64_t matrix, int64_t tileRow, int64_t tileColumn) const {
    const auto [matrixA, matrixB] = g_.operands(matrix);
    const float *const a = a_ + matrixA * g_.m * g_.k, *const b = b_ + matrixB * g_.k * g_.n;
    const int64_t row = rows_.begin(tileRow), m = rows_.size(tileRow);
    const int64_t column = columns_.begin(tileColumn), n = columns_.size(tileColumn);
    float *const y = y_ + (matrix * g_.m + row) * g_.n + column;

    float *const copyB = reinterpret_cast<float *>(scratch);
    float *const copyA = copyB + copySizeB();
    float *const sums = copyA + copySizeA();
    float *const small = sums + int64_t(levels_ + 1) * sumsSize();
    float *const edge = small + int64_t(kMostLevels) * microSize();

    const int64_t groups = g_.leaves / leaves_;
    std::array<const float *, 2 * kMostLevels> waiting{};
    for (int64_t group = 0; group < groups; ++group)
      for (int64_t piece = 0; piece < chunks_.count(); ++piece) {
        const int64_t term = group * leaves_ * leaf_ + chunks_.begin(piece), terms = chunks_.size(piece);
        const bool ends = piece + 1 == chunks_.count();
        const auto above = size_t(std::countr_one(uint64_t(group)));
        packRows(copyA, a, row, m, term, terms);
        packColumns(copyB, b, column, n, term, terms);
        int64_t micro = 0;
        for (int64_t r = 0; r < m; r += panel_)
          for (int64_t c = 0; c < n; c += ops_.columns, ++micro) {
            const int64_t rows = std::min(panel_, m - r), some = std::min(ops_.columns, n - c);
            const bool direct = !packs_ && some == ops_.columns;
            float *const level = sums + micro * microSize();
            MicroTile t;
            t.rowStride = g_.transposeA ? 1 : chunks_.part + kPad;
            t.termStride = g_.transposeA ? panel_ : 1;
            t.bStride = direct ? g_.n : ops_.columns;
            t.terms = leaves_ == 1 ? terms : leaf_;
            t.before = piece == 0 ? nullptr : level + int64_t(levels_) * sumsSize();
            t.next = t.before ? t.before + microSize() : nullptr;
            t.waiting = waiting.data();
            for (int64_t i = 0; i < leaves_; ++i) {
              const int64_t from = i * leaf_;
              t.a = copyA + (g_.transposeA ? r * chunks_.part + from * panel_ : r * t.rowStride + from);
              t.b = direct ? b + (term + from) * g_.n + column + c : copyB + c * chunks_.part + from * ops_.columns;
              t.waitingCount = size_t(std::countr_one(uint64_t(i)));
              for (size_t w = 0; w < t.waitingCount; ++w)
                waiting[w] = small + int64_t(w) * microSize();
              t.yStride = ops_.columns;
              bool whole = false; // the tile's result
              if (i + 1 < leaves_) {
                t.y = small + int64_t(t.waitingCount) * microSize();
              } else if (!ends) {
                t.y = level + int64_t(levels_) * sumsSize();
              } else {
                for (size_t w = 0; w < above; ++w)
                  waiting[t.waitingCount++] = level + int64_t(w) * sumsSize();
                whole = group + 1 == groups;
                t.y = whole ? edge : level + int64_t(above) * sumsSize();
              }
              const bool inPlace = whole && some % ops_.vector == 0;
              if (inPlace) {
                t.y = y + r * g_.n + c;
                t.yStride = g_.n;
              }
              ops_.run(rows, parts(some, ops_.vector), t);
              if (whole && !inPlace)
                for (int64_t line = 0; line < rows; ++line)
                  std::memcpy(y + (r + line) * g_.n + c, edge + line * ops_.columns, size_t(some) * sizeof(float));
            }
          }
      }
  }

  MatMulGeometry g_;
  const ProductOps &ops_;
  int threads_;
  const float *a_, *b_;
  float *y_;
  int64_t leaf_, leaves_; // terms of a leaf; leaves of a chunk, 1 where a leaf has several chunks
  Cut chunks_;            // of leaves_ leaves
  size_t levels_;         // of the tree above chunks
  Cut rows_, columns_;
  int64_t panel_ = 1; // rows of a micro tile
  bool packs_ = true; // B is copied
};

bool accepts(const KernelCall &call) {
  const auto fits = [](const TensorView &v) { return v.dtype == plan::F32 && v.elements() > 0; };
  return call.exact && productOps() && acceptsPlain(call) &&
         std::all_of(call.inputs.begin(), call.inputs.end(), fits) &&
         std::all_of(call.outputs.begin(), call.outputs.end(), fits);
}

BindResult bind(const KernelCall &call) { return BindResult(bindOrderedMatMul(call, *productOps())); }

} // namespace

std::unique_ptr<BoundKernel> bindOrderedMatMul(const KernelCall &call, const ProductOps &ops) {
  return std::make_unique<OrderedMatMul>(call, *matmulGeometry(call), ops);
}

void registerOrderedMatMul(KernelRegistry &registry) { registry.add("matmul", {"ordered product", accepts, bind}); }

} // namespace tessera::rt
