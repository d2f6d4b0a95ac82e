//===- Images.h - from stored pixels to network inputs ----------------------------------------===//
//
// The transforms of image training, each a function of the target pixel's global coordinates, so
// that a rank computes any box of the [batch, channel, row, column] input by itself: random crop of
// the image padded with black, random horizontal flip, bilinear resize (half-pixel centres, no
// antialiasing, as PyTorch's interpolate does with align_corners=False), then (pixel * scale -
// mean) / std.
//
//   Result<ImageTransform> transform = ImageTransform::create({3, 32, 32}, request, settings);
//   transform->fill(pixels, transform->augmentation(hash(seed, epoch, sample)), floats);
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_DATA_IMAGE_IMAGES_H
#define TESSERA_RUNTIME_DATA_IMAGE_IMAGES_H

#include "runtime/data/DataSource.h"

namespace tessera::rt {

struct ImageSettings {
  double scale = 1.0 / 255;
  std::vector<double> mean, std; // one per channel
  int64_t padding = 4;           // of the random crop; 0: none
  bool flip = true;
};

/// The random choices for one sample.
struct Augmentation {
  int64_t down = 0, right = 0; // where the crop begins, counted from the unpadded image
  bool flip = false;
};

class ImageTransform {
public:
  /// `stored` is channels, height, width of the stored images; `request` wants [batch, channels,
  /// any height, any width] in a floating-point type.
  static Result<ImageTransform> create(const std::vector<int64_t> &stored, const BatchRequest &request,
                                       const ImageSettings &settings);

  Augmentation augmentation(uint64_t bits) const;
  /// The request's box of one sample, row-major: channel, row, column.
  void fill(const uint8_t *pixels, const Augmentation &drawn, float *out) const;
  int64_t elements() const { return shape_[1] * shape_[2] * shape_[3]; }

private:
  /// A target coordinate between two stored ones.
  struct Tap {
    int64_t low, high;
    float weight; // of `high`
  };
  static std::vector<Tap> taps(int64_t stored, int64_t wanted, int64_t offset, int64_t count);

  std::vector<int64_t> stored_, offset_, shape_;
  ImageSettings settings_;
  std::vector<Tap> rows_, columns_; // of the box
};

} // namespace tessera::rt

#endif
