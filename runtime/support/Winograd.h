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
//   suitsWinograd({.images = 4, .points = 128 * 128, .inputs = 64, .outputs = 64})     true
//   suitsWinograd({.images = 1, .points = 14 * 14, .inputs = 256, .outputs = 256})     true only if weights stay
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_SUPPORT_WINOGRAD_H
#define TESSERA_RUNTIME_SUPPORT_WINOGRAD_H

#include <algorithm>
#include <cstdint>

namespace tessera {

/// A convolution with such windows: images, points of a plane of the result, and channels.
struct SlidingWindows {
  int64_t images = 1, points = 1, inputs = 1, outputs = 1;
};

inline bool suitsWinograd(const SlidingWindows &w, bool weightsStay = false) {
  constexpr int64_t kTile = 4 * 4, kLeastTiles = 96, kLeastTilesOfKept = 8, kLeastChannels = 32;
  return std::min(w.inputs, w.outputs) >= kLeastChannels &&
         w.images * w.points >= kTile * (weightsStay ? kLeastTilesOfKept : kLeastTiles);
}

} // namespace tessera

#endif
