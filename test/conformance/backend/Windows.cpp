// Pooling (exact on integers for max; 1e-6 for means, in 16 bits their last digit) and softmax (1e-5: exponentials in
// F32).
#include "test/conformance/backend/Suite.h"

#include <catch2/catch.hpp>
#include <limits>

using namespace tessera;
using namespace tessera::rt;
using namespace tessera::rt::test;

TEST_CASE("pooling of random shapes", "[conformance]") {
  Random random(11);
  for (int i = 0; i < 120; ++i) {
    size_t spatial = random.pick<size_t>({1, 2, 2, 2, 3});
    Shape x = {random.integer(1, 2), random.pick<int64_t>({1, 3, 16, 32})}, y = x;
    Shape kernel, strides, pads(2 * spatial), dilations, in;
    bool possible = true, dilated = random.integer(0, 4) == 0;
    for (size_t d = 0; d < spatial; ++d) {
      in.push_back(random.integer(2, 9));
      kernel.push_back(random.integer(1, 3));
      strides.push_back(random.integer(1, 3));
      dilations.push_back(dilated ? random.integer(1, 2) : 1);
      pads[d] = random.integer(0, kernel[d] - 1);
      pads[spatial + d] = random.integer(0, kernel[d] - 1);
    }
    x.insert(x.end(), in.begin(), in.end());
    const auto type = random.pick<plan::DType>({plan::F32, plan::F32, plan::BF16, plan::F16});
    for (const char *kind : {"max_pool", "avg_pool"}) {
      bool maximum = kind == std::string("max_pool");
      Shape out = {y[0], y[1]};
      for (size_t d = 0; d < spatial; ++d) {
        int64_t reach = (maximum ? dilations[d] : 1) * (kernel[d] - 1) + 1;
        int64_t room = in[d] + pads[d] + pads[spatial + d] - reach;
        possible = possible && room >= 0;
        out.push_back(room / strides[d] + 1);
      }
      if (!possible)
        break;
      Attributes a = {{"kernel", kernel}, {"strides", strides}, {"pads", pads}};
      if (maximum)
        a["dilations"] = dilations;
      else
        a["include_pad"] = int64_t(random.coin());
      Case c;
      c.tolerance = maximum ? 0 : type == plan::F32 ? 1e-6 : 0x1p-7;
      c.what = std::string(kind) + " of " + dtypeName(type) + " " + str(x) + " kernel " + str(kernel) + " strides " +
               str(strides) + " pads " + str(pads) + " dilations " + str(dilations);
      uint32_t bx = c.input(random, type, x);
      c.plan.kernel(kind, {bx}, {c.output(type, out)}, a);
      check(c);
      // Ties are frequent among integers: the first maximum must win.
      Case g;
      g.tolerance = c.tolerance;
      g.what = c.what + " gradient";
      if (maximum) {
        uint32_t gx = g.input(random, type, x), dy = g.input(random, type, out);
        g.plan.kernel("max_pool_grad", {gx, dy}, {g.output(type, x)}, a);
      } else {
        a["input_sizes"] = in;
        uint32_t dy = g.input(random, type, out);
        g.plan.kernel("avg_pool_grad", {dy}, {g.output(type, x)}, a);
      }
      check(g);
    }
  }
}

TEST_CASE("pooling of NaN and infinities", "[conformance]") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  // Windows hold one such number, several of them, or only such numbers.
  auto element = [&](int64_t i) {
    const int64_t row = i / 4 % 16, column = i % 4;
    return row < 3    ? -inf
           : row == 5 ? (column == 1   ? nan
                         : column == 3 ? inf
                                       : -1)
           : row == 8 ? (column < 2 ? nan : -inf)
           : row > 12 ? inf
                      : -double(i % 7);
  };
  for (plan::DType type : {plan::F32, plan::BF16})
    for (const auto &[channels, pad] : {std::pair<int64_t, int64_t>{3, 0}, {4, 1}, {16, 1}})
      for (const char *kind : {"max_pool", "avg_pool"})
        for (bool gradient : {false, true}) {
          const bool maximum = kind == std::string("max_pool");
          const Shape x = {1, channels, 16, 4}, y = {1, channels, 15 + 2 * pad, 3 + 2 * pad};
          Attributes a = {{"kernel", Shape{2, 2}}, {"strides", Shape{1, 1}}, {"pads", Shape(4, pad)}};
          if (maximum)
            a["dilations"] = Shape{1, 1};
          else
            a["include_pad"] = int64_t(1);
          Random random(15);
          Case c;
          c.what = std::string(kind) + (gradient ? "_grad" : "") + " of " + dtypeName(type) + " " + str(x) + " pad " +
                   std::to_string(pad);
          const uint32_t odd = c.plan.buffer(type, gradient && !maximum ? y : x);
          for (int64_t i = 0; i < elementCount(c.plan.shapeOf(odd)); ++i)
            c.inputs[odd].push_back(element(i));
          std::vector<uint32_t> inputs = {odd};
          if (gradient && maximum)
            inputs.push_back(c.input(random, type, y));
          else if (gradient)
            a["input_sizes"] = Shape{16, 4};
          c.plan.kernel(kind + std::string(gradient ? "_grad" : ""), inputs, {c.output(type, gradient ? x : y)}, a);
          check(c);
        }
}

TEST_CASE("softmax and its gradients", "[conformance]") {
  Random random(12);
  for (int i = 0; i < 40; ++i) {
    Shape x;
    for (int64_t d = random.integer(1, 3); d > 0; --d)
      x.push_back(random.integer(1, 20));
    Attributes a = {{"dim", random.integer(0, int64_t(x.size()) - 1)}};
    for (const char *name : {"softmax", "softmax_grad"}) {
      Case c;
      c.tolerance = 1e-5;
      c.what = std::string(name) + " " + str(x);
      uint32_t first = c.input(random, plan::F32, x);
      std::vector<uint32_t> inputs = {first};
      if (std::string(name).find("_grad") != std::string::npos)
        inputs.push_back(c.input(random, plan::F32, x));
      c.plan.kernel(name, inputs, {c.output(plan::F32, x)}, a);
      check(c);
    }
  }
}

TEST_CASE("softmax of many lines side by side, and its gradients", "[conformance]") {
  Random random(13);
  for (const Shape &x : {Shape{2, 5, 3, 100}, {1, 3, 8}, {3, 300, 40}, {2, 1, 999}, {1, 1200, 17}})
    for (const char *name : {"softmax", "softmax_grad"}) {
      Case c;
      c.tolerance = 1e-5;
      c.what = std::string(name) + " " + str(x);
      std::vector<uint32_t> inputs = {c.input(random, plan::F32, x)};
      if (std::string(name).find("_grad") != std::string::npos)
        inputs.push_back(c.input(random, plan::F32, x));
      c.plan.kernel(name, inputs, {c.output(plan::F32, x)}, {{"dim", 1}});
      check(c);
    }
}
