// Pooling and softmax on the reference backend.
#include "test/conformance/backend/PlanBuilder.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace tessera;
using namespace tessera::rt;
using namespace tessera::rt::test;

TEST_CASE("max_pool and the first maximum of every window") {
  PlanBuilder p;
  Attributes a = {
      {"kernel", Shape{2, 2}}, {"strides", Shape{1, 2}}, {"pads", Shape{0, 1, 0, 0}}, {"dilations", Shape{1, 1}}};
  uint32_t x = p.buffer(plan::F32, {1, 1, 3, 3}), y = p.buffer(plan::F32, {1, 1, 2, 2});
  uint32_t dy = p.buffer(plan::F32, {1, 1, 2, 2}), dx = p.buffer(plan::F32, {1, 1, 3, 3});
  p.kernel("max_pool", {x}, {y}, a);
  p.kernel("max_pool_grad", {x, dy}, {dx}, a);
  auto out = p.run("reference", {{x, {-1, 2, 2, -1, 2, 0, -5, 1, 3}}, {dy, {1, 10, 100, 1000}}}, {y, dx});
  // Columns of the windows: {pad, 0} and {1, 2}.
  CHECK(out[0] == Values{-1, 2, -1, 3});
  CHECK(out[1] == Values{1, 10, 0, 100, 0, 0, 0, 0, 1000});
}

TEST_CASE("avg_pool with and without the padding, and its adjoint") {
  for (bool include : {false, true}) {
    PlanBuilder p;
    Attributes a = {
        {"kernel", Shape{2}}, {"strides", Shape{2}}, {"pads", Shape{1, 0}}, {"include_pad", int64_t(include)}};
    Attributes grad = a;
    grad["input_sizes"] = Shape{3};
    uint32_t x = p.buffer(plan::F64, {1, 1, 3}), y = p.buffer(plan::F64, {1, 1, 2});
    uint32_t dx = p.buffer(plan::F64, {1, 1, 3});
    p.kernel("avg_pool", {x}, {y}, a);
    p.kernel("avg_pool_grad", {y}, {dx}, grad);
    auto out = p.run("reference", {{x, {8, 2, 4}}}, {y, dx});
    CHECK(out[0] == (include ? Values{4, 3} : Values{8, 3}));
    CHECK(out[1] == (include ? Values{2, 1.5, 1.5} : Values{8, 1.5, 1.5}));
  }
}

TEST_CASE("softmax is stable and its gradient matches the formula") {
  PlanBuilder p;
  Attributes a = {{"dim", int64_t(1)}};
  uint32_t x = p.buffer(plan::F64, {1, 3, 2}), s = p.buffer(plan::F64, {1, 3, 2});
  uint32_t dy = p.buffer(plan::F64, {1, 3, 2}), ds = p.buffer(plan::F64, {1, 3, 2});
  p.kernel("softmax", {x}, {s}, a);
  p.kernel("softmax_grad", {dy, s}, {ds}, a);
  Values v = {1000, 0, 1001, 1, 1002, 3}, g = {1, 2, 0, -1, 3, 1};
  auto out = p.run("reference", {{x, v}, {dy, g}}, {s, ds});
  for (size_t c = 0; c < 2; ++c) {
    double sum = 0, dot = 0;
    for (size_t i = 0; i < 3; ++i)
      sum += std::exp(v[2 * i + c] - v[4 + c]);
    for (size_t i = 0; i < 3; ++i) {
      double y = std::exp(v[2 * i + c] - v[4 + c]) / sum;
      CHECK(out[0][2 * i + c] == Approx(y));
      dot += y * g[2 * i + c];
    }
    for (size_t i = 0; i < 3; ++i)
      CHECK(out[1][2 * i + c] == Approx(out[0][2 * i + c] * (g[2 * i + c] - dot)));
  }
}
