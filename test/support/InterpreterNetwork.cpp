//===- InterpreterNetwork.cpp - contractions, windows, normalisation -----------------------------===//
#include "test/support/InterpreterDetail.h"

#include <cmath>

using namespace mlir;

namespace tessera::test::detail {

static void matmul(Call &c) {
  const Tensor &a = *c.in[0], &b = *c.in[1];
  bool ta = c.flag("transpose_a"), tb = c.flag("transpose_b");
  int64_t k = ta ? a.shape[a.shape.size() - 2] : a.shape.back();
  int64_t m = c.out[0].shape[c.out[0].shape.size() - 2], n = c.out[0].shape.back();
  ArrayRef<int64_t> batch = ArrayRef<int64_t>(c.out[0].shape).drop_back(2);
  // Where the matrix of a batch index begins.
  auto matrix = [&](const Tensor &x, ArrayRef<int64_t> index, int64_t size) {
    int64_t position = 0;
    size_t own = x.shape.size() - 2, lead = index.size() - own;
    for (size_t d = 0; d < own; ++d)
      position = position * x.shape[d] + (x.shape[d] == 1 ? 0 : index[lead + d]);
    return position * size;
  };
  double *y = c.out[0].data.data();
  forEach(batch, [&](ArrayRef<int64_t> index) {
    const double *pa = a.data.data() + matrix(a, index, m * k);
    const double *pb = b.data.data() + matrix(b, index, k * n);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j, ++y)
        for (int64_t l = 0; l < k; ++l)
          *y += (ta ? pa[l * m + i] : pa[i * k + l]) * (tb ? pb[j * k + l] : pb[l * n + j]);
  });
}

