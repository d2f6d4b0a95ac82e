// A tile of the result is computed by one thread, chunk by chunk of its terms. A chunk is a part of a leaf, a leaf, or
// several neighbouring leaves: as many terms as fit the caches with the tile's columns of B, which are copied there. Rows
// of A are copied panel by panel. What is copied next is fetched while products are computed, since copies alone would
// wait for memory: without that they cost a tenth of the time.
//
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
#include <optional>

namespace tessera::rt {
namespace {

// A panel of A is 12 KiB then, the columns of B 384 KiB: the first cache, and as much of the second as leaves room for the
// columns that come next. Of the sizes tried (192 to 512 terms, 120 to 768 rows, 256 to 1,024 columns) these are the
// fastest for the products of an MLP, GPT-2 and a ViT.
constexpr int64_t kTerms = 256, kTileRows = 768, kTileColumns = 384;
constexpr int64_t kLine = 16;      // numbers of a line of the cache
constexpr int64_t kPad = kLine;    // between copied rows: rows a power of two apart would share lines of the cache
constexpr size_t kMostLevels = 32; // of a tree
// What a copied row of A and a copied column of B cost, in columns and rows of products.
constexpr double kCopyRow = 1, kCopyColumn = 3; // copies of columns may transpose

int64_t parts(int64_t n, int64_t most) { return (n + most - 1) / most; }

/// A length in `count` equal parts, each a multiple of `grain` but the last one. Of few elements there may be fewer.
struct Cut {
  int64_t length = 1, part = 1;
  Cut() = default;
  Cut(int64_t length, int64_t count, int64_t grain)
      : length(length), part(std::min(length, parts(parts(length, count), grain) * grain)) {}
  int64_t count() const { return parts(length, part); }
  int64_t begin(int64_t i) const { return i * part; }
  int64_t size(int64_t i) const { return std::min(part, length - begin(i)); }
};

/// A part of a row-major matrix, which is fetched into the second cache before it is read.
struct Source {
  const float *data = nullptr;
  int64_t rows = 0, columns = 0, stride = 0;
  /// Fetches part `part` of `count`.
  void fetch(int64_t part, int64_t count) const {
    for (int64_t r = rows * part / count; r < rows * (part + 1) / count; ++r)
      for (int64_t c = 0; c < columns; c += kLine)
        __builtin_prefetch(data + r * stride + c, 0, 2);
  }
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
        chunks_(leaf_ * leaves_, parts(leaf_ * leaves_, kTerms), 1),
        levels_(size_t(std::countr_zero(uint64_t(g_.leaves / leaves_)))) {
    chooseTiles();
    panel_ = parts(rows_.part, parts(rows_.part, ops.rows));
    packs_ = g_.transposeB || rows_.part > ops.rows;
  }

  size_t scratchBytes() const override { return size_t(threads_) * perThread(); }
  int threads() const override { return threads_; }
  std::string describe() const override {
    return std::string("ordered product ") + ops_.isa + ", " + std::to_string(g_.leaves) +
           (g_.leaves == 1 ? " leaf" : " leaves") + " in tiles of " + std::to_string(rows_.part) + " x " +
           std::to_string(columns_.part) + " x " + std::to_string(chunks_.part);
  }

  Status run(std::byte *scratch) override {
    const int64_t all = elementCount(g_.batch) * rows_.count() * columns_.count();
    parallelFor(threads_, threads_, [&](int64_t first, int64_t last) {
      for (int64_t t = first; t < last; ++t) {
        float *const memory = reinterpret_cast<float *>(scratch + size_t(t) * perThread());
        const int64_t end = all * (t + 1) / threads_ * chunkCount();
        for (int64_t i = all * t / threads_ * chunkCount(); i < end; ++i)
          compute(memory, at(i), i + 1 < end ? std::optional(at(i + 1)) : std::nullopt);
      }
    });
    return Status();
  }

private:
  /// A chunk of a tile of a matrix.
  struct Chunk {
    const float *a, *b; // the tile's first row and first column
    float *y;
    int64_t rows, columns; // of the tile
    int64_t group, piece;  // leaves number group * leaves_ and following; the part of the only leaf
    int64_t firstTerm, terms;
  };

