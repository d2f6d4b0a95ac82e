//===- GridSample.cpp - an image sampled at computed positions ---------------------------------------===//
//
// y[n, c, i, j] is x[n, c] at the position grid[n, i, j] = (column, row, ...), whose coordinates run from -1 to 1.
// Every mode is a sum over neighbours. Each term is one gather times a product of weights, one factor per dimension:
//
//   nearest  1 neighbour     bilinear  2 per dimension     bicubic  4 per dimension (Keys' kernel, a = -0.75)
//
// A position outside the image is moved inside, to the border or by reflection, before its neighbours are taken
// (bicubic: the neighbours are moved). With zero padding, neighbours outside have the weight 0. Gradients reach the
// grid through the weights. A position that was moved to the border has the gradient 0, as in PyTorch.
//
//===----------------------------------------------------------------------------------------------===//

#include "compiler/import/ops/Sampling.h"

using namespace tessera;
using namespace tessera::compiler;
using llvm::Twine;

/// -1 and 1 are the middles of the outermost pixels, or their outer edges.
Val Line::place(const Val &coordinate) {
  auto size = double(extent_);
  double scale = alignCorners_ ? (size - 1) / 2 : size / 2, shift = (size - 1) / 2;
  return n_.b.add(n_.b.scale(coordinate, scale, name("scaled")), number(coordinate, shift), name("place"));
}

/// Clamps by selects, because their slope is 0 at the border, too.
Val Line::clip(const Val &x) {
  Val zero = number(x, 0), last = number(x, double(extent_ - 1));
  Val low = n_.b.select(less(zero, x), x, zero, name("clipped"));
  return n_.b.select(less(low, last), low, last, name("clipped"));
}

/// Reflects at both ends until the position lies inside.
Val Line::reflect(const Val &x) {
  auto size = double(extent_);
  double low = alignCorners_ ? 0 : -0.5, span = alignCorners_ ? size - 1 : size;
  if (span == 0)
    return n_.b.scale(x, 0, name("only"));
  Val from = n_.b.sub(x, number(x, low), name("from_end"));
  Val size0 =
      n_.b.select(less(from, number(x, 0)), n_.b.unary<graph::NegOp>(from, name("minus")), from, name("distance"));
  Val spans = n_.b.unary<graph::FloorOp>(n_.b.scale(size0, 1 / span, name("spans")), name("whole"));
  Val rest = n_.b.sub(size0, n_.b.scale(spans, span, name("before")), name("rest"));
  Val half = n_.b.unary<graph::FloorOp>(n_.b.scale(spans, 0.5, name("half")), name("pairs"));
  Val odd = less(n_.b.scale(half, 2, name("even")), spans);
  Val back = n_.b.sub(number(x, span), rest, name("back"));
  return n_.b.add(n_.b.select(odd, back, rest, name("mirrored")), number(x, low), name("inside"));
}

Neighbour Line::counted(const Val &at, const Val &weight) {
  Val zero = number(at, 0), last = number(at, double(extent_ - 1));
  Val inside = n_.b.binary<graph::MinOp>(n_.b.binary<graph::MaxOp>(at, zero, name("low")), last, name("index"));
  if (padding_ != Padding::Zeros)
    return {inside, weight};
  Val hit = n_.b.binary<graph::EqOp>(at, inside, name("hit"));
  return {inside, n_.b.select(hit, weight ? weight : number(at, 1), zero, name("weight"))};
}