// A sliding window over 1 to 3 spatial dimensions, written for 3 (missing ones have extent 1).
struct Geometry {
  int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, kernel[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, pad[3] = {0, 0, 0},
          dilation[3] = {1, 1, 1};
  int64_t inSize = 1, outSize = 1, kernelSize = 1;

  Geometry(Call &c, ArrayRef<int64_t> x, ArrayRef<int64_t> y, ArrayRef<int64_t> kernels) {
    size_t n = x.size(), lead = 3 - n;
    SmallVector<int64_t> strides = c.list("strides"), pads = c.list("pads"), dilations = c.list("dilations");
    for (size_t d = 0; d < n; ++d) {
      in[lead + d] = x[d];
      out[lead + d] = y[d];
      kernel[lead + d] = kernels[d];
      stride[lead + d] = strides[d];
      pad[lead + d] = pads[d];
      dilation[lead + d] = dilations.empty() ? 1 : dilations[d];
      inSize *= x[d];
      outSize *= y[d];
      kernelSize *= kernels[d];
    }
  }

  /// Calls fn(output position, kernel position, input position) wherever the input has that
  /// position.
  template <typename Fn> void forEachTap(Fn fn) const {
    int64_t y = 0;
    for (int64_t a = 0; a < out[0]; ++a)
      for (int64_t b = 0; b < out[1]; ++b)
        for (int64_t e = 0; e < out[2]; ++e, ++y) {
          int64_t k = 0;
          for (int64_t r = 0; r < kernel[0]; ++r)
            for (int64_t s = 0; s < kernel[1]; ++s)
              for (int64_t t = 0; t < kernel[2]; ++t, ++k) {
                int64_t u = a * stride[0] - pad[0] + r * dilation[0];
                int64_t v = b * stride[1] - pad[1] + s * dilation[1];
                int64_t w = e * stride[2] - pad[2] + t * dilation[2];
                if (u >= 0 && u < in[0] && v >= 0 && v < in[1] && w >= 0 && w < in[2])
                  fn(y, k, (u * in[1] + v) * in[2] + w);
              }
        }
  }
};

// The sum that a convolution and both its adjoints share: calls fn(x element, w element, y element).
template <typename Fn>
static void forEachProduct(Call &c, ArrayRef<int64_t> x, ArrayRef<int64_t> w, ArrayRef<int64_t> y, Fn fn) {
  Geometry g(c, x.drop_front(2), y.drop_front(2), w.drop_front(2));
  int64_t groups = c.integer("groups", 1), outPer = w[0] / groups, inPer = w[1];
  for (int64_t n = 0; n < x[0]; ++n)
    for (int64_t f = 0; f < w[0]; ++f)
      for (int64_t ch = 0; ch < inPer; ++ch) {
        int64_t xBase = (n * x[1] + f / outPer * inPer + ch) * g.inSize;
        int64_t wBase = (f * inPer + ch) * g.kernelSize;
        int64_t yBase = (n * w[0] + f) * g.outSize;
        g.forEachTap([&](int64_t out, int64_t k, int64_t in) {
          fn(size_t(xBase + in), size_t(wBase + k), size_t(yBase + out));
        });
      }
}

static void conv(Call &c) {
  auto &x = c.in[0]->data, &w = c.in[1]->data;
  auto &y = c.out[0].data;
  forEachProduct(c, c.in[0]->shape, c.in[1]->shape, c.out[0].shape,
                 [&](size_t i, size_t k, size_t o) { y[o] += x[i] * w[k]; });
}

static void convInputGrad(Call &c) {
  auto &dy = c.in[0]->data, &w = c.in[1]->data;
  auto &dx = c.out[0].data;
  forEachProduct(c, c.out[0].shape, c.in[1]->shape, c.in[0]->shape,
                 [&](size_t i, size_t k, size_t o) { dx[i] += dy[o] * w[k]; });
}

static void convWeightGrad(Call &c) {
  auto &x = c.in[0]->data, &dy = c.in[1]->data;
  auto &dw = c.out[0].data;
  forEachProduct(c, c.in[0]->shape, c.out[0].shape, c.in[1]->shape,
                 [&](size_t i, size_t k, size_t o) { dw[k] += x[i] * dy[o]; });
}

// Calls fn(window, input element) for every element of every window.
template <typename Fn> static void forEachPooled(Call &c, ArrayRef<int64_t> x, ArrayRef<int64_t> y, Fn fn) {
  Geometry g(c, x.drop_front(2), y.drop_front(2), c.list("kernel"));
  for (int64_t plane = 0; plane < x[0] * x[1]; ++plane)
    g.forEachTap(
        [&](int64_t out, int64_t, int64_t in) { fn(size_t(plane * g.outSize + out), size_t(plane * g.inSize + in)); });
}

// The input element that each window's maximum is; the first of equal ones.
static std::vector<int64_t> argMaxima(Call &c, const Tensor &x, const Tensor &y) {
  std::vector<int64_t> where(y.data.size(), -1);
  forEachPooled(c, x.shape, y.shape, [&](size_t out, size_t in) {
    if (where[out] < 0 || x.data[in] > x.data[size_t(where[out])])
      where[out] = int64_t(in);
  });
  return where;
}

static void maxPool(Call &c) {
  std::vector<int64_t> where = argMaxima(c, *c.in[0], c.out[0]);
  for (size_t i = 0; i < where.size(); ++i)
    c.out[0].data[i] = where[i] < 0 ? -INFINITY : c.in[0]->data[size_t(where[i])];
}

static void maxPoolGrad(Call &c) {
  std::vector<int64_t> where = argMaxima(c, *c.in[0], *c.in[1]);
  for (size_t i = 0; i < where.size(); ++i)
    if (where[i] >= 0)
      c.out[0].data[size_t(where[i])] += c.in[1]->data[i];
}

static std::vector<double> divisors(Call &c, ArrayRef<int64_t> x, const Tensor &y) {
  double window = 1;
  for (int64_t extent : c.list("kernel"))
    window *= double(extent);
  bool includePad = c.flag("include_pad");
  std::vector<double> result(y.data.size(), includePad ? window : 0);
  if (!includePad)
    forEachPooled(c, x, y.shape, [&](size_t out, size_t) { result[out] += 1; });
  return result;
}

static void avgPool(Call &c) {
  std::vector<double> count = divisors(c, c.in[0]->shape, c.out[0]);
  forEachPooled(c, c.in[0]->shape, c.out[0].shape,
                [&](size_t out, size_t in) { c.out[0].data[out] += c.in[0]->data[in] / count[out]; });
}

static void avgPoolGrad(Call &c) {
  std::vector<double> count = divisors(c, c.out[0].shape, *c.in[0]);
  forEachPooled(c, c.out[0].shape, c.in[0]->shape,
                [&](size_t out, size_t in) { c.out[0].data[in] += c.in[0]->data[out] / count[out]; });
}

// Calls fn(first element, distance, length) for every line along a dimension.
template <typename Fn> static void forEachLine(ArrayRef<int64_t> shape, size_t dim, Fn fn) {
  int64_t inner = 1, outer = 1;
  for (size_t d = 0; d < shape.size(); ++d)
    (d < dim ? outer : inner) *= d == dim ? 1 : shape[d];
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i)
      fn(size_t(o * shape[dim] * inner + i), size_t(inner), size_t(shape[dim]));
}

