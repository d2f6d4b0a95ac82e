// The library computes some poolings, and others are generated. Both treat NaN and infinities alike. The values of
// random shapes are those of the conformance suite.
#include "test/conformance/backend/PlanBuilder.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

using namespace tessera::rt;
using namespace tessera::rt::test;
using Catch::Contains;
namespace plan = tessera::plan;

namespace {

struct Windows {
  std::string name = "avg_pool"; // or max_pool; the forward operator
  plan::DType type = plan::F32;
  Shape x = {1, 4, 9, 6}, kernel = {3, 2}, strides = {2, 1}, pads = {1, 0, 1, 1};
  bool includePad = false;

  Shape y() const {
    Shape sizes = {x[0], x[1]};
    for (size_t d = 0; d < kernel.size(); ++d)
      sizes.push_back((x[d + 2] + pads[d] + pads[kernel.size() + d] - kernel[d]) / strides[d] + 1);
    return sizes;
  }
  Attributes attributes(bool gradient) const {
    Attributes a = {{"kernel", kernel}, {"strides", strides}, {"pads", pads}};
    if (name == "max_pool")
      a["dilations"] = Shape(kernel.size(), 1);
    else
      a["include_pad"] = int64_t(includePad);
    if (gradient && name == "avg_pool")
      a["input_sizes"] = Shape(x.begin() + 2, x.end());
    return a;
  }
};

/// The kernels that run it, forward and backward. Their results were compared with the reference backend's before.
std::vector<std::string> run(const Windows &w, const std::function<double(int64_t)> &element) {
  PlanBuilder p;
  const uint32_t x = p.buffer(w.type, w.x), y = p.buffer(w.type, w.y()), dy = p.buffer(w.type, w.y()),
                 dx = p.buffer(w.type, w.x);
  p.kernel(w.name, {x}, {y}, w.attributes(false));
  p.kernel(w.name + "_grad", w.name == "max_pool" ? std::vector<uint32_t>{x, dy} : std::vector<uint32_t>{dy}, {dx},
           w.attributes(true));
  std::map<uint32_t, Values> inputs;
  for (int64_t i = 0; i < elementCount(w.x); ++i)
    inputs[x].push_back(element(i));
  for (int64_t i = 0; i < elementCount(w.y()); ++i)
    inputs[dy].push_back(element(3 * i));
  std::vector<std::string> kernels;
  const std::vector<Values> found = p.run("cuda", inputs, {y, dx}, {}, &kernels),
                            expected = p.run("reference", inputs, {y, dx});
  const double tolerance = bytesPerElement(w.type) == 2 ? 0x1p-6 : 1e-5;
  for (size_t o : {0, 1})
    for (size_t i = 0; i < expected[o].size(); ++i) {
      const double e = expected[o][i], f = found[o][i];
      if (e == f || (std::isnan(e) && std::isnan(f)))
        continue;
      INFO(kernels[o] << ", element " << i << ": " << f << ", not " << e);
      REQUIRE(std::isfinite(e));
      REQUIRE(std::abs(e - f) <= tolerance * std::max(1.0, std::abs(e)));
    }
  return kernels;
}

double small(int64_t i) { return double(i * 7 % 11 - 5) / 4; }

} // namespace

TEST_CASE("means go to the library where its means are the plan's") {
  for (plan::DType type : {plan::F32, plan::BF16, plan::F16})
    for (bool includePad : {false, true}) {
      Windows w;
      w.type = type;
      w.includePad = includePad;
      for (const std::string &kernel : run(w, small))
        CHECK_THAT(kernel, Contains("cuDNN " + dtypeName(type)));
    }
  Windows cube, line;
  cube.x = {1, 4, 4, 5, 3};
  cube.kernel = cube.strides = {2, 1, 2};
  cube.pads = {0, 0, 1, 0, 0, 0};
  line.x = {1, 4, 9};
  line.kernel = {4};
  line.strides = {3};
  line.pads = {0, 2};
  for (const Windows &w : {cube, line})
    for (const std::string &kernel : run(w, small))
      CHECK_THAT(kernel, Contains("cuDNN"));
}

TEST_CASE("a reduction that the library computes otherwise is generated") {
  Windows padding, negative, large, wide, maximum, refused;
  padding.pads = {3, 0, 3, 1}; // the first windows and the last hold nothing
  negative.pads = {-1, 0, 1, 1};
  large.x = {1, 4, 9, 9};
  large.kernel = {9, 8};
  wide.type = plan::F64;
  maximum.name = "max_pool";
  refused.x = {2, 4, 9, 6}; // by the emulator
  for (const Windows &w : {padding, negative, large, wide, maximum, refused})
    for (const std::string &kernel : run(w, small))
      CHECK_THAT(kernel, Contains("generated") && !Contains("cuDNN"));
}

TEST_CASE("NaN and infinities stay in the windows that hold them") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (const char *name : {"avg_pool", "max_pool"})
    for (plan::DType type : {plan::F32, plan::BF16}) {
      Windows w;
      w.name = name;
      w.type = type;
      w.x = {1, 4, 16, 6};
      // Windows hold one such number, several of them, or only such numbers.
      run(w, [&](int64_t i) {
        const int64_t row = i / 6 % 16, column = i % 6;
        return row < 4    ? -inf
               : row == 6 ? (column == 1   ? nan
                             : column == 4 ? inf
                                           : -1)
               : row == 9 ? (column < 3 ? nan : -inf)
               : row > 12 ? inf
                          : small(i);
      });
    }
}
