//===- Windows.cpp - sums over windows, and windows put back together ---------------------------------===//
//
// The sum over every window is a depthwise convolution with ones: it takes strides, paddings and dilations, and is cut
// and derived like any convolution.
//
//===----------------------------------------------------------------------------------------------===//

#include "compiler/import/ops/ConvPool.h"
#include "compiler/import/ops/Reduce.h"

using namespace tessera;
using namespace tessera::compiler;
using llvm::Twine;

Val tessera::compiler::windowSum(Node &n, const Val &x, const Window &w, llvm::StringRef suffix) {
  Shape shape{x.shape[1], 1};
  shape.append(w.kernel);
  if (!elementCount(shape))
    return n.fail("the window " + shapeText(w.kernel) + " is too large");
  Val ones = n.b.known(Constant::splat(x.type, shape, 1));
  return n.b.create<graph::ConvOp>({x, ones},
                                   {n.b.attr("strides", w.strides), n.b.attr("pads", w.pads),
                                    n.b.attr("dilations", w.dilations), n.b.attr("groups", x.shape[1])},
                                   suffix)[0];
}

/// |x| to the power p.
static Val powerOf(Node &n, const Val &x, int64_t p) {
  if (p == 2)
    return n.b.mul(x, x, "power");
  Val size = n.b.unary<graph::AbsOp>(x, "abs");
  return p == 1 ? size : n.b.binary<graph::PowOp>(size, n.b.scalarLike(x, double(p)), "power");
}

static Val rootOf(Node &n, const Val &sum, int64_t p) {
  if (p == 1)
    return sum;
  return p == 2 ? rootOfSquares(n, sum, "") : n.b.binary<graph::PowOp>(sum, n.b.scalarLike(sum, 1 / double(p)));
}

/// The norm's exponent; 0: failed.
static int64_t exponent(Node &n) {
  int64_t p = n.attrInt("p", 2);
  if (p >= 1 && p <= 1024)
    return p;
  n.fail("p has " + Twine(p) + ", which is no norm: it must be 1 to 1024");
  return 0;
}

static void lpPool(Node &n) {
  Val x = n.floatIn(0);
  Shape grew;
  auto w = readPool(n, x, grew);
  int64_t p = exponent(n);
  if (!n.failed())
    n.out(0, rootOf(n, windowSum(n, powerOf(n, x, p), *w, p == 1 ? "" : "sum"), p));
}

static void globalLpPool(Node &n) {
  Val x = n.floatIn(0);
  int64_t p = exponent(n);
  if (x && x.rank() < 3)
    n.fail("the input " + shapeText(x.shape) + " has no spatial dimension");
  if (n.failed())
    return;
  Shape dims;
  for (int64_t d = 2; d < x.rank(); ++d)
    dims.push_back(d);
  n.out(0, rootOf(n, n.b.reduce<graph::ReduceSumOp>(powerOf(n, x, p), dims, true, p == 1 ? "" : "sum"), p));
}

/// Windows [n, c * elements of a window, windows] are added up where they overlap. That is a transposed convolution
/// with one filter for every place in the window, which is 1 there.
static void col2Im(Node &n) {
  Val x = n.floatIn(0);
  n.in(1);
  n.in(2);
  auto image = n.knownInts(1, "image_shape"), block = n.knownInts(2, "block_shape");
  if (n.failed())
    return;
  const auto spatial = int64_t(image->size());
  if (x.rank() != 3 || spatial < 1 || spatial > 3)
    return (void)n.fail("the input " + shapeText(x.shape) + " must have three dimensions, and the image " +
                        Twine(spatial) + " of 1 to 3");
  Shape like{x.shape[0], x.shape[1]};
  like.append(*image);
  if (!elementCount(like))
    return (void)n.fail("the image " + shapeText(*image) + " is not possible");
  Val canvas = n.b.known(Constant::splat(x.type, like, 0)); // for its shape
  auto w = readWindow(n, canvas, *block);
  if (!w)
    return;
  int64_t places = 1, windows = 1;
  Shape columns{x.shape[0], 0}, filters{0, 1}, result{x.shape[0], 0};
  for (int64_t d = 0; d < spatial; ++d) {
    int64_t room = (*image)[d] + w->pads[d] + w->pads[spatial + d] - (w->kernel[d] - 1) * w->dilations[d] - 1;
    int64_t out = room < 0 ? 0 : room / w->strides[d] + 1;
    columns.push_back(out);
    filters.push_back(w->kernel[d]);
    result.push_back((*image)[d]);
    windows *= out;
    places *= w->kernel[d];
    if (windows > GraphBuilder::kFoldBudget || places > GraphBuilder::kMaxFolded)
      return (void)n.fail("the windows are too many");
  }
  if (windows != x.shape[2] || x.shape[1] % places != 0 || !n.b.mayFold(places * places))
    return (void)n.fail("the input " + shapeText(x.shape) + " does not fit " + Twine(windows) + " windows of " +
                        Twine(places) + " elements");
  const int64_t channels = x.shape[1] / places;
  columns[0] = x.shape[0] * channels;
  columns[1] = filters[0] = places;
  result[1] = channels;
  std::vector<double> ones(places * places, 0.0);
  for (int64_t i = 0; i < places; ++i)
    ones[i * places + i] = 1;
  Val y = n.b.create<graph::ConvInputGradOp>(
      {n.b.reshape(x, columns, "columns"), n.b.known(Constant::floats(x.type, filters, std::move(ones)))},
      {n.b.attr("input_sizes", *image), n.b.attr("strides", w->strides), n.b.attr("pads", w->pads),
       n.b.attr("dilations", w->dilations), n.b.attr("groups", 1)},
      "sum")[0];
  n.out(0, n.b.reshape(y, result));
}

llvm::ArrayRef<OpRow> tessera::compiler::windowOps() {
  static const OpRow rows[] = {
      {"Col2Im", 18, kNewestOpset, col2Im, ".t",
       "1 to 3 spatial dimensions; image_shape and block_shape known at import"},
      {"GlobalLpPool", 2, kNewestOpset, globalLpPool, ".", ""},
      {"LpPool", 2, kNewestOpset, lpPool, ".", "1 to 3 spatial dimensions"},
  };
  return rows;
}