static void softmaxLike(Call &c, bool logarithm) {
  auto &x = c.in[0]->data;
  auto &y = c.out[0].data;
  forEachLine(c.in[0]->shape, size_t(c.integer("dim")), [&](size_t at, size_t by, size_t n) {
    double top = -INFINITY, sum = 0;
    for (size_t k = 0; k < n; ++k)
      top = std::fmax(top, x[at + k * by]);
    for (size_t k = 0; k < n; ++k)
      sum += std::exp(x[at + k * by] - top);
    for (size_t k = 0; k < n; ++k) {
      double shifted = x[at + k * by] - top;
      y[at + k * by] = logarithm ? shifted - std::log(sum) : std::exp(shifted) / sum;
    }
  });
}

static void softmaxLikeGrad(Call &c, bool logarithm) {
  auto &dy = c.in[0]->data, &y = c.in[1]->data;
  auto &dx = c.out[0].data;
  forEachLine(c.in[0]->shape, size_t(c.integer("dim")), [&](size_t at, size_t by, size_t n) {
    double sum = 0;
    for (size_t k = 0; k < n; ++k)
      sum += dy[at + k * by] * (logarithm ? 1 : y[at + k * by]);
    for (size_t k = 0; k < n; ++k) {
      size_t i = at + k * by;
      dx[i] = logarithm ? dy[i] - std::exp(y[i]) * sum : y[i] * (dy[i] - sum);
    }
  });
}

/// Attention with all scores written down. Tensors are [batch.., heads, rows, depth], or with rows before heads.
struct Attention {
  Call &c;
  const Tensor &q, &k, &v, *statistics, *bias = nullptr, *keep = nullptr;
  bool rowsFirst;
  size_t rank = q.shape.size();
  int64_t rows = q.shape[rank - (rowsFirst ? 3 : 2)], keys = k.shape[rank - (rowsFirst ? 3 : 2)];
  int64_t heads = q.shape[rank - (rowsFirst ? 2 : 3)], group = heads / k.shape[rank - (rowsFirst ? 2 : 3)];
  int64_t depth = q.shape.back(), width = v.shape.back();
  double scale = c.real("scale");

  /// The gradient: dy, q, k, v, y, statistics, bias, keep.
  Attention(Call &call, bool gradient)
      : c(call), q(*c.in[gradient ? 1 : 0]), k(*c.in[gradient ? 2 : 1]), v(*c.in[gradient ? 3 : 2]),
        statistics(gradient ? c.in[5] : nullptr), rowsFirst(c.flag("rows_first")) {
    ArrayRef<const Tensor *> more = c.in.drop_front(gradient ? 6 : 3);
    if (c.attributes.contains("keep_scale")) {
      keep = more.back();
      more = more.drop_back();
    }
    if (!more.empty())
      bias = more.front();
  }
  /// By what dropout multiplies a probability.
  double kept(ArrayRef<int64_t> batch, int64_t head, int64_t row, int64_t key) const {
    SmallVector<int64_t> index(batch);
    index.append({head, row, key});
    return keep ? c.real("keep_scale") * broadcastAt(*keep, index) : 1;
  }