  /// As few tiles as fit the caches, and as many for each thread as for the others. Cutting costs: rows of A are copied
  /// for every tile of columns, columns of B for every tile of rows.
  void chooseTiles() {
    const int64_t matrices = elementCount(g_.batch);
    const int64_t fewestRows = parts(g_.m, kTileRows), fewestColumns = parts(g_.n, kTileColumns);
    double least = 0;
    for (int64_t r = fewestRows; r <= fewestRows + threads_; ++r)
      for (int64_t c = fewestColumns; c <= fewestColumns + threads_; ++c) {
        const Cut rows(g_.m, r, 1), columns(g_.n, c, ops_.columns);
        const int64_t m = parts(rows.part, ops_.rows) * ops_.rows, n = parts(columns.part, ops_.columns) * ops_.columns;
        const double time = double(parts(matrices * rows.count() * columns.count(), threads_)) *
                            (double(m * n) + kCopyRow * double(m) + kCopyColumn * double(n));
        if (least == 0 || time < least) {
          least = time;
          rows_ = rows;
          columns_ = columns;
        }
      }
  }

  int64_t chunkCount() const { return g_.leaves / leaves_ * chunks_.count(); }

  /// All tiles' chunks in order: the chunks of a tile follow each other.
  Chunk at(int64_t i) const {
    const int64_t tile = i / chunkCount(), chunk = i % chunkCount(), perMatrix = rows_.count() * columns_.count();
    const int64_t matrix = tile / perMatrix, tileRow = tile % perMatrix % rows_.count(),
                  tileColumn = tile % perMatrix / rows_.count();
    const auto [matrixA, matrixB] = g_.operands(matrix);
    const int64_t row = rows_.begin(tileRow), column = columns_.begin(tileColumn);
    Chunk c;
    c.group = chunk / chunks_.count();
    c.piece = chunk % chunks_.count();
    c.firstTerm = c.group * leaves_ * leaf_ + chunks_.begin(c.piece);
    c.terms = chunks_.size(c.piece);
    c.rows = rows_.size(tileRow);
    c.columns = columns_.size(tileColumn);
    c.a = a_ + matrixA * g_.m * g_.k + (g_.transposeA ? row : row * g_.k);
    c.b = b_ + matrixB * g_.k * g_.n + (g_.transposeB ? column * g_.k : column);
    c.y = y_ + (matrix * g_.m + row) * g_.n + column;
    return c;
  }

  Source panel(const Chunk &c, int64_t row) const {
    const int64_t rows = std::min(panel_, c.rows - row);
    return g_.transposeA ? Source{c.a + c.firstTerm * g_.m + row, c.terms, rows, g_.m}
                         : Source{c.a + row * g_.k + c.firstTerm, rows, c.terms, g_.k};
  }
  Source columns(const Chunk &c) const {
    return g_.transposeB ? Source{c.b + c.firstTerm, c.columns, c.terms, g_.k}
                         : Source{c.b + c.firstTerm * g_.n, c.terms, c.columns, g_.n};
  }

  /// What a thread has in scratch memory, in numbers.
  int64_t microSize() const { return ops_.rows * ops_.columns; }
  int64_t sumsSize() const { return parts(rows_.part, panel_) * parts(columns_.part, ops_.columns) * microSize(); }
  int64_t panelSize() const { return ops_.rows * (chunks_.part + kPad); }
  int64_t columnsSize() const { return parts(columns_.part, ops_.columns) * ops_.columns * chunks_.part; }
  size_t perThread() const {
    const int64_t numbers =
        panelSize() + columnsSize() + int64_t(levels_ + 1) * sumsSize() + int64_t(kMostLevels + 1) * microSize();
    return aligned(size_t(numbers) * sizeof(float));
  }

  /// Rows of A side by side: as they are, or term by term where A is transposed.
  void packPanel(float *to, const Source &from) const {
    const int64_t stride = g_.transposeA ? panel_ : chunks_.part + kPad;
    for (int64_t r = 0; r < from.rows; ++r)
      std::memcpy(to + r * stride, from.data + r * from.stride, size_t(from.columns) * sizeof(float));
  }

