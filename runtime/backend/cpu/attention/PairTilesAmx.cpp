// The products of PairTiles.h, in AMX's instructions. Tiles 0 to 3 hold the sums of two rows of tiles by two columns of
// tiles, 4 and 5 rows of a, 6 and 7 columns of b: two loads for four products each.
#include "runtime/backend/cpu/attention/PairTiles.h"
#include "runtime/backend/cpu/product/ProductOps.h"

#include <algorithm>
#include <cstring>
#include <immintrin.h>

namespace tessera::rt::amx {
namespace {

constexpr int64_t kTile = 16;        // rows, columns and pairs of a tile
constexpr int64_t kRows = 2 * kTile; // of a group of rows
constexpr int64_t kPanel = PairProduct::kPanel;
static_assert(kPanel == 2 * kTile);

/// What `ldtilecfg` reads.
struct alignas(64) Configuration {
  uint8_t palette = 1, start = 0, reserved[14] = {};
  uint16_t bytesOfRow[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(Configuration) == 64);

/// A tile: its first number, and bytes from row to row.
struct Place {
  const float *at;
  int64_t stride;
};

/// A group of rows of a, where tiles can be loaded: as it lies, or packed in blocks of kPanel pairs,
/// packed[block][row][pair], with 0 behind the last pair. Rows behind the last one of a give sums that nobody stores.
class RowsOfA {
public:
  RowsOfA(const PairProduct &p, int64_t first, int64_t rows, float *packed)
      : data_(p.a + first * p.aRow), stride_(p.aRow),
        inPlace_(p.aPair == 1 && rows % kTile == 0 && p.pairs % kTile == 0) {
    if (inPlace_)
      return;
    for (int64_t pair = 0; pair < p.pairs; pair += kPanel) {
      const int64_t some = std::min(kPanel, p.pairs - pair);
      float *const to = packed + pair * kRows;
      if (p.aPair != 1) {
        pairOps()->packTransposed(to, p.a + first + pair * p.aPair, p.aPair, rows, some);
        continue;
      }
      for (int64_t r = 0; r < rows; ++r) {
        std::memcpy(to + r * kPanel, data_ + r * stride_ + pair, size_t(some) * sizeof(float));
        std::fill(to + r * kPanel + some, to + (r + 1) * kPanel, 0.0f);
      }
    }
    data_ = packed;
  }

