// matmul: per matrix, b is packed as panels of 16 columns; then one row of a meets one panel at a
// time.
#include "runtime/backend/KernelChecks.h"
#include "runtime/backend/Parallel.h"
#include "runtime/backend/reference/Panel.h"
#include "runtime/backend/reference/ReferenceBackend.h"

#include <algorithm>

namespace tessera::rt {
namespace {

template <typename T>
void multiply(const MatMulGeometry &g, int threads, const T *a, const T *b, T *y, Accumulator<T> *packed) {
  using A = Accumulator<T>;
  auto *out = packed;
  for (int64_t nb = 0; nb < panels(g.n); ++nb)
    for (int64_t k = 0; k < g.k; ++k)
      for (int64_t j = 0; j < kPanel; ++j) {
        int64_t n = nb * kPanel + j;
        *out++ = n < g.n ? static_cast<A>(g.transposeB ? b[n * g.k + k] : b[k * g.n + n]) : A(0);
      }
  int64_t rowStride = g.transposeA ? 1 : g.k, stepStride = g.transposeA ? g.m : 1;
  parallelFor(threads, g.m, [&](int64_t first, int64_t last) {
    for (int64_t m = first; m < last; ++m)
      for (int64_t nb = 0; nb < panels(g.n); ++nb) {
        Panel<A> acc;
        for (int64_t k = 0; k < g.k; ++k)
          acc.fma(static_cast<A>(a[m * rowStride + k * stepStride]), packed + (nb * g.k + k) * kPanel);
        for (int64_t j = 0; j < std::min(kPanel, g.n - nb * kPanel); ++j)
          y[m * g.n + nb * kPanel + j] = static_cast<T>(acc.v[j]);
      }
  });
}

BindResult bindMatMul(const KernelCall &call) {
  MatMulGeometry g = *matmulGeometry(call);
  TensorView a = call.inputs[0], b = call.inputs[1], y = call.outputs[0];
  int threads = call.threads;
  auto run = [=](std::byte *scratch) {
    dispatchNumber(y.dtype, [&](auto tag) {
      using T = decltype(tag);
      Shape strides = rowMajorStrides(g.batch);
      for (int64_t i = 0, n = elementCount(g.batch); i < n; ++i) {
        int64_t ia = 0, ib = 0;
        for (size_t d = 0; d < g.batch.size(); ++d) {
          int64_t index = i / strides[d] % g.batch[d];
          ia += index * g.batchStrideA[d];
          ib += index * g.batchStrideB[d];
        }
        multiply(g, threads, a.as<T>() + ia * g.m * g.k, b.as<T>() + ib * g.k * g.n, y.as<T>() + i * g.m * g.n,
                 reinterpret_cast<Accumulator<T> *>(scratch));
      }
    });
  };
  return bindFunction("reference", run, size_t(panels(g.n) * g.k * kPanel) * 8);
}

} // namespace

void registerReferenceMatMul(KernelRegistry &registry) { addFloatKernel<bindMatMul>(registry, "matmul"); }

} // namespace tessera::rt
