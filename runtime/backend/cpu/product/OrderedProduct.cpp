// A tile of the result is computed by one thread, chunk by chunk of its terms. A chunk is a part of a leaf, a leaf,
// or several neighbouring leaves: as many terms as fit the caches with the tile's columns of B, which are copied
// there. Channels in blocks are read where they lie, rows and columns. Other rows of A are copied panel by panel.
// Where rows lie side by side, a panel of 12 of them begins and ends amid lines of the cache: then four panels are
// copied at once. What is read next is fetched while products are computed, since copies alone would wait for memory:
// without that they cost a tenth of the time. The innermost loops fetch lines between terms. Many at once would wait
// for each other, which took 6 % of the time.
//
// What a function returns for a micro tile fits registers: a read of two numbers that were written one by one waits
// until all stores before them, those of the result, are in the cache.
//
// Of what a chunk leaves behind, a binary counter says what it is added to: after leaf number i, as many sums are
// complete as i has ones at its end (0: none, 1: l0 + l1, 3: l2 + l3, and that to l0 + l1).
//
// The scheme of copies and tiles is that of Goto and van de Geijn, "Anatomy of High-Performance Matrix
// Multiplication" (2008), with A's panel in the first cache and B's in the second.
#include "runtime/backend/cpu/product/OrderedProduct.h"

#include "runtime/backend/Parallel.h"
#include "runtime/plan/Alignment.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>