std::vector<Neighbour> Line::around(const Val &place, llvm::StringRef mode) {
  Val x = place;
  if (mode == "nearest")
    return {counted(n_.b.unary<graph::RoundOp>(moved(x), name("nearest")), {})};
  bool cubic = mode == "cubic";
  if (!cubic)
    x = moved(x);
  Val floor = n_.b.unary<graph::FloorOp>(x, name("floor"));
  Val t = n_.b.sub(x, floor, name("part")), one = number(x, 1);
  Val rest = n_.b.sub(one, t, name("rest_part"));
  auto shifted = [&](double by) { return n_.b.add(floor, number(x, by), name("neighbour")); };
  if (!cubic)
    return {counted(floor, rest), counted(shifted(1), t)};
  constexpr double a = -0.75;
  auto polynomial = [&](const Val &d, std::initializer_list<double> factors) { // by Horner
    Val y;
    for (double f : factors)
      y = y ? n_.b.add(n_.b.mul(y, d, name("power")), number(d, f), name("sum")) : number(d, f);
    return y;
  };
  auto near = [&](const Val &d) { return polynomial(d, {a + 2, -(a + 3), 0, 1}); };
  auto far = [&](const Val &d) { return polynomial(d, {a, -5 * a, 8 * a, -4 * a}); };
  auto at = [&](double by) { return moved(shifted(by)); };
  return {counted(at(-1), far(n_.b.add(t, one, name("distance")))), counted(at(0), near(t)), counted(at(1), near(rest)),
          counted(at(2), far(n_.b.add(rest, one, name("distance"))))};
}

bool tessera::compiler::countsExactly(Node &n, const Val &x) {
  const int64_t most = int64_t(1) << (x.type == DType::BF16 ? 8 : x.type == DType::F16 ? 11 : 24);
  for (int64_t d = 2; d < x.rank(); ++d)
    if (x.shape[d] > most) {
      n.fail("the extent " + Twine(x.shape[d]) + " of dimension " + Twine(d) + " is too large: indices up to " +
             Twine(most) + " are exact in " + dtypeName(x.type));
      return false;
    }
  return true;
}

Val tessera::compiler::sampled(Node &n, const Val &table, const std::vector<std::vector<Neighbour>> &lines,
                               llvm::ArrayRef<int64_t> extents) {
  Val sum;
  std::vector<size_t> which(lines.size(), 0);
  for (bool more = !n.failed(); more;) {
    Val at, weight;
    for (size_t d = 0; d < lines.size(); ++d) {
      const Neighbour &neighbour = lines[d][which[d]];
      Val index = n.b.cast(neighbour.at, DType::I64, "index");
      auto extent = double(extents[d]);
      at = at ? n.b.add(n.b.scale(at, extent, "row_start"), index, "position") : index;
      weight = weight && neighbour.weight ? n.b.mul(weight, neighbour.weight, "weights")
               : weight                   ? weight
                                          : neighbour.weight;
    }
    Val term = n.b.gather(table, at, 1, "gather", 1);
    if (weight) {
      Shape shape = weight.shape;
      shape.push_back(1);
      term = n.b.mul(term, n.b.reshape(weight, shape, "weight"), "term");
    }
    sum = sum ? n.b.add(sum, term, "sum") : term;
    more = false;
    for (size_t d = lines.size(); d-- > 0 && !more;) {
      more = ++which[d] < lines[d].size();
      if (!more)
        which[d] = 0;
    }
  }
  return sum;
}

