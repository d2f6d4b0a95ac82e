// Matrix products and convolutions as plain loops over the descriptors.
#include "test/emulator/Emulator.h"

struct TesseraOp {
  bool conv = false;
  TesseraMatMul matmul;
  TesseraConv convolution;
};

namespace tessera::emulator {
namespace {

template <typename T> void multiply(const TesseraMatMul &w, const T *a, const T *b, T *y) {
  for (int64_t i = 0; i < w.batch; ++i, a += w.strideA, b += w.strideB, y += w.strideY)
    for (int64_t m = 0; m < w.m; ++m)
      for (int64_t n = 0; n < w.n; ++n) {
        double sum = 0;
        for (int64_t k = 0; k < w.k; ++k)
          sum += double(a[w.transposeA ? k * w.m + m : m * w.k + k]) *
                 double(b[w.transposeB ? n * w.k + k : k * w.n + n]);
        y[m * w.n + n] = static_cast<T>(sum);
      }
}

/// One loop over every (result, tap) triple serves all three kinds.
template <typename T> void convolve(const TesseraConv &c, const T *a, const T *b, T *out) {
  auto volume = [](const int64_t s[3]) { return s[0] * s[1] * s[2]; };
  const int64_t in = volume(c.in), pixels = volume(c.out), taps = volume(c.kernel);
  const int64_t cg = c.channels / c.groups, fg = c.filters / c.groups;
  const int64_t count = c.kind == 0   ? c.n * c.filters * pixels
                        : c.kind == 1 ? c.n * c.channels * in
                                      : c.filters * cg * taps;
  std::vector<double> sums(static_cast<size_t>(count), 0.0);
  for (int64_t n = 0; n < c.n; ++n)
    for (int64_t f = 0; f < c.filters; ++f)
      for (int64_t o = 0; o < pixels; ++o)
        for (int64_t k = 0; k < cg; ++k)
          for (int64_t t = 0; t < taps; ++t) {
            int64_t po[3] = {o / (c.out[1] * c.out[2]), o / c.out[2] % c.out[1], o % c.out[2]};
            int64_t pt[3] = {t / (c.kernel[1] * c.kernel[2]), t / c.kernel[2] % c.kernel[1],
                             t % c.kernel[2]};
            int64_t at = 0;
            bool inside = true;
            for (int d = 0; d < 3; ++d) {
              int64_t i = po[d] * c.stride[d] - c.pad[d] + pt[d] * c.dilation[d];
              inside &= i >= 0 && i < c.in[d];
              at = at * c.in[d] + i;
            }
            if (!inside)
              continue;
            const int64_t x = (n * c.channels + f / fg * cg + k) * in + at;
            const int64_t w = (f * cg + k) * taps + t, y = (n * c.filters + f) * pixels + o;
            if (c.kind == 0)
              sums[static_cast<size_t>(y)] += double(a[x]) * double(b[w]);
            else if (c.kind == 1)
              sums[static_cast<size_t>(x)] += double(a[y]) * double(b[w]);
            else
              sums[static_cast<size_t>(w)] += double(a[x]) * double(b[y]);
          }
  for (size_t i = 0; i < sums.size(); ++i)
    out[i] = static_cast<T>(sums[i]);
}

int32_t createMatMul(TesseraDevice *, const TesseraMatMul *what, TesseraOp **op, size_t *workspace,
                     TesseraMessage *m) {
  if (what->dtype != TESSERA_F32 && what->dtype != TESSERA_F64)
    return fail(m, "only f32 and f64", TESSERA_UNSUPPORTED);
  if (what->alignment < (what->dtype == TESSERA_F64 ? 8 : 4) || what->alignment > 16)
    return fail(m, "a product with an alignment of " + std::to_string(what->alignment));
  *op = new TesseraOp{false, *what, {}};
  *workspace = 1024;
  return TESSERA_OK;
}

int32_t createConv(TesseraDevice *, const TesseraConv *what, TesseraOp **op, size_t *workspace,
                   TesseraMessage *m) {
  for (int d = 0; d < 3; ++d) {
    int64_t room = what->in[d] + 2 * what->pad[d] - what->dilation[d] * (what->kernel[d] - 1) - 1;
    if (room < 0 || room / what->stride[d] + 1 != what->out[d])
      return fail(m, "a convolution whose sizes do not fit together");
    if (d < 3 - what->spatial && (what->in[d] != 1 || what->out[d] != 1 || what->kernel[d] != 1))
      return fail(m, "a convolution with more dimensions than it says");
  }
  // One in three is refused, so that the backend's own kernels are tried too.
  if ((what->n + what->channels + what->filters) % 3 == 0)
    return fail(m, "refused for the test's sake", TESSERA_UNSUPPORTED);
  *op = new TesseraOp{true, {}, *what};
  *workspace = 4096;
  return TESSERA_OK;
}

int32_t runOp(TesseraDevice *d, TesseraOp *op, const void *a, const void *b, void *y,
              void *workspace, TesseraMessage *m) {
  const TesseraOp what = *op;
  return enqueue(d,
                 {TESSERA_COMPUTE_STREAM,
                  [=](TesseraMessage *) {
                    // A workspace is written, whatever was in it.
                    static_cast<char *>(workspace)[what.conv ? 4095 : 1023] = 1;
                    auto run = [&](auto tag) {
                      using T = decltype(tag);
                      const T *p = static_cast<const T *>(a), *q = static_cast<const T *>(b);
                      if (what.conv)
                        convolve(what.convolution, p, q, static_cast<T *>(y));
                      else
                        multiply(what.matmul, p, q, static_cast<T *>(y));
                    };
                    if ((what.conv ? what.convolution.dtype : what.matmul.dtype) == TESSERA_F64)
                      run(double());
                    else
                      run(float());
                    return TESSERA_OK;
                  }},
                 m);
}

void destroyOp(TesseraDevice *, TesseraOp *op) { delete op; }

} // namespace

void addLibrary(TesseraDeviceApi &api) {
  api.createMatMul = createMatMul;
  api.createConv = createConv;
  api.runOp = runOp;
  api.destroyOp = destroyOp;
}

} // namespace tessera::emulator
