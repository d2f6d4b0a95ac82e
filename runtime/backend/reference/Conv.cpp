// conv, conv_input_grad, conv_weight_grad: direct loops over n, groups and pixels, one panel of 16
// channels at a time.
#include "runtime/backend/KernelChecks.h"
#include "runtime/backend/Parallel.h"
#include "runtime/backend/reference/Panel.h"
#include "runtime/backend/reference/ReferenceBackend.h"

#include <algorithm>
#include <bit>

namespace tessera::rt {
namespace {

struct Range {
  int64_t begin, end;
};

int64_t ceilDiv(int64_t a, int64_t b) { return a > 0 ? (a - 1) / b + 1 : -(-a / b); }

/// The i in [0, n) with 0 <= base + i * step < limit.
Range inside(int64_t base, int64_t step, int64_t n, int64_t limit) {
  int64_t begin = std::max<int64_t>(0, ceilDiv(-base, step));
  int64_t end = base >= limit ? 0 : std::min(n, (limit - 1 - base) / step + 1);
  return {begin, std::max(begin, end)};
}

int64_t volume(const std::array<int64_t, 3> &a) { return a[0] * a[1] * a[2]; }

/// w [g*f, c, kernel] as panels over f: [g][f/16][c][kernel][16], zero beyond f.
template <typename T> void packOverF(const ConvGeometry &g, const T *w, double *out) {
  int64_t taps = g.c * volume(g.kernel);
  for (int64_t group = 0; group < g.groups; ++group)
    for (int64_t fb = 0; fb < panels(g.f); ++fb)
      for (int64_t t = 0; t < taps; ++t)
        for (int64_t j = 0; j < kPanel; ++j) {
          int64_t f = fb * kPanel + j;
          *out++ = f < g.f ? double(w[(group * g.f + f) * taps + t]) : 0;
        }
}

/// w [g*f, c, kernel] as panels over c: [g][c/16][f][kernel][16].
template <typename T> void packOverC(const ConvGeometry &g, const T *w, double *out) {
  int64_t k = volume(g.kernel);
  for (int64_t group = 0; group < g.groups; ++group)
    for (int64_t cb = 0; cb < panels(g.c); ++cb)
      for (int64_t f = 0; f < g.f; ++f)
        for (int64_t t = 0; t < k; ++t)
          for (int64_t j = 0; j < kPanel; ++j) {
            int64_t c = cb * kPanel + j;
            *out++ = c < g.c ? double(w[((group * g.f + f) * g.c + c) * k + t]) : 0;
          }
}

template <typename T>
void convForward(const ConvGeometry &g, int threads, const T *x, const T *w, T *y, double *packed) {
  packOverF(g, w, packed);
  int64_t inVolume = volume(g.in), outVolume = volume(g.out), k = volume(g.kernel);
  parallelFor(threads, g.n * g.groups, [&](int64_t first, int64_t last) {
    for (int64_t ng = first; ng < last; ++ng) {
      const T *xs = x + ng * g.c * inVolume;
      const double *ws = packed + ng % g.groups * panels(g.f) * g.c * k * kPanel;
      T *ys = y + ng * g.f * outVolume;
      for (int64_t o = 0; o < outVolume; ++o) {
        int64_t i0 = o / (g.out[1] * g.out[2]) * g.stride[0] - g.padLo[0];
        int64_t i1 = o / g.out[2] % g.out[1] * g.stride[1] - g.padLo[1];
        int64_t i2 = o % g.out[2] * g.stride[2] - g.padLo[2];
        Range r0 = inside(i0, g.dilation[0], g.kernel[0], g.in[0]);
        Range r1 = inside(i1, g.dilation[1], g.kernel[1], g.in[1]);
        Range r2 = inside(i2, g.dilation[2], g.kernel[2], g.in[2]);
        for (int64_t fb = 0; fb < panels(g.f); ++fb) {
          Panel<double> acc;
          for (int64_t a = r0.begin; a < r0.end; ++a)
            for (int64_t b = r1.begin; b < r1.end; ++b)
              for (int64_t d = r2.begin; d < r2.end; ++d) {
                const T *at = xs + ((i0 + a * g.dilation[0]) * g.in[1] + i1 + b * g.dilation[1]) * g.in[2] + i2 +
                              d * g.dilation[2];
                int64_t tap = (a * g.kernel[1] + b) * g.kernel[2] + d;
                const double *panel = ws + (fb * g.c * k + tap) * kPanel;
                for (int64_t c = 0; c < g.c; ++c)
                  acc.fma(at[c * inVolume], panel + c * k * kPanel);
              }
          for (int64_t j = 0; j < std::min(kPanel, g.f - fb * kPanel); ++j)
            ys[(fb * kPanel + j) * outVolume + o] = static_cast<T>(acc.v[j]);
        }
      }
    }
  });
}

/// The output index j with j * stride == t, or -1.
int64_t outputIndex(int64_t t, int64_t stride, int64_t n) {
  return t >= 0 && t % stride == 0 && t / stride < n ? t / stride : -1;
}

template <typename T>
void convInputGrad(const ConvGeometry &g, int threads, const T *dy, const T *w, T *dx, double *packed) {
  packOverC(g, w, packed);
  int64_t inVolume = volume(g.in), outVolume = volume(g.out), k = volume(g.kernel);
  parallelFor(threads, g.n * g.groups, [&](int64_t first, int64_t last) {
    for (int64_t ng = first; ng < last; ++ng) {
      const T *ys = dy + ng * g.f * outVolume;
      const double *ws = packed + ng % g.groups * panels(g.c) * g.f * k * kPanel;
      T *xs = dx + ng * g.c * inVolume;
      for (int64_t i = 0; i < inVolume; ++i) {
        int64_t i0 = i / (g.in[1] * g.in[2]) + g.padLo[0];
        int64_t i1 = i / g.in[2] % g.in[1] + g.padLo[1], i2 = i % g.in[2] + g.padLo[2];
        for (int64_t cb = 0; cb < panels(g.c); ++cb) {
          Panel<double> acc;
          for (int64_t a = 0; a < g.kernel[0]; ++a)
            for (int64_t b = 0; b < g.kernel[1]; ++b)
              for (int64_t d = 0; d < g.kernel[2]; ++d) {
                int64_t j0 = outputIndex(i0 - a * g.dilation[0], g.stride[0], g.out[0]);
                int64_t j1 = outputIndex(i1 - b * g.dilation[1], g.stride[1], g.out[1]);
                int64_t j2 = outputIndex(i2 - d * g.dilation[2], g.stride[2], g.out[2]);
                if (j0 < 0 || j1 < 0 || j2 < 0)
                  continue;
                const T *at = ys + (j0 * g.out[1] + j1) * g.out[2] + j2;
                int64_t tap = (a * g.kernel[1] + b) * g.kernel[2] + d;
                const double *panel = ws + (cb * g.f * k + tap) * kPanel;
                for (int64_t f = 0; f < g.f; ++f)
                  acc.fma(at[f * outVolume], panel + f * k * kPanel);
              }
          for (int64_t j = 0; j < std::min(kPanel, g.c - cb * kPanel); ++j)
            xs[(cb * kPanel + j) * inVolume + i] = static_cast<T>(acc.v[j]);
        }
      }
    }
  });
}

/// Of images first to last - 1: sums [g][f/16][c][kernel][16]. `panel` holds one image's dy as [g][f/16][pixel][16].
template <typename T>
void sumImages(const ConvGeometry &g, int threads, const T *x, const T *dy, int64_t first, int64_t last, double *sums,
               double *panel) {
  int64_t inVolume = volume(g.in), outVolume = volume(g.out), k = volume(g.kernel);
  int64_t fbs = g.groups * panels(g.f);
  std::fill_n(sums, fbs * g.c * k * kPanel, 0.0);
  for (int64_t n = first; n < last; ++n) {
    for (int64_t b = 0; b < fbs; ++b)
      for (int64_t o = 0; o < outVolume; ++o)
        for (int64_t j = 0; j < kPanel; ++j) {
          int64_t group = b / panels(g.f), f = b % panels(g.f) * kPanel + j;
          panel[(b * outVolume + o) * kPanel + j] =
              f < g.f ? double(dy[((n * g.groups + group) * g.f + f) * outVolume + o]) : 0;
        }
    parallelFor(threads, fbs * g.c, [&](int64_t first, int64_t last) {
      for (int64_t bc = first; bc < last; ++bc) {
        int64_t b = bc / g.c, c = bc % g.c, group = b / panels(g.f);
        const T *xs = x + ((n * g.groups + group) * g.c + c) * inVolume;
        const double *ys = panel + b * outVolume * kPanel;
        for (int64_t tap = 0; tap < k; ++tap) {
          int64_t i0 = tap / (g.kernel[1] * g.kernel[2]) * g.dilation[0] - g.padLo[0];
          int64_t i1 = tap / g.kernel[2] % g.kernel[1] * g.dilation[1] - g.padLo[1];
          int64_t i2 = tap % g.kernel[2] * g.dilation[2] - g.padLo[2];
          Range r0 = inside(i0, g.stride[0], g.out[0], g.in[0]);
          Range r1 = inside(i1, g.stride[1], g.out[1], g.in[1]);
          Range r2 = inside(i2, g.stride[2], g.out[2], g.in[2]);
          double *sum = sums + (bc * k + tap) * kPanel;
          Panel<double> acc;
          std::copy_n(sum, kPanel, acc.v);
          for (int64_t p = r0.begin; p < r0.end; ++p)
            for (int64_t q = r1.begin; q < r1.end; ++q)
              for (int64_t r = r2.begin; r < r2.end; ++r)
                acc.fma(xs[((i0 + p * g.stride[0]) * g.in[1] + i1 + q * g.stride[1]) * g.in[2] + i2 + r * g.stride[2]],
                        ys + ((p * g.out[1] + q) * g.out[2] + r) * kPanel);
          std::copy_n(acc.v, kPanel, sum);
        }
      }
    });
  }
}

/// Numbers of a sum in scratch memory.
int64_t sumSize(const ConvGeometry &g) { return g.groups * panels(g.f) * g.c * volume(g.kernel) * kPanel; }

/// Scratch: the sums of leaves that wait for a neighbour, one of every size, and a leaf's; then sumImages' panel.
template <typename T>
void convWeightGrad(const ConvGeometry &g, int threads, plan::DType narrowed, const T *x, const T *dy, T *dw,
                    double *scratch) {
  const int64_t size = sumSize(g), images = g.n / g.leaves, k = volume(g.kernel);
  double *sums = scratch, *const panel = scratch + (std::countr_zero(uint64_t(g.leaves)) + 1) * size;
  auto store = [&](double sum) { return double(roundedTo(narrowed, static_cast<T>(sum))); };
  for (int64_t leaf = 0; leaf < g.leaves; ++leaf, sums += size) {
    sumImages(g, threads, x, dy, leaf * images, (leaf + 1) * images, sums, panel);
    std::transform(sums, sums + size, sums, store);
    for (auto carried = uint64_t(leaf); carried & 1; carried >>= 1, sums -= size)
      std::transform(sums, sums + size, sums - size, sums - size,
                     [&](double sum, double before) { return store(before + sum); });
  }
  sums = scratch;
  for (int64_t group = 0; group < g.groups; ++group)
    for (int64_t f = 0; f < g.f; ++f)
      for (int64_t t = 0; t < g.c * k; ++t) {
        const int64_t b = group * panels(g.f) + f / kPanel;
        dw[(group * g.f + f) * g.c * k + t] = static_cast<T>(sums[(b * g.c * k + t) * kPanel + f % kPanel]);
      }
}

BindResult bindConv(const KernelCall &call) {
  ConvGeometry g = *convGeometry(call);
  TensorView a = call.inputs[0], b = call.inputs[1], y = call.outputs[0];
  bool inputGrad = call.name() == "conv_input_grad", weightGrad = call.name() == "conv_weight_grad";
  int64_t k = volume(g.kernel);
  int64_t doubles = inputGrad ? g.groups * panels(g.c) * g.f * k * kPanel : sumSize(g);
  if (weightGrad)
    doubles += std::countr_zero(uint64_t(g.leaves)) * sumSize(g) + g.groups * panels(g.f) * volume(g.out) * kPanel;
  int threads = call.threads;
  const plan::DType narrowed = call.narrowed;
  auto run = [=](std::byte *scratch) {
    auto typed = [&](auto tag) {
      using T = decltype(tag);
      auto *const memory = reinterpret_cast<double *>(scratch);
      if (weightGrad)
        return convWeightGrad(g, threads, narrowed, a.as<T>(), b.as<T>(), y.as<T>(), memory);
      auto *function = inputGrad ? convInputGrad<T> : convForward<T>;
      function(g, threads, a.as<T>(), b.as<T>(), y.as<T>(), memory);
    };
    asFloat(y.dtype, typed);
  };
  return bindFunction("reference", run, size_t(doubles) * sizeof(double));
}

} // namespace

void registerReferenceConv(KernelRegistry &registry) {
  for (const char *name : {"conv", "conv_input_grad", "conv_weight_grad"})
    addFloatKernel<bindConv>(registry, name);
}

} // namespace tessera::rt
