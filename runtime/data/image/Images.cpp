#include "runtime/data/image/Images.h"

#include "runtime/data/Random.h"
#include "runtime/plan/PlanInfo.h"

#include <algorithm>
#include <cmath>

namespace tessera::rt {

Result<ImageTransform> ImageTransform::create(const std::vector<int64_t> &stored, const BatchRequest &request,
                                              const ImageSettings &settings) {
  const std::vector<int64_t> &wanted = request.globalShape;
  if (wanted.size() != 4 || wanted[1] != stored[0] || !isFloatType(request.dtype))
    return Status::error("the model's input is " + typeName(request.dtype) + " " + shapeText(wanted) +
                         ", but the data are images with " + std::to_string(stored[0]) +
                         " channels; they need a float input [batch, " + std::to_string(stored[0]) +
                         ", height, width]");
  ImageTransform transform;
  transform.stored_ = stored;
  transform.offset_ = request.offset;
  transform.shape_ = request.shape;
  transform.settings_ = settings;
  transform.rows_ = taps(stored[1], wanted[2], request.offset[2], request.shape[2]);
  transform.columns_ = taps(stored[2], wanted[3], request.offset[3], request.shape[3]);
  return transform;
}

std::vector<ImageTransform::Tap> ImageTransform::taps(int64_t stored, int64_t wanted, int64_t offset, int64_t count) {
  std::vector<Tap> taps;
  const double step = double(stored) / double(wanted);
  for (int64_t i = offset; i < offset + count; ++i) {
    // With equal sizes this is exactly i, so that nothing is interpolated or rounded.
    const double at = std::max(0.0, (double(i) + 0.5) * step - 0.5);
    const int64_t low = std::min(int64_t(at), stored - 1);
    taps.push_back({low, std::min(low + 1, stored - 1), float(at - double(low))});
  }
  return taps;
}

Augmentation ImageTransform::augmentation(uint64_t bits) const {
  Augmentation drawn;
  const int64_t padding = settings_.padding;
  drawn.down = below(hash(bits, 1), 2 * padding + 1) - padding;
  drawn.right = below(hash(bits, 2), 2 * padding + 1) - padding;
  drawn.flip = settings_.flip && (hash(bits, 3) & 1);
  return drawn;
}

void ImageTransform::fill(const uint8_t *pixels, const Augmentation &drawn, float *out) const {
  const int64_t height = stored_[1], width = stored_[2];
  for (int64_t c = offset_[1]; c < offset_[1] + shape_[1]; ++c) {
    const uint8_t *plane = pixels + c * height * width;
    const auto scale = float(settings_.scale / settings_.std[c]);
    const auto shift = float(-settings_.mean[c] / settings_.std[c]);
    // The augmented image, black beyond its borders.
    auto pixel = [&](int64_t y, int64_t x) {
      x = (drawn.flip ? width - 1 - x : x) + drawn.right;
      y += drawn.down;
      return y < 0 || y >= height || x < 0 || x >= width ? 0.0f : float(plane[y * width + x]);
    };
    for (const Tap &row : rows_)
      for (const Tap &column : columns_) {
        float value = pixel(row.low, column.low);
        if (column.weight != 0)
          value += column.weight * (pixel(row.low, column.high) - value);
        if (row.weight != 0) {
          float below = pixel(row.high, column.low);
          if (column.weight != 0)
            below += column.weight * (pixel(row.high, column.high) - below);
          value += row.weight * (below - value);
        }
        *out++ = value * scale + shift;
      }
  }
}

} // namespace tessera::rt
