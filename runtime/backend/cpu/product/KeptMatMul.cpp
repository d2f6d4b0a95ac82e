// A thread has some rows and some panels of columns. Panel by panel it goes over a block of its rows, which the second
// cache holds together with a panel; the next panel is fetched from memory meanwhile. Of more terms than that cache has
// room for there are chunks, whose sums go on where the chunk before left them.
#include "runtime/backend/cpu/product/KeptMatMul.h"

#include "runtime/backend/Parallel.h"
#include "runtime/backend/cpu/product/KeptColumns.h"
#include "runtime/backend/cpu/product/OrderedMatMul.h"
#include "runtime/backend/cpu/product/OrderedProduct.h"
#include "runtime/plan/Alignment.h"

#include <algorithm>
#include <cstring>

namespace tessera::rt {
namespace {

// Of a block of A 512 KiB lie in the second cache, next to a panel of columns of 96 KiB and the one that comes next.
constexpr int64_t kMostTerms = 768, kBlockNumbers = 128 * 1024;
constexpr int64_t kLine = 16;              // numbers of a line of the cache
constexpr int64_t kReadPanel = 24;         // what reading a panel from memory costs, in rows of products
constexpr int64_t kFewestRows = 16;        // for fewer any product waits for B, however it lies
constexpr int64_t kLeastShare = 64 * 1024; // products, so that another thread saves more than it takes to wake it

int64_t parts(int64_t n, int64_t most) { return (n + most - 1) / most; }

class KeptMatMul final : public BoundKernel {
public:
  KeptMatMul(const KernelCall &call, const ProductOps &ops, MatMulGeometry g, KeptColumns columns)
      : ops_(ops), g_(std::move(g)), threads_(threadsFor(call.threads)), a_(call.inputs[0].as<float>()),
        b_(call.inputs[1].as<float>()), y_(call.outputs[0].as<float>()), columns_(std::move(columns)),
        terms_(g_.k, parts(g_.k, kMostTerms), kLine) {
    shareOut();
    const int64_t most = std::max(ops.rows, kBlockNumbers / terms_.largest() / ops.rows * ops.rows);
    block_ = Cut(rows_.largest(), parts(rows_.largest(), most), ops.rows).largest();
    if (terms_.count > 1)
      sums_ = panels_.largest() * block_ * ops.columns;
  }

  Status run(std::byte *scratch) override {
    columns_.renew(threads_, [this](float *to, int64_t matrix, int64_t column, int64_t count) {
      const float *const b = b_ + matrix * g_.k * g_.n;
      if (g_.transposeB)
        ops_.packTransposed(to, b + column * g_.k, g_.k, g_.k, count);
      else
        ops_.packColumns(to, b + column, g_.n, g_.k, count);
    });
    parallelFor(threads_, rows_.count * panels_.count, [&](int64_t first, int64_t last) {
      for (int64_t share = first; share < last; ++share)
        for (int64_t matrix = 0; matrix < elementCount(g_.batch); ++matrix)
          compute(reinterpret_cast<float *>(scratch + size_t(share) * perShare()), matrix, share);
    });
    return Status();
  }
  size_t scratchBytes() const override { return size_t(rows_.count * panels_.count) * perShare(); }
  size_t keptBytes() const override { return columns_.bytes(); }
  std::string describe() const override {
    return std::string("product with kept columns ") + ops_.isa + ", " + std::to_string(rows_.count) + " x " +
           std::to_string(panels_.count) + " shares";
  }

private:
  int threadsFor(int most) const {
    const int64_t all = elementCount(g_.batch) * g_.m * g_.n * g_.k;
    return int(std::clamp<int64_t>(all / kLeastShare, 1, most));
  }
  /// Rows and panels over threads, so that the largest share takes the least time.
  void shareOut() {
    int64_t least = 0;
    for (int64_t r = 1; r <= threads_; ++r) {
      if (threads_ % r)
        continue;
      const Cut rows(g_.m, r, 1), panels(columns_.panels(), threads_ / r, 1);
      const int64_t largest = (rows.largest() + kReadPanel) * panels.largest();
      if (least == 0 || largest < least) {
        least = largest;
        rows_ = rows;
        panels_ = panels;
      }
    }
  }
  size_t perShare() const { return aligned(size_t(sums_ + ops_.rows * ops_.columns) * sizeof(float)); }

