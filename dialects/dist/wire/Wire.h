//===- Wire.h - in what numbers the terms of a sum are sent ----------------------------------------===//
//
// A sum of float32 numbers over ranks may send less than its terms (docs/adr/0024-compressed-reductions.md): each
// number in 16 or 8 bits, or, of a matrix, two thin factors of it. No number is added in few bits. Of narrow numbers
// each rank gets the terms of its own part from all others, adds them in float32, and, where every rank wants the whole
// sum, sends its part of it in as few bits. Factors are float32, and summed by all-reduces.
//
//   Wire::parse("bf16"), Wire::parse("int8:block=256"), Wire::parse("f16:always"), Wire::parse("powersgd:rank=4")
//
//   all-reduce of 4 MiB over 4 ranks, bf16 -> all-to-all of 2 MiB, all-gather to 2 MiB
//   reduce-scatter of the same             -> all-to-all of 2 MiB
//   all-reduce of the same, int8           -> an all-to-all and an all-gather of 1 MiB, and of 16 KiB of scales
//   all-reduce of [1024, 1024], rank 4     -> an all-reduce of [1024, 4], and another one
//
// Whether a sum is sent so is decided for each by its price (WirePlanner.h).
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_DIST_WIRE_WIRE_H
#define TESSERA_DIALECTS_DIST_WIRE_WIRE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <compare>
#include <cstdint>
#include <string>

namespace tessera::dist {

/// A tensor as a matrix: the first dimension against all others. A vector has one column.
struct MatrixView {
  int64_t rows = 1, columns = 1;
  explicit MatrixView(llvm::ArrayRef<int64_t> shape) {
    for (auto [d, extent] : llvm::enumerate(shape))
      (d == 0 ? rows : columns) *= extent;
  }
};

struct Wire {
  enum class Kind : uint8_t {
    Whole, // as they are
    BF16,
    F16,
    I8,      // whole numbers from -127 to 127, times a float32 number for each block of elements
    Factors, // P Q^T, which have `rank` columns each
  };
  Kind kind = Kind::Whole;
  bool always = false; // also where it is not predicted to save time
  int64_t block = 1;   // I8: elements that share a scale
  int64_t rank = 0;    // Factors

  explicit operator bool() const { return kind != Kind::Whole; }
  auto operator<=>(const Wire &) const = default;

  /// The inverse of str(). An error lists what there is.
  static llvm::Expected<Wire> parse(llvm::StringRef text);
  std::string str() const; // "int8:block=256,always"; empty: as they are
  /// For people: "bf16", "int8 in blocks of 256", "factors of rank 4".
  std::string name() const;

  /// Of narrow numbers: the bytes that are sent for each byte of float32 numbers, without and of their scales.
  double numbers() const { return kind == Kind::Whole ? 1 : kind == Kind::I8 ? 0.25 : 0.5; }
  double scales() const { return kind == Kind::I8 ? 1.0 / double(block) : 0; }
  /// An element is sent otherwise if others have other values. So padding has to be zero.
  bool mixes() const { return kind == Kind::I8 || kind == Kind::Factors; }
};

} // namespace tessera::dist

#endif
