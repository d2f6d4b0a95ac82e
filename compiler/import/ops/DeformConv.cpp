//===- DeformConv.cpp - a convolution whose taps are moved -----------------------------------------------===//
//
// Every tap of every window reads the image at its own place plus an offset that is computed: the columns of the
// convolution [n, c * taps, windows] are sampled (Sampling.h), and the rest is a product with the weights.
//
//===----------------------------------------------------------------------------------------------===//

#include "compiler/import/ops/ConvPool.h"
#include "compiler/import/ops/Sampling.h"

using namespace tessera;
using namespace tessera::compiler;
using llvm::Twine;

void tessera::compiler::deformConv(Node &n) {
  Val x = n.floatIn(0), weight = n.in(1), offset = n.in(2), bias = n.opt(3), mask = n.opt(4);
  const int64_t groups = n.attrInt("group", 1), moves = n.attrInt("offset_group", 1);
  if (n.failed())
    return;
  if (x.rank() != 4 || weight.rank() != 4 || offset.rank() != 4 || weight.type != x.type || offset.type != x.type ||
      (mask && (mask.rank() != 4 || mask.type != x.type)))
    return (void)n.fail("the operands must be floating point tensors of one type and four dimensions");
  Shape kernel(weight.shape.begin() + 2, weight.shape.end());
  if (auto given = n.attrInts("kernel_shape"); given && *given != kernel)
    return (void)n.fail("kernel_shape " + shapeText(*given) + " differs from that of the weights " +
                        shapeText(weight.shape));
  auto w = readWindow(n, x, kernel);
  if (!w || !countsExactly(n, x))
    return;
  const int64_t batch = x.shape[0], channels = x.shape[1], filters = weight.shape[0], pixels = x.shape[2] * x.shape[3];
  const int64_t taps = kernel[0] * kernel[1];
  if (taps > GraphBuilder::kMaxFolded)
    return (void)n.fail("a window has " + Twine(taps) + " taps, which is too many");
  Shape out;
  for (int64_t d = 0; d < 2; ++d) {
    int64_t room = x.shape[d + 2] + w->pads[d] + w->pads[d + 2] - (kernel[d] - 1) * w->dilations[d] - 1;
    out.push_back(room < 0 ? 0 : room / w->strides[d] + 1);
  }
  const int64_t windows = out[0] * out[1];
  if (groups < 1 || moves < 1 || channels % groups != 0 || filters % groups != 0 || channels % moves != 0 ||
      weight.shape[1] != channels / groups || windows == 0 || x.size() == 0 ||
      offset.shape != Shape{batch, moves * taps * 2, out[0], out[1]} ||
      (mask && mask.shape != Shape{batch, moves * taps, out[0], out[1]}))
    return (void)n.fail("the offsets " + shapeText(offset.shape) + ", the mask or the groups do not fit the input " +
                        shapeText(x.shape) + " and the weights " + shapeText(weight.shape));
  if (!n.b.mayFold(2 * taps * windows))
    return (void)n.fail("the windows are too many");

  // Where every tap of every window is without its offset, and with it: [n * moves, taps * windows].
  const Shape places{batch * moves, taps * windows};
  std::vector<std::vector<Neighbour>> lines;
  for (int64_t d = 0; d < 2; ++d) {
    std::vector<double> still;
    for (int64_t k = 0; k < taps; ++k)
      for (int64_t o = 0; o < windows; ++o) {
        int64_t tap = d == 0 ? k / kernel[1] : k % kernel[1], window = d == 0 ? o / out[1] : o % out[1];
        still.push_back(double(window * w->strides[d] - w->pads[d] + tap * w->dilations[d]));
      }
    std::string name = d == 0 ? "rows" : "columns";
    Val moved = n.b.reshape(offset, {batch * moves, taps, 2, windows}, name + "_offsets");
    moved = n.b.slice(moved, {0, 0, d, 0}, {batch * moves, taps, d + 1, windows}, {1, 1, 1, 1}, name + "_part");
    Val base = n.b.known(Constant::floats(x.type, {1, taps * windows}, std::move(still)));
    Val at = n.b.add(n.b.reshape(moved, places, name + "_by_tap"), base, name + "_places");
    lines.push_back(Line(n, x.shape[d + 2], Padding::Zeros, true, name).around(at, "linear"));
  }
  Val table = n.b.transpose(n.b.reshape(x, {batch * moves, channels / moves, pixels}, "pixels"), {0, 2, 1}, "table");
  Val read = sampled(n, table, lines, {x.shape[2], x.shape[3]});
  if (mask)
    read = n.b.mul(read, n.b.reshape(mask, {places[0], places[1], 1}, "mask"), "masked");

  // [n, (groups,) channels of a group * taps, windows]
  Shape columns{batch}, matrix;
  if (groups > 1) {
    columns.push_back(groups);
    matrix.push_back(groups);
  }
  columns.append({channels / groups * taps, windows});
  matrix.append({filters / groups, channels / groups * taps});
  read = n.b.reshape(n.b.transpose(read, {0, 2, 1}, "channels_first"), columns, "windows");
  Val y = n.b.matmul(n.b.reshape(weight, matrix, "matrix"), read);
  n.out(0, addBias(n, n.b.reshape(y, {batch, filters, out[0], out[1]}, "image"), bias));
}