  void packColumns(float *to, const Chunk &chunk) const {
    const Source from = columns(chunk);
    for (int64_t c = 0; c < chunk.columns; c += ops_.columns, to += ops_.columns * chunks_.part) {
      const int64_t some = std::min(ops_.columns, chunk.columns - c);
      if (g_.transposeB)
        ops_.packTransposed(to, from.data + c * from.stride, from.stride, chunk.terms, some);
      else if (packs_ || some < ops_.columns)
        ops_.packColumns(to, from.data + c, from.stride, chunk.terms, some);
    }
  }

  void compute(float *memory, const Chunk &chunk, const std::optional<Chunk> &next) const {
    float *const copyB = memory, *const copyA = copyB + columnsSize(), *const sums = copyA + panelSize();
    float *const small = sums + int64_t(levels_ + 1) * sumsSize();
    float *const edge = small + int64_t(kMostLevels) * microSize();

    const bool ends = chunk.piece + 1 == chunks_.count(), last = ends && (chunk.group + 1) * leaves_ == g_.leaves;
    const auto above = size_t(std::countr_one(uint64_t(chunk.group)));
    const int64_t across = parts(chunk.columns, ops_.columns), all = parts(chunk.rows, panel_) * across;
    const Source nextColumns = next && packs_ ? columns(*next) : Source();
    packColumns(copyB, chunk);
    std::array<const float *, 2 * kMostLevels> waiting{};
    int64_t micro = 0;
    for (int64_t r = 0; r < chunk.rows; r += panel_) {
      packPanel(copyA, panel(chunk, r));
      const Source nextPanel = r + panel_ < chunk.rows ? panel(chunk, r + panel_) : next ? panel(*next, 0) : Source();
      for (int64_t c = 0; c < chunk.columns; c += ops_.columns, ++micro) {
        nextPanel.fetch(micro % across, across);
        nextColumns.fetch(micro, all);
        const int64_t rows = std::min(panel_, chunk.rows - r), some = std::min(ops_.columns, chunk.columns - c);
        const bool direct = !packs_ && some == ops_.columns;
        float *const level = sums + micro * microSize(), *const unfinished = level + int64_t(levels_) * sumsSize();
        MicroTile t;
        t.rowStride = g_.transposeA ? 1 : chunks_.part + kPad;
        t.termStride = g_.transposeA ? panel_ : 1;
        t.bStride = direct ? g_.n : ops_.columns;
        t.terms = leaves_ == 1 ? chunk.terms : leaf_;
        t.before = chunk.piece == 0 ? nullptr : unfinished;
        t.next = t.before ? t.before + microSize() : nullptr;
        t.waiting = waiting.data();
        for (int64_t i = 0; i < leaves_; ++i) {
          const int64_t term = i * leaf_;
          t.a = copyA + term * t.termStride;
          t.b = direct ? chunk.b + (chunk.firstTerm + term) * g_.n + c : copyB + c * chunks_.part + term * ops_.columns;
          t.waitingCount = size_t(std::countr_one(uint64_t(i)));
          for (size_t w = 0; w < t.waitingCount; ++w)
            waiting[w] = small + int64_t(w) * microSize();
          t.y = small + int64_t(t.waitingCount) * microSize();
          t.yStride = ops_.columns;
          const bool result = last && i + 1 == leaves_;
          const bool inPlace = result && some % ops_.vector == 0;
          if (i + 1 == leaves_) {
            for (size_t w = 0; ends && w < above; ++w)
              waiting[t.waitingCount++] = level + int64_t(w) * sumsSize();
            t.y = result ? edge : ends ? level + int64_t(above) * sumsSize() : unfinished;
          }
          if (inPlace) {
            t.y = chunk.y + r * g_.n + c;
            t.yStride = g_.n;
          }
          ops_.run(rows, parts(some, ops_.vector), t);
          if (result && !inPlace)
            for (int64_t line = 0; line < rows; ++line)
              std::memcpy(chunk.y + (r + line) * g_.n + c, edge + line * ops_.columns, size_t(some) * sizeof(float));
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
