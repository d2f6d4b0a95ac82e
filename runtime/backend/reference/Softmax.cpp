// softmax and its gradient: line by line along the dimension.
#include "runtime/backend/KernelChecks.h"
#include "runtime/backend/Parallel.h"
#include "runtime/backend/reference/ReferenceBackend.h"

#include <algorithm>
#include <cmath>

namespace tessera::rt {
namespace {

/// n elements, s apart.
template <typename T> struct Lines {
  static void softmax(const T *x, const T *, T *y, int64_t n, int64_t s) {
    double top = maximum(x, n, s), sum = 0;
    for (int64_t i = 0; i < n; ++i)
      sum += std::exp(double(x[i * s]) - top);
    for (int64_t i = 0; i < n; ++i)
      y[i * s] = static_cast<T>(std::exp(double(x[i * s]) - top) / sum);
  }
  static void softmaxGrad(const T *dy, const T *y, T *dx, int64_t n, int64_t s) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i)
      sum += double(dy[i * s]) * double(y[i * s]);
    for (int64_t i = 0; i < n; ++i)
      dx[i * s] = static_cast<T>(double(y[i * s]) * (double(dy[i * s]) - sum));
  }
  /// Subtracting the maximum keeps e^x in range.
  static double maximum(const T *x, int64_t n, int64_t s) {
    double top = -INFINITY;
    for (int64_t i = 0; i < n; ++i)
      top = std::max(top, double(x[i * s]));
    return top;
  }
};

BindResult bindSoftmax(const KernelCall &call) {
  AxisGeometry g = *axisGeometry(call);
  TensorView a = call.inputs[0], b = call.inputs.size() > 1 ? call.inputs[1] : TensorView();
  TensorView y = call.outputs[0];
  const bool gradient = call.name() == "softmax_grad";
  int threads = call.threads;
  auto run = [=](std::byte *) {
    auto typed = [&](auto tag) {
      using T = decltype(tag);
      auto *function = gradient ? Lines<T>::softmaxGrad : Lines<T>::softmax;
      parallelFor(threads, g.outer * g.inner, [&](int64_t begin, int64_t end) {
        for (int64_t line = begin; line < end; ++line) {
          int64_t at = line / g.inner * g.extent * g.inner + line % g.inner;
          function(a.as<T>() + at, b.data ? b.as<T>() + at : nullptr, y.as<T>() + at, g.extent, g.inner);
        }
      });
    };
    asFloat(y.dtype, typed);
  };
  return bindFunction("reference", run);
}

} // namespace

void registerReferenceSoftmax(KernelRegistry &registry) {
  for (const char *name : {"softmax", "softmax_grad"})
    addFloatKernel<bindSoftmax>(registry, name);
}

} // namespace tessera::rt