  Place tile(int64_t row, int64_t pair) const {
    if (inPlace_)
      return {data_ + row * stride_ + pair, stride_ * int64_t(sizeof(float))};
    return {data_ + pair / kPanel * kPanel * kRows + row * kPanel + pair % kPanel, kPanel * int64_t(sizeof(float))};
  }

private:
  const float *data_;
  int64_t stride_;
  bool inPlace_;
};

// The compiler's own functions take no template argument for a tile, and do not say that they read and write memory.
template <int Tile> void load(const float *from, int64_t bytes) {
  asm volatile("tileloadd\t(%0,%1,1), %%tmm%c2" : : "r"(from), "r"(bytes), "i"(Tile) : "memory");
}
template <int Tile> void storeWhole(float *to, int64_t bytes) {
  asm volatile("tilestored\t%%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(bytes), "i"(Tile) : "memory");
}
template <int Tile> void zero() { asm volatile("tilezero\t%%tmm%c0" : : "i"(Tile)); }
/// sums += a b
template <int Sums, int A, int B> void multiplyAdd() {
  asm volatile("tdpbf16ps\t%%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(Sums), "i"(A), "i"(B));
}

/// c's tile at `to`, of which `rows` are there.
template <int Tile> void store(float *to, int64_t stride, int64_t rows) {
  if (rows >= kTile) {
    storeWhole<Tile>(to, stride * int64_t(sizeof(float)));
    return;
  }
  alignas(64) float sums[kTile][kTile];
  storeWhole<Tile>(sums[0], sizeof sums[0]);
  for (int64_t r = 0; r < rows; ++r)
    std::memcpy(to + r * stride, sums[r], sizeof sums[r]);
}
template <int Tile> void begin(const float *from, int64_t stride, int64_t rows, bool adds) {
  if (!adds) {
    zero<Tile>();
  } else if (rows >= kTile) {
    load<Tile>(from, stride * int64_t(sizeof(float)));
  } else {
    alignas(64) float sums[kTile][kTile] = {};
    for (int64_t r = 0; r < rows; ++r)
      std::memcpy(sums[r], from + r * stride, sizeof sums[r]);
    load<Tile>(sums[0], sizeof sums[0]);
  }
}

/// One group of rows by one panel, of which there are one or two rows and columns of tiles.
template <bool Rows, bool Columns>
void multiplyPanel(const PairProduct &p, const RowsOfA &a, const float *b, const float *tail, float *c, int64_t rows) {
  begin<0>(c, p.cRow, rows, p.adds);
  if constexpr (Columns)
    begin<1>(c + kTile, p.cRow, rows, p.adds);
  if constexpr (Rows)
    begin<2>(c + kTile * p.cRow, p.cRow, rows - kTile, p.adds);
  if constexpr (Rows && Columns)
    begin<3>(c + kTile * p.cRow + kTile, p.cRow, rows - kTile, p.adds);
  for (int64_t pair = 0; pair < p.pairs; pair += kTile) {
    const float *const right = pair + kTile <= p.pairs ? b + pair * kPanel : tail;
    constexpr int64_t stride = kPanel * int64_t(sizeof(float));
    Place left = a.tile(0, pair);
    load<4>(left.at, left.stride);
    load<6>(right, stride);
    multiplyAdd<0, 4, 6>();
    if constexpr (Columns) {
      load<7>(right + kTile, stride);
      multiplyAdd<1, 4, 7>();
    }
    if constexpr (Rows) {
      left = a.tile(kTile, pair);
      load<5>(left.at, left.stride);
      multiplyAdd<2, 5, 6>();
    }
    if constexpr (Rows && Columns)
      multiplyAdd<3, 5, 7>();
  }
  store<0>(c, p.cRow, rows);
  if constexpr (Columns)
    store<1>(c + kTile, p.cRow, rows);
  if constexpr (Rows)
    store<2>(c + kTile * p.cRow, p.cRow, rows - kTile);
  if constexpr (Rows && Columns)
    store<3>(c + kTile * p.cRow + kTile, p.cRow, rows - kTile);
}

void multiply(const PairProduct &p, float *packed) {
  static const Configuration configuration;
  _tile_loadconfig(&configuration);
  // Behind the last pair b may hold anything, also NaNs.
  alignas(64) float tail[kTile * kPanel];
  for (int64_t first = 0; first < p.rows; first += kRows) {
    const int64_t rows = std::min(kRows, p.rows - first);
    const RowsOfA a(p, first, rows, packed);
    for (int64_t panel = 0; panel * kPanel < p.columns; ++panel) {
      const float *const b = p.b + panel * p.bPanel;
      if (const int64_t rest = p.pairs % kTile) {
        std::memcpy(tail, b + (p.pairs - rest) * kPanel, size_t(rest * kPanel) * sizeof(float));
        std::fill(tail + rest * kPanel, tail + kTile * kPanel, 0.0f);
      }
      float *const c = p.c + first * p.cRow + panel * p.cPanel;
      const bool columns = p.columns - panel * kPanel > kTile;
      if (rows > kTile)
        (columns ? multiplyPanel<true, true> : multiplyPanel<true, false>)(p, a, b, tail, c, rows);
      else
        (columns ? multiplyPanel<false, true> : multiplyPanel<false, false>)(p, a, b, tail, c, rows);
    }
  }
  _tile_release(); // libraries configure tiles for themselves
}

} // namespace

extern const PairTiles kPairTiles;
const PairTiles kPairTiles = {multiply};

} // namespace tessera::rt::amx