  size_t at(const Tensor &t, ArrayRef<int64_t> batch, int64_t head, int64_t row, int64_t i) const {
    SmallVector<int64_t> index(batch);
    index.append({rowsFirst ? row : head, rowsFirst ? head : row, i});
    return size_t(offset(t.shape, index));
  }
  size_t line(const Tensor &t, ArrayRef<int64_t> batch, int64_t head, int64_t row) const {
    SmallVector<int64_t> index(batch);
    index.append({head, row});
    return size_t(offset(t.shape, index));
  }
  bool outside(int64_t i, int64_t j) const { return c.flag("causal") && j > i + c.integer("start"); }
  /// Calls fn(batch, head, row, probabilities, log sum e^score).
  template <typename Fn> void forEachRow(Fn fn) const {
    forEach(ArrayRef<int64_t>(q.shape).drop_back(3), [&](ArrayRef<int64_t> batch) {
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t i = 0; i < rows; ++i) {
          std::vector<double> p(size_t(keys), 0.0);
          double top = -INFINITY, sum = 0;
          for (int64_t j = 0; j < keys; ++j) {
            double &s = p[size_t(j)];
            for (int64_t d = 0; d < depth; ++d)
              s += scale * q.data[at(q, batch, h, i, d)] * k.data[at(k, batch, h / group, j, d)];
            if (outside(i, j))
              s = c.real("outside");
            SmallVector<int64_t> index(batch);
            index.append({h, i, j});
            if (bias)
              s += broadcastAt(*bias, index);
            top = std::fmax(top, s);
          }
          for (double s : p)
            sum += std::exp(s - top);
          const double known = statistics ? statistics->data[line(*statistics, batch, h, i)] : top + std::log(sum);
          for (double &s : p)
            s = std::exp(s - known);
          fn(batch, h, i, p, known);
        }
    });
  }
};

static void attention(Call &c) {
  Attention a(c, /*gradient=*/false);
  a.forEachRow([&](ArrayRef<int64_t> batch, int64_t h, int64_t i, const std::vector<double> &p, double statistic) {
    if (c.out.size() > 1)
      c.out[1].data[a.line(c.out[1], batch, h, i)] = statistic;
    for (int64_t j = 0; j < a.keys; ++j)
      for (int64_t e = 0; e < a.width; ++e)
        c.out[0].data[a.at(c.out[0], batch, h, i, e)] +=
            p[size_t(j)] * a.kept(batch, h, i, j) * a.v.data[a.at(a.v, batch, h / a.group, j, e)];
  });
}

static void attentionGrad(Call &c) {
  Attention a(c, /*gradient=*/true);
  const Tensor &dy = *c.in[0], &y = *c.in[4];
  Tensor &dq = c.out[0], &dk = c.out[1], &dv = c.out[2];
  a.forEachRow([&](ArrayRef<int64_t> batch, int64_t h, int64_t i, const std::vector<double> &p, double) {
    std::vector<double> dp(size_t(a.keys), 0.0);
    double mean = 0;
    for (int64_t e = 0; e < a.width; ++e)
      mean += dy.data[a.at(dy, batch, h, i, e)] * y.data[a.at(y, batch, h, i, e)];
    for (int64_t j = 0; j < a.keys; ++j) {
      for (int64_t e = 0; e < a.width; ++e) {
        double g = dy.data[a.at(dy, batch, h, i, e)] * a.kept(batch, h, i, j);
        dp[size_t(j)] += g * a.v.data[a.at(a.v, batch, h / a.group, j, e)];
        dv.data[a.at(dv, batch, h / a.group, j, e)] += g * p[size_t(j)];
      }
    }
    for (int64_t j = 0; j < a.keys; ++j)
      for (int64_t d = 0; d < a.depth && !a.outside(i, j); ++d) {
        double ds = a.scale * p[size_t(j)] * (dp[size_t(j)] - mean);
        dq.data[a.at(dq, batch, h, i, d)] += ds * a.k.data[a.at(a.k, batch, h / a.group, j, d)];
        dk.data[a.at(dk, batch, h / a.group, j, d)] += ds * a.q.data[a.at(a.q, batch, h, i, d)];
      }
  });
}

// Calls fn(channel, element) for every element of x [n, c, ...].
template <typename Fn> static void forEachChannel(ArrayRef<int64_t> shape, Fn fn) {
  size_t inner = 1, i = 0;
  for (int64_t extent : shape.drop_front(2))
    inner *= size_t(extent);
  for (int64_t n = 0; n < shape[0]; ++n)
    for (size_t ch = 0; ch < size_t(shape[1]); ++ch)
      for (size_t k = 0; k < inner; ++k)
        fn(ch, i++);
}

