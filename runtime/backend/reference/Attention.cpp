// attention and its gradient, one row of scores at a time.
#include "runtime/backend/AttentionGeometry.h"
#include "runtime/backend/Parallel.h"
#include "runtime/backend/reference/ReferenceBackend.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace tessera::rt {
namespace {

template <typename T> double dot(const T *a, const T *b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i)
    sum += double(a[i]) * double(b[i]);
  return sum;
}

/// p = softmax of a row's scores, by way of log sum e^score, if it is `known` and small enough. Returns that number.
template <typename T>
double probabilities(const AttentionGeometry &g, const T *q, const T *k, const T *bias, int64_t row,
                     std::vector<double> &p, const T *known = nullptr) {
  int64_t inside = g.inside(row);
  double top = -INFINITY, sum = 0;
  for (int64_t j = 0; j < g.keys(); ++j) {
    p[j] = j < inside ? g.scale * dot(q + row * g.q.stride(), k + j * g.k.stride(), g.q.depth) : g.outside;
    if (bias)
      p[j] += double(bias[row * g.rowStride() + j * g.keyStride()]);
    top = std::max(top, p[j]);
  }
  if (known && std::fabs(double(*known)) < kLargestStatistic) {
    for (double &x : p)
      x = std::exp(x - double(*known));
    return double(*known);
  }
  for (double &x : p)
    sum += x = std::exp(x - top);
  for (double &x : p)
    x /= sum;
  return top + std::log(sum);
}

template <typename T> struct Attention {
  AttentionGeometry g;
  const T *q, *k, *v, *bias;
  const TensorView *keep;

  /// By what dropout multiplies the probabilities of a row.
  std::vector<double> factors(int64_t batch, int64_t head, int64_t row) const {
    std::vector<double> f(g.keys(), 1.0);
    const int64_t at = g.keepBase(batch, head) + row * g.keys();
    for (int64_t j = 0; keep && j < g.keys(); ++j)
      f[j] = g.keepScale *
             (keep->dtype == plan::BOOL ? double(keep->as<uint8_t>()[at + j] != 0) : double(keep->as<T>()[at + j]));
    return f;
  }

  const T *biasOf(int64_t batch, int64_t head) const { return bias ? bias + g.biasBase(batch, head) : nullptr; }

  /// statistics: null where nobody wants them.
  void forward(int64_t batch, int64_t head, T *y, T *statistics) const {
    int64_t keyHead = head / g.group();
    const T *values = v + g.v.base(batch, keyHead);
    std::vector<double> p(g.keys());
    for (int64_t i = 0; i < g.rows(); ++i) {
      const double statistic =
          probabilities(g, q + g.q.base(batch, head), k + g.k.base(batch, keyHead), biasOf(batch, head), i, p);
      if (statistics)
        statistics[g.lineBase(batch, head) + i] = static_cast<T>(statistic);
      const std::vector<double> kept = factors(batch, head, i);
      for (int64_t j = 0; j < g.keys(); ++j)
        p[j] *= kept[j];
      for (int64_t e = 0; e < g.v.depth; ++e) {
        double sum = 0;
        for (int64_t j = 0; j < g.keys(); ++j)
          sum += p[j] * double(values[j * g.v.stride() + e]);
        y[g.y.base(batch, head) + i * g.y.stride() + e] = static_cast<T>(sum);
      }
    }
  }

  /// y and statistics: those of the forward pass, or null.
  void backward(int64_t batch, int64_t keyHead, const T *dy, const T *y, const T *statistics, T *dq, T *dk,
                T *dv) const {
    const T *keys = k + g.k.base(batch, keyHead), *values = v + g.v.base(batch, keyHead);
    int64_t depth = g.q.depth, width = g.v.depth;
    std::vector<double> p(g.keys()), ds(g.keys()), sumK(g.keys() * depth), sumV(g.keys() * width);
    for (int64_t head = keyHead * g.group(); head < (keyHead + 1) * g.group(); ++head)
      for (int64_t i = 0; i < g.rows(); ++i) {
        const T *query = q + g.q.base(batch, head);
        const int64_t row = g.y.base(batch, head) + i * g.y.stride();
        const T *dyRow = dy + row;
        probabilities(g, query, keys, biasOf(batch, head), i, p,
                      statistics ? statistics + g.lineBase(batch, head) + i : nullptr);
        query += i * g.q.stride();
        const std::vector<double> kept = factors(batch, head, i);
        double sum = 0;
        for (int64_t j = 0; j < g.keys(); ++j) {
          ds[j] = kept[j] * dot(dyRow, values + j * g.v.stride(), width);
          sum += p[j] * ds[j];
        }
        if (y)
          sum = dot(dyRow, y + row, width);
        int64_t inside = g.inside(i);
        for (int64_t j = 0; j < g.keys(); ++j)
          ds[j] = j < inside ? g.scale * p[j] * (ds[j] - sum) : 0;
        for (int64_t d = 0; d < depth; ++d) {
          double grad = 0;
          for (int64_t j = 0; j < inside; ++j)
            grad += ds[j] * double(keys[j * g.k.stride() + d]);
          dq[g.dq.base(batch, head) + i * g.dq.stride() + d] = static_cast<T>(grad);
        }
        for (int64_t j = 0; j < g.keys(); ++j) {
          for (int64_t d = 0; d < depth; ++d)
            sumK[j * depth + d] += ds[j] * double(query[d]);
          for (int64_t e = 0; e < width; ++e)
            sumV[j * width + e] += p[j] * kept[j] * double(dyRow[e]);
        }
      }
    for (int64_t j = 0; j < g.keys(); ++j) {
      std::copy_n(sumK.data() + j * depth, depth, dk + g.dk.base(batch, keyHead) + j * g.dk.stride());
      std::copy_n(sumV.data() + j * width, width, dv + g.dv.base(batch, keyHead) + j * g.dv.stride());
    }
  }
};

