// max_pool, avg_pool and their gradients: plane by plane, window by window.
#include "runtime/backend/KernelChecks.h"
#include "runtime/backend/Parallel.h"
#include "runtime/backend/reference/ReferenceBackend.h"

#include <algorithm>
#include <limits>

namespace tessera::rt {
namespace {

/// Calls visit(input index) for every element of window `o` that lies inside, in row-major order.
/// Returns how many there were.
template <typename F> int64_t visitWindow(const PoolGeometry &g, int64_t o, const F &visit) {
  std::array<int64_t, 3> position = {o / (g.out[1] * g.out[2]), o / g.out[2] % g.out[1], o % g.out[2]};
  std::array<int64_t, 3> base, begin, end;
  int64_t count = 1;
  for (size_t d = 0; d < 3; ++d) {
    base[d] = position[d] * g.stride[d] - g.padLo[d];
    // Taps r with 0 <= base + r * dilation < in.
    begin[d] = base[d] >= 0 ? 0 : (-base[d] - 1) / g.dilation[d] + 1;
    end[d] = base[d] >= g.in[d] ? 0 : (g.in[d] - 1 - base[d]) / g.dilation[d] + 1;
    end[d] = std::max(begin[d], std::min(end[d], g.kernel[d]));
    count *= end[d] - begin[d];
  }
  for (int64_t a = begin[0]; a < end[0]; ++a)
    for (int64_t b = begin[1]; b < end[1]; ++b)
      for (int64_t c = begin[2]; c < end[2]; ++c)
        visit(((base[0] + a * g.dilation[0]) * g.in[1] + base[1] + b * g.dilation[1]) * g.in[2] + base[2] +
              c * g.dilation[2]);
  return count;
}

int64_t volume(const std::array<int64_t, 3> &a) { return a[0] * a[1] * a[2]; }

/// Index of the first maximum of a window (the first NaN where there is one); -1 if it is empty.
template <typename T> int64_t firstMaximum(const PoolGeometry &g, int64_t o, const T *x) {
  int64_t best = -1;
  visitWindow(g, o, [&](int64_t i) {
    if (best < 0 || x[i] > x[best] || (x[i] != x[i] && x[best] == x[best]))
      best = i;
  });
  return best;
}

double divisor(const PoolGeometry &g, int64_t inside) { return double(g.includePad ? volume(g.kernel) : inside); }

template <typename T> struct Pool {
  static void max(const PoolGeometry &g, const T *x, const T *, T *y) {
    for (int64_t o = 0; o < volume(g.out); ++o) {
      int64_t i = firstMaximum(g, o, x);
      y[o] = i < 0 ? -std::numeric_limits<T>::infinity() : x[i];
    }
  }
  static void maxGrad(const PoolGeometry &g, const T *x, const T *dy, T *dx) {
    std::fill_n(dx, volume(g.in), T(0));
    for (int64_t o = 0; o < volume(g.out); ++o)
      if (int64_t i = firstMaximum(g, o, x); i >= 0)
        dx[i] += dy[o];
  }
  static void avg(const PoolGeometry &g, const T *x, const T *, T *y) {
    for (int64_t o = 0; o < volume(g.out); ++o) {
      double sum = 0;
      int64_t n = visitWindow(g, o, [&](int64_t i) { sum += double(x[i]); });
      y[o] = n == 0 ? T(0) : static_cast<T>(sum / divisor(g, n));
    }
  }
  static void avgGrad(const PoolGeometry &g, const T *dy, const T *, T *dx) {
    std::fill_n(dx, volume(g.in), T(0));
    for (int64_t o = 0; o < volume(g.out); ++o) {
      int64_t n = visitWindow(g, o, [](int64_t) {});
      if (n == 0)
        continue;
      T share = static_cast<T>(double(dy[o]) / divisor(g, n));
      visitWindow(g, o, [&](int64_t i) { dx[i] += share; });
    }
  }
};

BindResult bindPool(const KernelCall &call) {
  PoolGeometry g = *poolGeometry(call);
  TensorView a = call.inputs[0], b = call.inputs.size() > 1 ? call.inputs[1] : TensorView();
  TensorView y = call.outputs[0];
  const std::string &name = call.name();
  int threads = call.threads;
  auto run = [=](std::byte *) {
    auto typed = [&](auto tag) {
      using T = decltype(tag);
      auto *function = name == "max_pool"        ? Pool<T>::max
                       : name == "max_pool_grad" ? Pool<T>::maxGrad
                       : name == "avg_pool"      ? Pool<T>::avg
                                                 : Pool<T>::avgGrad;
      // Elements per plane of the operands: max_pool_grad reads x and dy, avg_pool_grad dy alone.
      int64_t in = volume(g.in), out = volume(g.out);
      int64_t first = name == "avg_pool_grad" ? out : in;
      int64_t result = name.find("_grad") != std::string::npos ? in : out;
      parallelFor(threads, g.planes, [&](int64_t begin, int64_t end) {
        for (int64_t p = begin; p < end; ++p)
          function(g, a.as<T>() + p * first, b.data ? b.as<T>() + p * out : nullptr, y.as<T>() + p * result);
      });
    };
    asFloat(y.dtype, typed);
  };
  return bindFunction("reference", run);
}

} // namespace

void registerReferencePool(KernelRegistry &registry) {
  for (const char *name : {"max_pool", "max_pool_grad", "avg_pool", "avg_pool_grad"})
    addFloatKernel<bindPool>(registry, name);
}

} // namespace tessera::rt