static void batchNorm(Call &c) {
  auto &x = c.in[0]->data, &scale = c.in[1]->data, &bias = c.in[2]->data;
  auto &y = c.out[0].data, &mean = c.out[1].data, &var = c.out[2].data;
  double n = double(x.size()) / double(mean.size());
  auto shape = ArrayRef<int64_t>(c.in[0]->shape);
  forEachChannel(shape, [&](size_t ch, size_t i) { mean[ch] += x[i] / n; });
  forEachChannel(shape, [&](size_t ch, size_t i) { var[ch] += (x[i] - mean[ch]) * (x[i] - mean[ch]) / n; });
  double epsilon = c.real("epsilon");
  forEachChannel(shape, [&](size_t ch, size_t i) {
    y[i] = (x[i] - mean[ch]) / std::sqrt(var[ch] + epsilon) * scale[ch] + bias[ch];
  });
}

static void batchNormGrad(Call &c) {
  auto &dy = c.in[0]->data, &x = c.in[1]->data, &scale = c.in[2]->data, &mean = c.in[3]->data, &var = c.in[4]->data;
  auto &dx = c.out[0].data, &dscale = c.out[1].data, &dbias = c.out[2].data;
  double n = double(x.size()) / double(mean.size()), epsilon = c.real("epsilon");
  auto shape = ArrayRef<int64_t>(c.in[1]->shape);
  auto rstd = [&](size_t ch) { return 1 / std::sqrt(var[ch] + epsilon); };
  forEachChannel(shape, [&](size_t ch, size_t i) {
    dbias[ch] += dy[i];
    dscale[ch] += dy[i] * (x[i] - mean[ch]) * rstd(ch);
  });
  forEachChannel(shape, [&](size_t ch, size_t i) {
    double normal = (x[i] - mean[ch]) * rstd(ch);
    dx[i] = scale[ch] * rstd(ch) * (dy[i] - dbias[ch] / n - normal * dscale[ch] / n);
  });
}

/// Gram and Schmidt, where no column depends on those before it.
static void orthonormalize(Call &c) {
  const SmallVector<int64_t> &shape = c.in[0]->shape;
  const int64_t r = shape.back(), n = shape[shape.size() - 2];
  c.out[0].data = c.in[0]->data;
  for (double *y = c.out[0].data.data(), *end = y + c.out[0].data.size(); y != end; y += n * r)
    for (int64_t j = 0; j < r; ++j) {
      auto dot = [&](int64_t a) {
        double sum = 0;
        for (int64_t i = 0; i < n; ++i)
          sum += y[i * r + a] * y[i * r + j];
        return sum;
      };
      for (int64_t k = 0; k < 2 * j; ++k) {
        const double share = dot(k % j);
        for (int64_t i = 0; i < n; ++i)
          y[i * r + j] -= share * y[i * r + k % j];
      }
      const double length = std::sqrt(dot(j));
      for (int64_t i = 0; i < n; ++i)
        y[i * r + j] /= length;
    }
}

void addNetwork(Table &t) {
  t["matmul"] = matmul;
  t["conv"] = conv;
  t["conv_input_grad"] = convInputGrad;
  t["conv_weight_grad"] = convWeightGrad;
  t["max_pool"] = maxPool;
  t["max_pool_grad"] = maxPoolGrad;
  t["avg_pool"] = avgPool;
  t["avg_pool_grad"] = avgPoolGrad;
  t["softmax"] = [](Call &c) { softmaxLike(c, false); };
  t["log_softmax"] = [](Call &c) { softmaxLike(c, true); };
  t["softmax_grad"] = [](Call &c) { softmaxLikeGrad(c, false); };
  t["log_softmax_grad"] = [](Call &c) { softmaxLikeGrad(c, true); };
  t["attention"] = attention;
  t["orthonormalize"] = orthonormalize;
  t["attention_grad"] = attentionGrad;
  t["batch_norm"] = batchNorm;
  t["batch_norm_grad"] = batchNormGrad;
}

} // namespace tessera::test::detail
