//===- Windows.h - the windows of convolutions and pooling, for kernels and libraries ------------===//
//
// Both kinds of operators move a window over an image. Here a geometry becomes what own kernels read, and what cuDNN's
// convolution reads.
//
//   a window of 3 x 3 with stride 2 => #define KERNEL0 1LL, KERNEL1 3LL, KERNEL2 3LL, STRIDE1 2LL, ...
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_BACKEND_CUDA_BIND_WINDOWS_H
#define TESSERA_RUNTIME_BACKEND_CUDA_BIND_WINDOWS_H

#include "runtime/backend/KernelChecks.h"
#include "runtime/backend/cuda/text/Templates.h"

namespace tessera::rt::cuda {

/// The constants that own kernels read, for each of the three dimensions; `literal` writes a number.
inline void addWindows(Constants &constants, const WindowGeometry &g, std::string (*literal)(int64_t) = wide) {
  for (size_t d = 0; d < 3; ++d) {
    const std::string n = std::to_string(d);
    constants.push_back({"IN" + n, literal(g.in[d])});
    constants.push_back({"OUT" + n, literal(g.out[d])});
    constants.push_back({"KERNEL" + n, literal(g.kernel[d])});
    constants.push_back({"STRIDE" + n, literal(g.stride[d])});
    constants.push_back({"PAD" + n, "(" + literal(g.padLo[d]) + ")"});
    constants.push_back({"DILATION" + n, literal(g.dilation[d])});
  }
}

inline void setWindows(TesseraConv &what, const WindowGeometry &g) {
  what.spatial = g.spatial == 3 ? 3 : 2; // one dimension is two with a leading 1
  for (size_t d = 0; d < 3; ++d) {
    what.in[d] = g.in[d];
    what.out[d] = g.out[d];
    what.kernel[d] = g.kernel[d];
    what.stride[d] = g.stride[d];
    what.padLow[d] = g.padLo[d];
    what.padHigh[d] = g.padHi[d];
  }
}

} // namespace tessera::rt::cuda

#endif
