//===- PairTiles.h - products of pairs of BF16 by tiles (AMX) ------------------------------------------------===//
//
// An instruction multiplies 16 rows of 16 pairs by 16 pairs of 16 columns, and adds to 16 x 16 sums in F32. Sums of
// 32 x 32 stay in registers until all pairs are added.
//
//   if (const PairTiles *tiles = pairTiles())
//     tiles->multiply({.a = q, .aRow = 400, .aPair = 1, .b = k, .bPanel = 32 * 32, .c = s, .cRow = 208, .cPanel = 32,
//                      .rows = 100, .columns = 197, .pairs = 32}, packed);
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CPU_ATTENTION_PAIRTILES_H
#define TESSERA_RUNTIME_BACKEND_CPU_ATTENTION_PAIRTILES_H

#include <cstdint>

namespace tessera::rt {

/// c = a b, or c += a b. A pair is as large as a float. Columns lie in panels of kPanel, of which c has whole vectors.
struct PairProduct {
  static constexpr int64_t kPanel = 32;
  const float *a;      // a[row * aRow + pair * aPair]
  int64_t aRow, aPair; // one of them is 1
  const float *b;      // b[panel * bPanel + pair * kPanel + column]
  int64_t bPanel;
  float *c; // c[row * cRow + panel * cPanel + column]
  int64_t cRow, cPanel;
  int64_t rows, columns, pairs;
  bool adds = false;
};

struct PairTiles {
  /// `packed` has room for packedFloats(pairs).
  void (*multiply)(const PairProduct &product, float *packed);
  static int64_t packedFloats(int64_t pairs) { return PairProduct::kPanel * ((pairs + 31) / 32 * 32); }
};

/// Null where this processor has no tiles (InstructionSet.h).
const PairTiles *pairTiles();

} // namespace tessera::rt

#endif
