// The reference's matmul and convolutions against the definition, term by term.
#include "test/conformance/backend/PlanBuilder.h"

#include <catch2/catch.hpp>

using namespace tessera;
using namespace tessera::rt;
using namespace tessera::rt::test;

namespace {
/// Small integers: every sum is exact.
Values numbers(int64_t n, int64_t seed) {
  Values v(static_cast<size_t>(n));
  for (size_t i = 0; i < v.size(); ++i)
    v[i] = double((int64_t(i) * 7 + seed * 13) % 11 - 5);
  return v;
}

struct Conv2D {
  int64_t n, g, c, f, h, w, r, s, sh, sw, ph, pw, ph2, pw2, dh, dw;
  int64_t oh() const { return (h + ph + ph2 - dh * (r - 1) - 1) / sh + 1; }
  int64_t ow() const { return (w + pw + pw2 - dw * (s - 1) - 1) / sw + 1; }
  Shape x() const { return {n, g * c, h, w}; }
  Shape k() const { return {g * f, c, r, s}; }
  Shape y() const { return {n, g * f, oh(), ow()}; }
  Attributes attributes() const {
    return {{"strides", Shape{sh, sw}}, {"pads", Shape{ph, pw, ph2, pw2}}, {"dilations", Shape{dh, dw}}, {"groups", g}};
  }
  /// term(ix, ik, iy) for all x, k, y that meet.
  template <typename F> void terms(F term) const {
    for (int64_t b = 0; b < n; ++b)
      for (int64_t q = 0; q < g * f; ++q)
        for (int64_t i = 0; i < oh(); ++i)
          for (int64_t j = 0; j < ow(); ++j)
            for (int64_t p = 0; p < c; ++p)
              for (int64_t a = 0; a < r; ++a)
                for (int64_t e = 0; e < s; ++e) {
                  int64_t yy = i * sh - ph + a * dh, xx = j * sw - pw + e * dw;
                  if (yy < 0 || yy >= h || xx < 0 || xx >= w)
                    continue;
                  int64_t channel = q / f * c + p;
                  term(size_t(((b * g * c + channel) * h + yy) * w + xx), size_t(((q * c + p) * r + a) * s + e),
                       size_t(((b * g * f + q) * oh() + i) * ow() + j));
                }
  }
};
} // namespace

TEST_CASE("convolution and its gradients follow the definition") {
  std::vector<Conv2D> cases = {
      {2, 1, 3, 5, 6, 7, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1},
      {1, 1, 20, 33, 5, 5, 1, 1, 2, 2, 0, 0, 0, 0, 1, 1},
      {2, 3, 2, 4, 9, 8, 3, 2, 2, 1, 1, 0, 2, 1, 2, 3},
      {1, 4, 1, 1, 6, 6, 3, 3, 1, 2, 4, 3, 0, 5, 1, 1},   // pads wider than the kernel, depthwise
      {1, 1, 2, 2, 6, 6, 3, 3, 1, 1, -1, 0, 0, -2, 1, 1}, // negative pads crop
  };
  for (const Conv2D &c : cases) {
    Values x = numbers(elementCount(c.x()), 1), k = numbers(elementCount(c.k()), 2);
    Values dy = numbers(elementCount(c.y()), 3);
    Values y(dy.size()), dx(x.size()), dk(k.size());
    c.terms([&](size_t ix, size_t ik, size_t iy) {
      y[iy] += x[ix] * k[ik];
      dx[ix] += dy[iy] * k[ik];
      dk[ik] += dy[iy] * x[ix];
    });
    PlanBuilder p;
    uint32_t bx = p.buffer(plan::F32, c.x()), bk = p.buffer(plan::F32, c.k());
    uint32_t by = p.buffer(plan::F32, c.y()), bdy = p.buffer(plan::F32, c.y());
    uint32_t bdx = p.buffer(plan::F32, c.x()), bdk = p.buffer(plan::F32, c.k());
    Attributes a = c.attributes(), in = a, weight = a;
    in["input_sizes"] = Shape{c.h, c.w};
    weight["kernel_sizes"] = Shape{c.r, c.s};
    p.kernel("conv", {bx, bk}, {by}, a);
    p.kernel("conv_input_grad", {bdy, bk}, {bdx}, in);
    p.kernel("conv_weight_grad", {bx, bdy}, {bdk}, weight);
    LoadOptions options;
    options.threads = 2;
    auto out = p.run("reference", {{bx, x}, {bk, k}, {bdy, dy}}, {by, bdx, bdk}, options);
    CHECK(out[0] == y);
    CHECK(out[1] == dx);
    CHECK(out[2] == dk);
  }
}

TEST_CASE("convolution in one and three dimensions") {
  PlanBuilder p;
  uint32_t x = p.buffer(plan::F64, {1, 1, 4}), k = p.buffer(plan::F64, {1, 1, 2});
  uint32_t y = p.buffer(plan::F64, {1, 1, 3});
  p.kernel("conv", {x, k}, {y},
           {{"strides", Shape{1}}, {"pads", Shape{0, 0}}, {"dilations", Shape{1}}, {"groups", int64_t(1)}});
  CHECK(p.run("reference", {{x, {1, 2, 3, 4}}, {k, {10, 1}}}, {y})[0] == Values{12, 23, 34});
  PlanBuilder q;
  uint32_t x3 = q.buffer(plan::F32, {1, 1, 2, 2, 2}), k3 = q.buffer(plan::F32, {1, 1, 2, 2, 2});
  uint32_t y3 = q.buffer(plan::F32, {1, 1, 1, 1, 1});
  q.kernel("conv", {x3, k3}, {y3},
           {{"strides", Shape{1, 1, 1}}, {"pads", Shape(6, 0)}, {"dilations", Shape{1, 1, 1}}, {"groups", int64_t(1)}});
  CHECK(q.run("reference", {{x3, {1, 2, 3, 4, 5, 6, 7, 8}}, {k3, Values(8, 1)}}, {y3})[0] == Values{36});
}

TEST_CASE("matmul with transposes and batch broadcast") {
  for (bool ta : {false, true})
    for (bool tb : {false, true})
      for (plan::DType type : {plan::F32, plan::I64}) {
        int64_t m = 3, n = 18, k = 5;
        Values a = numbers(2 * m * k, 1), b = numbers(3 * k * n, 2), expected;
        for (int64_t ia = 0; ia < 2; ++ia) // batches: a [2, 1], b [3] -> [2, 3]
          for (int64_t ib = 0; ib < 3; ++ib)
            for (int64_t r = 0; r < m; ++r)
              for (int64_t c = 0; c < n; ++c) {
                double sum = 0;
                for (int64_t t = 0; t < k; ++t)
                  sum += a[size_t(ia * m * k + (ta ? t * m + r : r * k + t))] *
                         b[size_t(ib * k * n + (tb ? c * k + t : t * n + c))];
                expected.push_back(sum);
              }
        PlanBuilder p;
        uint32_t x = p.buffer(type, ta ? Shape{2, 1, k, m} : Shape{2, 1, m, k});
        uint32_t w = p.buffer(type, tb ? Shape{3, n, k} : Shape{3, k, n});
        uint32_t y = p.buffer(type, {2, 3, m, n});
        p.kernel("matmul", {x, w}, {y}, {{"transpose_a", int64_t(ta)}, {"transpose_b", int64_t(tb)}});
        CHECK(p.run("reference", {{x, a}, {w, b}}, {y})[0] == expected);
      }
}
