//===- Sampling.h - an image read between its pixels -------------------------------------------------------===//
//
// What operators share that read an image at computed places: the neighbours of a place along one dimension, and the
// sum over all neighbours in all dimensions.
//
//   Line rows(n, h, Padding::Zeros, true, "rows"), columns(n, w, Padding::Zeros, true, "columns");
//   Val y = sampled(n, table, {rows.around(y, "linear"), columns.around(x, "linear")}, {h, w});
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_IMPORT_OPS_SAMPLING_H
#define TESSERA_COMPILER_IMPORT_OPS_SAMPLING_H

#include "compiler/import/Node.h"

namespace tessera::compiler {

enum class Padding { Zeros, Border, Reflection };

/// A neighbour along one dimension: its index, as a float inside the extent, and the weight.
struct Neighbour {
  Val at, weight; // a null weight is 1
};

/// The places along one dimension of the image.
class Line {
public:
  Line(Node &n, int64_t extent, Padding padding, bool alignCorners, const std::string &name)
      : n_(n), extent_(extent), padding_(padding), alignCorners_(alignCorners), name_(name) {}

  /// Of a coordinate from -1 to 1; `mode` is nearest, linear or cubic.
  std::vector<Neighbour> neighbours(const Val &coordinate, llvm::StringRef mode) {
    return around(place(coordinate), mode);
  }
  /// Of a place in pixels: 0 is the middle of the first.
  std::vector<Neighbour> around(const Val &place, llvm::StringRef mode);

private:
  Val number(const Val &like, double value) { return n_.b.scalarLike(like, value); }
  std::string name(llvm::StringRef what) const { return name_ + "_" + what.str(); }
  Val less(const Val &a, const Val &b) { return n_.b.binary<graph::LtOp>(a, b, name("less")); }
  Val place(const Val &coordinate);
  Val clip(const Val &x);
  Val reflect(const Val &x);
  /// The place, moved inside.
  Val moved(const Val &x) {
    return padding_ == Padding::Zeros ? x : padding_ == Padding::Border ? clip(x) : clip(reflect(x));
  }
  /// `weight` where `at` (a whole number) lies inside, else 0; and `at` inside.
  Neighbour counted(const Val &at, const Val &weight);

  Node &n_;
  int64_t extent_;
  Padding padding_;
  bool alignCorners_;
  std::string name_;
};

/// The image as rows of channels, [batch, pixels, channels], read at places [batch, places]. The result is
/// [batch, places, channels]: the neighbours' pixels times the products of their weights, added up. `lines` are the
/// places' neighbours along every dimension, `extents` the dimensions'.
Val sampled(Node &n, const Val &table, const std::vector<std::vector<Neighbour>> &lines,
            llvm::ArrayRef<int64_t> extents);

/// Whether the type counts exactly up to each of x's spatial extents; if not, it has failed.
bool countsExactly(Node &n, const Val &x);

void deformConv(Node &n);
void roiAlign(Node &n);

} // namespace tessera::compiler

#endif