namespace tessera::rt {
namespace {

// A panel of A is 12 KiB then, the columns of B 384 KiB: the first cache, and as much of the second as leaves room for
// the columns that come next. Of the sizes tried (192 to 512 terms, 120 to 768 rows, 256 to 1,024 columns) these are
// the fastest for the products of an MLP, GPT-2 and a ViT.
constexpr int64_t kTerms = 256, kTileRows = 768, kTileColumns = 384;
constexpr int64_t kLeastColumns = 16; // of a micro tile, on any processor
constexpr int64_t kMostTerms =
    384;                      // of a chunk of whole leaves: sums that go on in the next chunk are stored and read again
constexpr int64_t kLine = 16; // numbers of a line of the cache
static_assert(kCopiedRowStride > kMostTerms && kCopiedRowStride % (2 * kLine) == kLine); // no lines share a cache's set
constexpr int64_t kPanels = 4;     // that are copied at once where rows lie side by side: three lines, not parts of two
constexpr size_t kMostLevels = 32; // of a tree
// What a copied row of A and a copied column of B cost, in columns and rows of products.
constexpr double kCopyRow = 8, kCopyColumn = 24; // copies of columns may transpose, and often come from memory
// By how much a product takes longer where each thread reads and writes rows of all threads: other steps give the first
// rows to the first thread, too, and caches that cores do not share pass lines on at a third of their speed.
constexpr double kRowsOfOthers = 1.03;

int64_t parts(int64_t n, int64_t most) { return (n + most - 1) / most; }

/// Of the parts' sizes in whole micro tiles, each of which has `most`.
double mean(const Cut &cut, int64_t most) {
  int64_t sum = 0;
  for (int64_t i = 0; i < cut.count; ++i)
    sum += parts(cut.size(i), most) * most;
  return double(sum) / double(cut.count);
}

/// Fetches a source into a cache by so many micro tiles.
class FetchAll {
public:
  FetchAll(const Source &source, int64_t tiles) {
    if (!source.data)
      return;
    const int64_t run = source.pieces ? source.piece : source.columns;
    fetch_.left = fetch_.lines = parts(run, kLine);
    // Counted from the end of a run: where it begins amid a line, that came with what lies before it.
    fetch_.next = fetch_.row = fetch_.plane = source.data + (run - 1 - (fetch_.lines - 1) * kLine);
    fetch_.runs = source.pieces;
    if (source.pieces) {
      fetch_.unit = source.piece;
      fetch_.runCount = source.columns / source.piece;
      fetch_.next += source.pieces[0] * source.piece;
    }
    fetch_.rowsLeft = fetch_.rows = source.rows;
    fetch_.stride = source.stride;
    fetch_.planeStride = source.planeStride;
    left_ = source.planes * source.rows * fetch_.runCount * fetch_.lines;
    some_ = parts(left_, tiles);
  }
  /// What the next tile fetches.
  Fetch *next() {
    fetch_.now = std::min(some_, left_);
    left_ -= fetch_.now;
    return &fetch_;
  }

private:
  Fetch fetch_;
  int64_t left_ = 0, some_ = 0; // lines of all tiles to come, of a tile
};

} // namespace

bool acceptsProduct(const KernelCall &call) {
  const auto fits = [](const TensorView &v) { return v.dtype == plan::F32 && v.elements() > 0; };
  return productOps() && std::ranges::all_of(call.inputs, fits) && std::ranges::all_of(call.outputs, fits);
}

bool acceptsOrdered(const KernelCall &call) { return call.exact && acceptsProduct(call); }

Cut::Cut(int64_t length, int64_t count, int64_t grain)
    : length(length), grain(grain), count(std::min(count, parts(length, grain))) {}

OrderedProduct::OrderedProduct(const ProductSizes &sizes, int threads, const ProductOps &ops,
                               std::unique_ptr<ProductOperands> operands)
    : sizes_(sizes), threads_(threads), ops_(ops), operands_(std::move(operands)), leaf_(sizes.k / sizes.leaves),
      leaves_(std::min<int64_t>(sizes.leaves, std::bit_floor(uint64_t(std::max<int64_t>(kMostTerms / leaf_, 1))))),
      chunks_(leaf_ * leaves_, leaf_ * leaves_ > kMostTerms ? parts(leaf_ * leaves_, kTerms) : 1, kLine),
      levels_(size_t(std::countr_zero(uint64_t(sizes.leaves / leaves_)))),
      termsSideBySide_(operands_->termsSideBySide()), sideBySide_(operands_->columnsAreLines()),
      strides_(operands_->strides(ops)), rowBlock_(operands_->rowBlock()), micro_(ops.rows * ops.columns) {
  chooseTiles();
  // Of rows in blocks, a micro tile has a part of one block, so that each of its terms is one piece of memory.
  const int64_t most = int64_t(std::bit_floor(uint64_t(ops.rows)));
  panel_ = rowBlock_ > 1 && rowBlock_ % most == 0 ? most : parts(rows_.largest(), parts(rows_.largest(), ops.rows));
  const bool severalPanels = !termsSideBySide_ && rowBlock_ == 1;
  group_ = panel_ * (severalPanels ? kPanels : 1);
  rowStride_ = termsSideBySide_ ? kCopiedRowStride : group_;
  copiedRows_ = termsSideBySide_ ? panel_ * rowStride_ : chunks_.largest() * rowStride_;
  const int64_t across = parts(columns_.largest(), ops.columns);
  sums_ = parts(rows_.largest(), panel_) * across * micro_;
  copiedColumns_ = across * ops.columns * chunks_.largest();
}

std::string OrderedProduct::describe() const {
  return std::string("ordered product ") + ops_.isa + ", " + std::to_string(sizes_.leaves) +
         (sizes_.leaves == 1 ? " leaf" : " leaves") + " in tiles of " + std::to_string(rows_.largest()) + " x " +
         std::to_string(columns_.largest()) + " x " + std::to_string(chunks_.largest());
}

Status OrderedProduct::run(std::byte *scratch) {
  operands_->begin(threads_);
  const int64_t all = sizes_.matrices * rows_.count * columns_.count;
  parallelFor(threads_, threads_, [&](int64_t first, int64_t last) {
    for (int64_t t = first; t < last; ++t) {
      float *const memory = reinterpret_cast<float *>(scratch + size_t(t) * perThread());
      const int64_t end = all * (t + 1) / threads_ * chunkCount();
      bool copied = false;
      for (int64_t i = all * t / threads_ * chunkCount(); i < end; ++i) {
        const Chunk chunk = at(i), next = i + 1 < end ? at(i + 1) : Chunk();
        copied = compute(memory, chunk, i + 1 < end ? &next : nullptr, copied);
      }
    }
  });
  return Status();
}

/// As few tiles as fit the caches, and as many for each thread as for the others. Cutting costs: rows of A are copied
/// for every tile of columns, columns of B for every tile of rows.
void OrderedProduct::chooseTiles() {
  const int64_t fewestRows = parts(sizes_.m, kTileRows), fewestColumns = parts(sizes_.n, kTileColumns);
  double least = 0;
  for (int64_t r = fewestRows; r <= fewestRows + threads_; ++r)
    for (int64_t c = fewestColumns; c <= fewestColumns + threads_; ++c) {
      const Cut rows(sizes_.m, r, 1), columns(sizes_.n, c, ops_.columns);
      const double m = mean(rows, ops_.rows), n = mean(columns, ops_.columns);
      const bool own = sideBySide_ || sizes_.matrices > 1 || rows.count % threads_ == 0;
      const double time = double(parts(sizes_.matrices * rows.count * columns.count, threads_)) *
                          (m * n + kCopyRow * m + kCopyColumn * n) * (own ? 1 : kRowsOfOthers);
      if (least == 0 || time < least) {
        least = time;
        rows_ = rows;
        columns_ = columns;
      }
    }
  bands_ = sizes_.matrices == 1 && rows_.count % threads_ == 0 ? threads_ : 1;
}

/// All tiles' chunks in order: the chunks of a tile follow each other. Copies of columns serve the rows below, of those
/// that are a thread's own if all threads have as many. Without copies tiles lie side by side, which gives a thread
/// rows of its own in any case.
OrderedProduct::Chunk OrderedProduct::at(int64_t i) const {
  const int64_t chunk = i % chunkCount(), perMatrix = rows_.count * columns_.count;
  const int64_t tile = i / chunkCount(), inMatrix = tile % perMatrix;
  const int64_t rows = rows_.count / bands_, inBand = inMatrix % (rows * columns_.count);
  const int64_t tileRow =
      sideBySide_ ? inMatrix / columns_.count : inMatrix / (rows * columns_.count) * rows + inBand % rows;
  const int64_t tileColumn = sideBySide_ ? inMatrix % columns_.count : inBand / rows;
  Chunk c;
  c.matrix = tile / perMatrix;
  c.row = rows_.begin(tileRow);
  c.rows = rows_.size(tileRow);
  c.column = columns_.begin(tileColumn);
  c.columns = columns_.size(tileColumn);
  c.group = chunk / chunks_.count;
  c.piece = chunk % chunks_.count;
  c.term = c.group * leaves_ * leaf_ + chunks_.begin(c.piece);
  c.terms = chunks_.size(c.piece);
  return c;
}

size_t OrderedProduct::perThread() const {
  const int64_t numbers =
      copiedRows_ + copiedColumns_ + int64_t(levels_ + 1) * sums_ + int64_t(kMostLevels + 1) * micro_;
  return aligned(size_t(numbers) * sizeof(float));
}

bool OrderedProduct::compute(float *memory, const Chunk &chunk, const Chunk *next, bool copied) const {
  float *const copyB = memory, *const copyA = copyB + copiedColumns_, *const sums = copyA + copiedRows_;
  float *const small = sums + int64_t(levels_ + 1) * sums_;
  float *const edge = small + int64_t(kMostLevels) * micro_;

  const bool ends = chunk.piece + 1 == chunks_.count, last = ends && (chunk.group + 1) * leaves_ == sizes_.leaves;
  const auto above = size_t(std::countr_one(uint64_t(chunk.group)));
  const int64_t across = parts(chunk.columns, ops_.columns), all = parts(chunk.rows, panel_) * across;
  // Few rows read the columns of B once: where they lie, if that is possible.
  const bool few = chunk.rows <= panel_;
  const bool mayStay = few || operands_->columnsAreLines();
  std::array<InPlace, size_t(kTileColumns / kLeastColumns)> columns;
  for (int64_t c = 0, i = 0; c < chunk.columns; c += ops_.columns, ++i) {
    const Panel panel = chunk.columnPanel(c, std::min(ops_.columns, chunk.columns - c));
    InPlace &place = columns[size_t(i)];
    if (mayStay && panel.count % ops_.vector == 0)
      place = operands_->columnsInPlace(ops_, panel);
    if (place.data)
      continue;
    float *const copy = copyB + c * chunks_.largest();
    if (!copied)
      operands_->packColumns(copy, ops_, panel);
    place = {copy, ops_.columns, ops_.vector};
  }
  const bool again = next && !few && next->sameColumns(chunk);
  FetchAll nextColumns(next && !few && !again ? operands_->columns(next->columnPanel(0, next->columns)) : Source(),
                       all);
  const TermRuns runs = operands_->runs(chunk.term);
  std::array<const float *, kMostLevels> waiting{};
  MicroTile t;
  t.rowStride = termsSideBySide_ ? rowStride_ : 1;
  t.termStride = 1;
  t.terms = leaves_ == 1 ? chunk.terms : leaf_;
  t.leaves = leaves_;
  t.leafSums = small;
  t.waiting = waiting.data();
  int64_t micro = 0;
  for (int64_t g = 0; g < chunk.rows; g += group_) {
    const int64_t inGroup = std::min(group_, chunk.rows - g), below = g + group_;
    const InPlace rowsInPlace =
        rowBlock_ > 1 || termsSideBySide_ ? operands_->rowsInPlace(chunk.rowPanel(g, inGroup)) : InPlace();
    if (!rowsInPlace.data)
      operands_->packRows(copyA, rowStride_, chunk.rowPanel(g, inGroup));
    (termsSideBySide_ ? t.rowStride : t.termStride) = rowsInPlace.data ? rowsInPlace.stride : rowStride_;
    t.aJump = rowsInPlace.jump;
    FetchAll nextRows(below < chunk.rows ? operands_->rows(chunk.rowPanel(below, std::min(group_, chunk.rows - below)))
                      : next             ? operands_->rows(next->rowPanel(0, std::min(group_, next->rows)))
                                         : Source(),
                      across * parts(inGroup, panel_));
    for (int64_t r = 0; r < inGroup; r += panel_) {
      const int64_t row = chunk.row + g + r, rows = std::min(panel_, inGroup - r);
      t.a = (rowsInPlace.data ? rowsInPlace.data : copyA) + r;
      for (int64_t c = 0, i = 0; c < chunk.columns; c += ops_.columns, ++i, ++micro) {
        const int64_t some = std::min(ops_.columns, chunk.columns - c);
        const InPlace &right = columns[size_t(i)];
        float *const level = sums + micro * micro_, *const unfinished = level + int64_t(levels_) * sums_;
        t.b = right.data;
        t.bStride = right.stride;
        t.bVectorStride = right.vectorStride;
        t.bJump = right.jump;
        t.runs = t.aJump != 0 || t.bJump != 0 ? runs : TermRuns();
        t.before = chunk.piece == 0 ? nullptr : unfinished;
        t.next = t.before ? t.before + micro_ : nullptr;
        t.fetch[0] = nextRows.next();
        t.fetch[1] = nextColumns.next();
        t.waitingCount = ends ? above : 0;
        for (size_t w = 0; w < t.waitingCount; ++w)
          waiting[w] = level + int64_t(w) * sums_;
        float *const place = last && some % ops_.vector == 0
                                 ? operands_->place(ops_, chunk.matrix, row, rows, chunk.column + c)
                                 : nullptr;
        const bool stores = last && !place;
        t.y = place ? place : stores ? edge : ends ? level + int64_t(above) * sums_ : unfinished;
        t.yStride = place ? strides_.row : ops_.columns;
        t.yVectorStride = place ? strides_.vector : ops_.vector;
        ops_.run(rows, some > ops_.vector ? 2 : 1, t);
        if (stores)
          operands_->store(edge, ops_, chunk.matrix, row, rows, chunk.column + c, some);
      }
    }
  }
  return again;
}

} // namespace tessera::rt
