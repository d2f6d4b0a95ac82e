//===- Points.h - convolutions of single points as products -------------------------------------------------===//
//
// A convolution whose windows are points is a product of pixels by channels. Of two images, the smaller one says which
// pixels take part: with strides the others have no window.
//
//   places(g), of a 5 x 5 image and strides of 2: 0, 2, 4, 10, 12, 14, 20, 22, 24
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CPU_PRODUCT_POINTS_H
#define TESSERA_RUNTIME_BACKEND_CPU_PRODUCT_POINTS_H

#include "runtime/backend/KernelChecks.h"

#include <array>
#include <vector>

namespace tessera::rt {

/// An image [n, channels, pixels...], whose channels lie in blocks; row-major: in blocks of one.
struct Image {
  float *data = nullptr;
  int64_t channels = 1, pixels = 1, block = 1;
  float *at(int64_t n, int64_t channel, int64_t pixel) const {
    return data + n * channels * pixels + channel / block * block * pixels + pixel * block + channel % block;
  }
};

/// The block of a layout of images, 0 if it is none of ours.
inline int64_t blockOf(const Layout &layout) {
  if (layout.plain())
    return 1;
  return layout.inner.size() == 1 && layout.inner[0].first == 1 ? layout.inner[0].second : 0;
}

/// The same of filters [f, c]: [f / block, c / block, block of c, block of f].
inline int64_t filterBlockOf(const Layout &layout) {
  if (layout.plain())
    return 1;
  const bool both = layout.inner.size() == 2 && layout.inner[0].first == 1 && layout.inner[1].first == 0 &&
                    layout.inner[0].second == layout.inner[1].second;
  return both ? layout.inner[0].second : 0;
}

/// The pixels of a line of the smaller image, and how far apart they lie in the larger one.
struct Line {
  int64_t pixels = 1, step = 1;
};
inline Line line(const ConvGeometry &g) { return {g.out[2], g.stride[2]}; }

/// Where the pixels of the smaller image lie in the larger one.
inline std::vector<int64_t> places(const ConvGeometry &g) {
  std::vector<int64_t> all;
  for (int64_t i = 0; i < g.out[0]; ++i)
    for (int64_t j = 0; j < g.out[1]; ++j)
      for (int64_t k = 0; k < g.out[2]; ++k)
        all.push_back((i * g.stride[0] * g.in[1] + j * g.stride[1]) * g.in[2] + k * g.stride[2]);
  return all;
}

inline bool isPoints(const ConvGeometry &g) {
  for (size_t d = 0; d < 3; ++d)
    if (g.kernel[d] != 1 || g.padLo[d] != 0 || (g.out[d] - 1) * g.stride[d] >= g.in[d])
      return false;
  return g.groups == 1;
}

inline int64_t points(const std::array<int64_t, 3> &extents) { return extents[0] * extents[1] * extents[2]; }

} // namespace tessera::rt

#endif
