//===- Resample.h - crops of any size as network inputs ---------------------------------------===//
//
// A box of an image, which may begin and end between pixels, resized to what the model wants,
// flipped if so drawn, and normalised. A rank computes only its box of the [channel, row, column]
// result. The filter is a triangle as wide as two pixels of the coarser of both images: bilinear where
// the image grows, antialiased where it shrinks, which is what Pillow's resize, and so torchvision's,
// computes (there with a rounding to 8 bits in between).
//
//   Resampler resampler({3, 224, 224}, /*offset=*/{0, 0, 0}, /*shape=*/{3, 224, 224}, mean, std);
//   resampler.fill(pixels, {50.25, 30.5, 200, 180}, {50, 30, 201, 181}, /*flip=*/true, floats);
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_DATA_IMAGE_RESAMPLE_H
#define TESSERA_RUNTIME_DATA_IMAGE_RESAMPLE_H

#include "runtime/data/image/ImageDecoder.h"

namespace tessera::rt {

/// A box in pixels of the image that a Pixels is part of.
struct CropBox {
  double left, top, width, height;
};

/// May be used by one thread at a time, since it keeps its buffers.
class Resampler {
public:
  /// Values are 8-bit levels; `mean` and `std` belong to levels from 0 to 1, three of each.
  Resampler(std::vector<int64_t> whole, std::vector<int64_t> offset, std::vector<int64_t> shape,
            const std::vector<double> &mean, const std::vector<double> &std);

  /// The filter may read the pixels of `seen`, which lies in `pixels`.
  void fill(const Pixels &pixels, const CropBox &box, const PixelBox &seen, bool flip, float *out);
  int64_t elements() const { return shape_[0] * shape_[1] * shape_[2]; }

private:
  /// The pixels that make a target pixel, and their weights, in `weights`.
  struct Taps {
    int64_t first, count;
    size_t weights;
  };
  static void taps(int64_t wanted, int64_t offset, int64_t count, double start, double extent, int64_t from,
                   int64_t present, bool flip, std::vector<Taps> &taps, std::vector<float> &weights);

  const std::vector<int64_t> whole_, offset_, shape_;
  float scale_[3], shift_[3];
  std::vector<Taps> rows_, columns_;
  std::vector<float> rowWeights_, columnWeights_, line_;
};

} // namespace tessera::rt

#endif