  void compute(float *memory, int64_t matrix, int64_t share) const {
    const int64_t i = share / panels_.count, j = share % panels_.count;
    const int64_t end = rows_.begin(i) + rows_.size(i);
    for (int64_t row = rows_.begin(i); row < end; row += block_)
      for (int64_t chunk = 0; chunk < terms_.count; ++chunk)
        for (int64_t p = 0; p < panels_.size(j); ++p) {
          const bool goesOn = p + 1 < panels_.size(j);
          const int64_t next = goesOn ? chunk : (chunk + 1) % terms_.count;
          const float *const first = columns_.panel(g_.operands(matrix).second, panels_.begin(j));
          const float *const fetched = first + ((goesOn ? p + 1 : 0) * g_.k + terms_.begin(next)) * ops_.columns;
          const bool last = !goesOn && chunk + 1 == terms_.count && row + block_ >= end;
          computePanel(memory, {matrix, row, std::min(block_, end - row), terms_.begin(chunk), terms_.size(chunk)},
                       panels_.begin(j) + p, p, last ? nullptr : fetched);
        }
  }

  /// Some rows by one panel, chunk of terms by chunk. `place` is the panel's among those of the share.
  void computePanel(float *memory, const Panel &rows, int64_t panel, int64_t place, const float *fetched) const {
    const int64_t column = panel * ops_.columns, some = std::min(ops_.columns, g_.n - column);
    const bool begins = rows.term == 0, ends = rows.term + rows.terms == g_.k, whole = some % ops_.vector == 0;
    const auto [matrixA, matrixB] = g_.operands(rows.matrix);
    const float *const a = a_ + matrixA * g_.m * g_.k + rows.term * (g_.transposeA ? g_.m : 1);
    float *const edge = memory + sums_;
    Fetch next, none;
    next.next = next.row = next.plane = fetched;
    next.left = next.lines = parts(rows.terms * ops_.columns, kLine);
    next.rowsLeft = next.rows = 1;
    MicroTile t;
    t.rowStride = g_.transposeA ? 1 : g_.k;
    t.termStride = g_.transposeA ? g_.m : 1;
    t.b = columns_.panel(matrixB, panel) + rows.term * ops_.columns;
    t.bStride = ops_.columns;
    t.bVectorStride = ops_.vector;
    t.terms = rows.terms;
    t.fetch[0] = &next;
    t.fetch[1] = &none;
    const int64_t tiles = parts(rows.count, ops_.rows), tile = parts(rows.count, tiles);
    const int64_t lines = parts(next.lines, tiles); // of a micro tile
    int64_t left = fetched ? next.lines : 0;
    for (int64_t r = 0; r < rows.count; r += tile) {
      const int64_t row = rows.first + r, count = std::min(tile, rows.count - r);
      float *const sum = memory + (place * block_ + r) * ops_.columns, *const y = y_ +
                                                                                  (rows.matrix * g_.m + row) * g_.n +
                                                                                  column;
      t.a = a + row * (g_.transposeA ? 1 : g_.k);
      t.before = begins ? nullptr : sum;
      t.y = !ends ? sum : whole ? y : edge;
      t.yStride = ends && whole ? g_.n : ops_.columns;
      t.yVectorStride = ops_.vector;
      next.now = std::min(lines, left);
      left -= next.now;
      ops_.run(count, some > ops_.vector ? 2 : 1, t);
      for (int64_t k = 0; ends && !whole && k < count; ++k)
        std::memcpy(y + k * g_.n, edge + k * ops_.columns, size_t(some) * sizeof(float));
    }
  }

  const ProductOps &ops_;
  MatMulGeometry g_;
  int threads_;
  const float *a_, *b_;
  float *y_;
  KeptColumns columns_;
  Cut terms_, rows_, panels_; // chunks of terms; rows and panels of shares
  int64_t block_ = 0;         // rows
  int64_t sums_ = 0;          // numbers that a chunk leaves for the next
};

bool accepts(const KernelCall &call) {
  if (!call.inputs[1].edition || !acceptsProduct(call) || !acceptsPlain(call))
    return false;
  const MatMulGeometry g = joinRows(*matmulGeometry(call));
  return g.leaves == 1 && g.m >= kFewestRows;
}

BindResult bind(const KernelCall &call) { return bindKeptMatMul(call, *productOps()); }

} // namespace

BindResult bindKeptMatMul(const KernelCall &call, const ProductOps &ops) {
  MatMulGeometry g = joinRows(*matmulGeometry(call));
  Result<KeptColumns> columns = KeptColumns::of(call.inputs[1], ops, g.n, g.k);
  if (!columns)
    return columns.status();
  return BindResult(std::make_unique<KeptMatMul>(call, ops, std::move(g), std::move(*columns)));
}

void registerKeptMatMul(KernelRegistry &registry) { registry.add("matmul", {"kept columns", accepts, bind}); }

} // namespace tessera::rt
