//===- Winograd.h - which convolutions Winograd's algorithm computes ------------------------------------===//
//
// The algorithm computes 4 x 4 points from 6 x 6 with 36 products for every pair of channels instead of 144 (Lavin and
// Gray, "Fast algorithms for convolutional neural networks", 2016). It suits single-precision convolutions and their
// gradients with windows of 3 x 3 that move by one point. It is taken by shape, not after a measurement, so that all
// ranks take the same, and the cost model knows.
//
// Measured with oneDNN 2.6 on two processors with AVX-512: 1.3 to 2.7 times as fast as the direct algorithm from 100
// full tiles and 32 channels on, 0.6 to 1.2 times with a quarter of the tiles, since the weights are transformed as
// well. Weights that stay are transformed once: 1.5 times as fast with 12 tiles, 1.1 times with 3.
//
//   suitsWinograd({.images = 1, .inputs = 64, .outputs = 64, .window = three, .strides = one, .dilations = one,
//                  .result = plane})                 // true on 56 x 56 points; on 14 x 14 only if the weights stay
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_SUPPORT_WINOGRAD_H
#define TESSERA_RUNTIME_SUPPORT_WINOGRAD_H

#include <algorithm>
#include <cstdint>
#include <span>

namespace tessera {

/// A convolution: images, channels, groups, and by spatial dimension its windows and the size of its result.
struct Convolved {
  int64_t images = 1, inputs = 1, outputs = 1, groups = 1;
  std::span<const int64_t> window, strides, dilations, result;
};

inline bool suitsWinograd(const Convolved &c, bool weightsStay = false) {
  constexpr int64_t kTile = 4 * 4, kLeastTiles = 96, kLeastTilesOfKept = 8, kLeastChannels = 32;
  const auto all = [](std::span<const int64_t> sizes, int64_t value) {
    return std::ranges::all_of(sizes, [&](int64_t size) { return size == value; });
  };
  return c.result.size() == 2 && c.groups == 1 && all(c.window, 3) && all(c.strides, 1) && all(c.dilations, 1) &&
         std::min(c.inputs, c.outputs) >= kLeastChannels &&
         c.images * c.result[0] * c.result[1] >= kTile * (weightsStay ? kLeastTilesOfKept : kLeastTiles);
}

} // namespace tessera

#endif
