//===- RoiAlign.cpp - regions of images, brought to one size -----------------------------------------------===//
//
// Every region is a grid of bins, and every bin the mean over a grid of samples: the image read between its pixels
// (Sampling.h). Places up to one pixel outside are moved to the border, and those further out are 0.
//
//===----------------------------------------------------------------------------------------------===//

#include "compiler/import/ops/Sampling.h"

#include <cmath>

using namespace tessera;
using namespace tessera::compiler;
using llvm::Twine;

namespace {
struct Regions {
  Val boxes; // [regions, 4]: x and y of the first corner, x and y of the second, in pixels
  int64_t count = 0;
  bool atLeastOne = false; // a side is at least one pixel long
};
} // namespace

/// The samples of all regions along one dimension: [regions, bins * ratio]. Neighbours' weights are 0 far outside.
static std::vector<Neighbour> samples(Node &n, const Regions &regions, int64_t extent, bool rows, int64_t count) {
  std::string name = rows ? "rows" : "columns";
  auto corner = [&](int64_t i, const std::string &what) {
    return n.b.slice(regions.boxes, {0, i}, {regions.count, i + 1}, {1, 1}, name + what);
  };
  Val start = corner(rows ? 1 : 0, "_start"), size = n.b.sub(corner(rows ? 3 : 2, "_end"), start, name + "_size");
  if (regions.atLeastOne)
    size = n.b.binary<graph::MaxOp>(size, n.b.scalarLike(size, 1), name + "_at_least");
  std::vector<double> parts;
  for (int64_t i = 0; i < count; ++i)
    parts.push_back((double(i) + 0.5) / double(count));
  Val part = n.b.known(Constant::floats(start.type, {1, count}, std::move(parts)));
  Val at = n.b.add(start, n.b.mul(size, part, name + "_inside"), name + "_places");
  Val low = n.b.binary<graph::LeOp>(n.b.scalarLike(at, -1), at, name + "_low");
  Val high = n.b.binary<graph::LeOp>(at, n.b.scalarLike(at, double(extent)), name + "_high");
  Val near = n.b.binary<graph::AndOp>(low, high, name + "_near");
  std::vector<Neighbour> found = Line(n, extent, Padding::Border, true, name).around(at, "linear");
  for (Neighbour &neighbour : found)
    neighbour.weight = n.b.select(near, neighbour.weight, n.b.scalarLike(neighbour.weight, 0), name + "_weight");
  return found;
}

/// How many samples a bin of a known region has per dimension; nullopt: they differ, or a region is not known.
static std::optional<int64_t> adaptiveRatio(const Val &rois, double scale, int64_t height, int64_t width) {
  if (!rois.known)
    return std::nullopt;
  std::optional<int64_t> ratio;
  for (int64_t r = 0; r < rois.shape[0]; ++r)
    for (int64_t d = 0; d < 2; ++d) {
      double side = (rois.known->floatAt(4 * r + d + 2) - rois.known->floatAt(4 * r + d)) * scale;
      auto own = int64_t(std::ceil((side > 1e-6 ? std::min(side, 1e6) : 1e-6) / double(d == 0 ? width : height)));
      if (ratio && *ratio != own)
        return std::nullopt;
      ratio = own;
    }
  return ratio;
}

void tessera::compiler::roiAlign(Node &n) {
  Val x = n.floatIn(0), rois = n.in(1), image = n.in(2);
  std::string mode = n.attrString("mode", "avg");
  std::string coordinates =
      n.attrString("coordinate_transformation_mode", n.opset < 16 ? "output_half_pixel" : "half_pixel");
  const int64_t height = n.attrInt("output_height", 1), width = n.attrInt("output_width", 1);
  int64_t ratio = n.attrInt("sampling_ratio", 0);
  const double scale = n.attrFloat("spatial_scale", 1);
  if (n.failed())
    return;
  if (mode != "avg")
    return (void)n.fail("mode='" + mode + "' is not supported: only avg is");
  if (coordinates != "half_pixel" && coordinates != "output_half_pixel")
    return (void)n.fail("coordinate_transformation_mode='" + coordinates + "' is unknown");
  constexpr int64_t kMost = 1024;
  if (x.rank() != 4 || rois.rank() != 2 || rois.shape[1] != 4 || rois.type != x.type || x.size() == 0 ||
      rois.size() == 0 || image.shape != Shape{rois.shape[0]} || isFloat(image.type) || height < 1 || width < 1 ||
      height > kMost || width > kMost || ratio < 0 || ratio > kMost)
    return (void)n.fail("the regions " + shapeText(rois.shape) + " " + dtypeName(rois.type) + ", their images " +
                        shapeText(image.shape) + " or the sizes do not fit the input " + shapeText(x.shape));
  if (!countsExactly(n, x))
    return;
  if (ratio == 0) {
    auto known = adaptiveRatio(rois, scale, height, width);
    if (!known || *known > kMost)
      return (void)n.fail(
          "sampling_ratio=0 takes as many samples as a region is large: rois must be known at import, and "
          "of one size; or give sampling_ratio");
    ratio = *known;
  }
  const int64_t regions = rois.shape[0], channels = x.shape[1], pixels = x.shape[2] * x.shape[3];
  const int64_t rows = height * ratio, columns = width * ratio;
  Val boxes = n.b.scale(rois, scale, "scaled");
  if (coordinates == "half_pixel")
    boxes = n.b.sub(boxes, n.b.scalarLike(boxes, 0.5), "half_pixel");
  Regions all{boxes, regions, coordinates == "output_half_pixel"};
  std::vector<std::vector<Neighbour>> lines{samples(n, all, x.shape[2], true, rows),
                                            samples(n, all, x.shape[3], false, columns)};
  if (n.failed())
    return;
  // Every row with every column of every region, one after the other; the image is a dimension more.
  const Shape places{1, regions * rows * columns};
  auto spread = [&](const Val &v, Shape one, const std::string &name) {
    Val wide = n.b.broadcast(n.b.reshape(v, std::move(one), name + "_one"), {regions, rows, columns}, name + "_wide");
    return n.b.reshape(wide, places, name + "_all");
  };
  for (Neighbour &row : lines[0])
    row = {spread(row.at, {regions, rows, 1}, "rows"), spread(row.weight, {regions, rows, 1}, "rows_weight")};
  for (Neighbour &column : lines[1])
    column = {spread(column.at, {regions, 1, columns}, "columns"),
              spread(column.weight, {regions, 1, columns}, "columns_weight")};
  Val which = spread(n.b.cast(image, DType::I64, "image"), {regions, 1, 1}, "images");
  lines.insert(lines.begin(), std::vector<Neighbour>{{which, {}}});
  Val table = n.b.reshape(n.b.transpose(x, {0, 2, 3, 1}, "channels_last"), {1, x.shape[0] * pixels, channels}, "table");
  Val read = sampled(n, table, lines, {x.shape[0], x.shape[2], x.shape[3]});
  read = n.b.reshape(read, {regions, height, ratio, width, ratio, channels}, "samples");
  n.out(0, n.b.transpose(n.b.mean(read, {2, 4}, false, "bins"), {0, 3, 1, 2}));
}
