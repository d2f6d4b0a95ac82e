#include "runtime/data/image/Resample.h"

#include <algorithm>
#include <cmath>

namespace tessera::rt {

Resampler::Resampler(std::vector<int64_t> whole, std::vector<int64_t> offset, std::vector<int64_t> shape,
                     const std::vector<double> &mean, const std::vector<double> &std)
    : whole_(std::move(whole)), offset_(std::move(offset)), shape_(std::move(shape)) {
  for (int c = 0; c < 3; ++c) {
    scale_[c] = float(1 / (255 * std[c]));
    shift_[c] = float(-mean[c] / std[c]);
  }
}

/// Target pixels offset .. offset + count of `wanted` ones that cover [start, start + extent); of the
/// stored ones, `present` from `from` on may be used.
void Resampler::taps(int64_t wanted, int64_t offset, int64_t count, double start, double extent, int64_t from,
                     int64_t present, bool flip, std::vector<Taps> &taps, std::vector<float> &weights) {
  taps.clear();
  weights.clear();
  const double step = extent / double(wanted), support = std::max(step, 1.0);
  for (int64_t i = offset; i < offset + count; ++i) {
    const auto place = double(flip ? wanted - 1 - i : i);
    const double centre = start + (place + 0.5) * step;
    const auto least = double(from), most = double(from + present);
    auto first = int64_t(std::clamp(centre - support + 0.5, least, most - 1));
    auto end = int64_t(std::clamp(centre + support + 0.5, least + 1, most));
    end = std::max(end, first + 1);
    taps.push_back({first, end - first, weights.size()});
    double sum = 0;
    for (int64_t k = first; k < end; ++k) {
      const double distance = std::abs(double(k) + 0.5 - centre) / support;
      weights.push_back(float(std::max(1 - distance, 0.0)));
      sum += weights.back();
    }
    if (sum == 0) // rounding put the whole filter beyond the image's border
      weights[taps.back().weights] = 1, sum = 1;
    for (size_t k = taps.back().weights; k < weights.size(); ++k)
      weights[k] = float(weights[k] / sum);
  }
}

void Resampler::fill(const Pixels &pixels, const CropBox &box, const PixelBox &seen, bool flip, float *out) {
  taps(whole_[1], offset_[1], shape_[1], box.top - double(pixels.top), box.height, seen.top - pixels.top, seen.height,
       false, rows_, rowWeights_);
  taps(whole_[2], offset_[2], shape_[2], box.left - double(pixels.left), box.width, seen.left - pixels.left, seen.width,
       flip, columns_, columnWeights_);
  if (rows_.empty() || columns_.empty())
    return;
  // The pixels of a row that any target column needs.
  const int64_t low = std::min(columns_.front().first, columns_.back().first);
  const int64_t high =
      std::max(columns_.front().first + columns_.front().count, columns_.back().first + columns_.back().count);
  const int64_t width = (high - low) * 3, plane = shape_[1] * shape_[2];
  line_.resize(size_t(width));
  for (int64_t y = 0; y < shape_[1]; ++y) {
    // Rows are filtered first: neighbouring elements have one weight there, so that the loop vectorises.
    const Taps &row = rows_[size_t(y)];
    float *line = line_.data();
    for (int64_t k = 0; k < row.count; ++k) {
      const uint8_t *from = pixels.rgb.data() + ((row.first + k) * pixels.width + low) * 3;
      const float weight = rowWeights_[row.weights + size_t(k)];
      if (k == 0)
        for (int64_t x = 0; x < width; ++x)
          line[x] = weight * float(from[x]);
      else
        for (int64_t x = 0; x < width; ++x)
          line[x] += weight * float(from[x]);
    }
    float *to = out + y * shape_[2];
    for (int64_t x = 0; x < shape_[2]; ++x) {
      const Taps &column = columns_[size_t(x)];
      const float *weight = columnWeights_.data() + column.weights;
      const float *from = line + (column.first - low) * 3;
      float sum[3] = {0, 0, 0};
      for (int64_t k = 0; k < column.count; ++k)
        for (int c = 0; c < 3; ++c)
          sum[c] += weight[k] * from[k * 3 + c];
      for (int64_t c = 0; c < shape_[0]; ++c)
        to[c * plane + x] = sum[c + offset_[0]] * scale_[c + offset_[0]] + shift_[c + offset_[0]];
    }
  }
}

} // namespace tessera::rt