BindResult bindAttention(const KernelCall &call) {
  AttentionGeometry g = *attentionGeometry(call);
  bool grad = call.name() == "attention_grad";
  std::vector<TensorView> in = call.inputs, out = call.outputs;
  int threads = call.threads;
  const auto copied = [](const TensorView *view) { return view ? std::optional(*view) : std::nullopt; };
  const std::optional<TensorView> bias = copied(biasOf(call)), keeps = copied(keepOf(call));
  auto run = [=](std::byte *) {
    const TensorView *keep = keeps ? &*keeps : nullptr;
    asFloat(out[0].dtype, [&](auto tag) {
      using T = decltype(tag);
      auto at = [&](size_t i) { return in[(grad ? 1 : 0) + i].template as<T>(); };
      Attention<T> a{g, at(0), at(1), at(2), bias ? bias->template as<T>() : nullptr, keep};
      const bool known = grad && g.hasStatistics;
      const T *y = known ? in[kGradientY].template as<T>() : nullptr,
              *statistics = known ? in[kGradientStatistics].template as<T>() : nullptr;
      int64_t heads = grad ? g.k.heads : g.heads();
      parallelFor(threads, g.batches * heads, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          if (grad)
            a.backward(i / heads, i % heads, in[0].as<T>(), y, statistics, out[0].as<T>(), out[1].as<T>(),
                       out[2].as<T>());
          else
            a.forward(i / heads, i % heads, out[0].as<T>(),
                      g.hasStatistics ? out[kStatisticsResult].template as<T>() : nullptr);
      });
    });
  };
  return bindFunction("reference", run);
}

} // namespace

void registerReferenceAttention(KernelRegistry &registry) {
  addFloatKernel<bindAttention>(registry, "attention");
  addFloatKernel<bindAttention>(registry, "attention_grad");
}

} // namespace tessera::rt