static void gridSample(Node &n) {
  Val x = n.in(0), grid = n.in(1);
  std::string mode = n.attrString("mode", n.opset < 20 ? "bilinear" : "linear");
  std::string edge = n.attrString("padding_mode", "zeros");
  bool alignCorners = n.attrInt("align_corners", 0) != 0;
  if (n.failed())
    return;
  if (mode == "bilinear")
    mode = "linear";
  if (mode == "bicubic")
    mode = "cubic";
  if (mode != "nearest" && mode != "linear" && mode != "cubic")
    return (void)n.fail("mode='" + mode + "' is unknown");
  Padding padding = edge == "border" ? Padding::Border : edge == "reflection" ? Padding::Reflection : Padding::Zeros;
  if (padding == Padding::Zeros && edge != "zeros")
    return (void)n.fail("padding_mode='" + edge + "' is unknown");
  int64_t spatial = x.rank() - 2;
  if (spatial < 1 || spatial > (mode == "cubic" ? 2 : 3) || grid.rank() != x.rank() || grid.shape[0] != x.shape[0] ||
      grid.shape.back() != spatial || !isFloat(x.type) || grid.type != x.type || x.size() == 0 || grid.size() == 0)
    return (void)n.fail("the grid " + shapeText(grid.shape) + " " + dtypeName(grid.type) + " does not fit the input " +
                        shapeText(x.shape) + " " + dtypeName(x.type) + " with mode='" + mode + "'");
  const int64_t batch = x.shape[0], channels = x.shape[1], pixels = x.size() / (batch * channels);
  const int64_t places = grid.size() / (batch * spatial);
  if (!countsExactly(n, x))
    return;

  // Neighbours of every place [batch, places] along every dimension; the grid's last number is the first
  // dimension's.
  Val places2 = n.b.reshape(grid, {batch, places, spatial}, "places");
  std::vector<std::vector<Neighbour>> lines;
  for (int64_t d = 0; d < spatial && places2; ++d) {
    std::string name = "dim" + std::to_string(d + 2);
    int64_t k = spatial - 1 - d;
    Val part = n.b.slice(places2, {0, 0, k}, {batch, places, k + 1}, {1, 1, 1}, name);
    Line line(n, x.shape[d + 2], padding, alignCorners, name);
    lines.push_back(line.neighbours(n.b.reshape(part, {batch, places}, name + "_places"), mode));
  }
  // A table with one row of channels per pixel, so that one gather reads a neighbour.
  Val table = n.b.transpose(n.b.reshape(x, {batch, channels, pixels}, "pixels"), {0, 2, 1}, "rows");
  Shape extents(x.shape.begin() + 2, x.shape.end());
  Val sum = sampled(n, table, lines, extents);
  Shape shape{batch, channels};
  shape.append(grid.shape.begin() + 1, grid.shape.end() - 1);
  n.out(0, n.b.reshape(n.b.transpose(sum, {0, 2, 1}, "channels_first"), shape));
}

/// The places that an affine map [n, spatial, spatial + 1] moves every pixel to: the map times the pixels' places.
static void affineGrid(Node &n) {
  Val theta = n.floatIn(0);
  n.in(1);
  auto size = n.knownInts(1, "size");
  bool alignCorners = n.attrInt("align_corners", 0) != 0;
  if (n.failed())
    return;
  const int64_t spatial = int64_t(size->size()) - 2;
  if (spatial < 2 || spatial > 3 || theta.shape != Shape{(*size)[0], spatial, spatial + 1})
    return (void)n.fail("theta " + shapeText(theta.shape) + " does not fit the size " + shapeText(*size));
  Shape pixels(size->begin() + 2, size->end());
  auto count = elementCount(pixels);
  if (!count || *count == 0 || !n.b.mayFold(*count * (spatial + 1)))
    return (void)n.fail("the size " + shapeText(*size) + " is empty or too large");
  std::vector<double> places(*count * (spatial + 1), 1.0);
  for (int64_t i = 0; i < *count; ++i)
    for (int64_t d = spatial - 1, rest = i; d >= 0; rest /= pixels[d], --d) {
      auto at = double(rest % pixels[d]), extent = double(pixels[d]);
      double middle = (2 * at + 1) / extent - 1, corner = pixels[d] == 1 ? 0 : 2 * at / (extent - 1) - 1;
      places[i * (spatial + 1) + spatial - 1 - d] = alignCorners ? corner : middle; // the last dimension first
    }
  Val known = n.b.known(Constant::floats(theta.type, {*count, spatial + 1}, std::move(places)));
  Shape shape{(*size)[0]};
  shape.append(pixels);
  shape.push_back(spatial);
  n.out(0, n.b.reshape(n.b.matmul(known, theta, false, true, "places"), shape));
}

llvm::ArrayRef<OpRow> tessera::compiler::gridSampleOps() {
  static const OpRow rows[] = {
      {"AffineGrid", 20, kNewestOpset, affineGrid, ".t", "2 and 3 spatial dimensions, size known at import"},
      {"DeformConv", 19, kNewestOpset, deformConv, ".k.b.", "2 spatial dimensions"},
      {"GridSample", 16, kNewestOpset, gridSample, "..", "1 to 3 spatial dimensions, cubic of 1 and 2"},
      {"RoiAlign", 10, kNewestOpset, roiAlign, "..t", "mode=avg; sampling_ratio from 1 on, or rois known at import"},
  };
  return rows;
}
