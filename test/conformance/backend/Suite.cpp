#include "test/conformance/backend/Suite.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>

namespace tessera::rt::test {

Values Random::integers(int64_t n, int64_t low, int64_t high) {
  Values v(static_cast<size_t>(n));
  for (double &x : v)
    x = double(integer(low, high));
  return v;
}

Values Random::reals(int64_t n, double low, double high) {
  Values v(static_cast<size_t>(n));
  for (double &x : v)
    x = std::round((low + (high - low) * double(integer(0, 1 << 20)) * 0x1p-20) * 0x1p20) * 0x1p-20;
  return v;
}

uint32_t Case::input(Random &random, plan::DType dtype, const Shape &shape) {
  uint32_t b = plan.buffer(dtype, shape);
  int64_t n = elementCount(shape);
  if (dtype == plan::BOOL)
    inputs[b] = random.integers(n, 0, 1);
  else if (isFloat(dtype) && tolerance > 0)
    inputs[b] = random.reals(n, -1, 1);
  else
    inputs[b] = random.integers(n, dtype == plan::U8 ? 0 : -3, 3);
  return b;
}

uint32_t Case::output(plan::DType dtype, const Shape &shape) {
  uint32_t b = plan.buffer(dtype, shape);
  wanted.push_back(b);
  return b;
}

namespace {

/// The first element that is too far off; empty if none is.
std::string difference(const Values &expected, const Values &actual, double tolerance) {
  double largest = 1; // inputs lie in [-1, 1]: a difference of such is no smaller than their rounding
  for (double v : expected)
    if (std::isfinite(v))
      largest = std::max(largest, std::fabs(v));
  for (size_t i = 0; i < expected.size(); ++i) {
    double e = expected[i], a = actual[i];
    if (e == a || (std::isnan(e) && std::isnan(a)))
      continue;
    if (std::isfinite(e) && std::fabs(e - a) <= tolerance * largest)
      continue;
    return "element " + std::to_string(i) + " is " + std::to_string(a) + ", not " + std::to_string(e);
  }
  return "";
}

} // namespace

std::vector<std::string> backendsUnderTest() {
  const char *one = std::getenv("TESSERA_CONFORMANCE_BACKEND");
  return one && *one ? std::vector<std::string>{one} : std::vector<std::string>{"reference", "cpu"};
}

void check(const Case &c) {
  LoadOptions wide;
  wide.widen = true;
  std::vector<Values> expected = c.plan.run("reference", c.inputs, c.wanted, wide);
  for (const std::string &backend : backendsUnderTest())
    for (int threads : {1, 2}) {
      if (backend == "cuda" && threads == 2)
        continue; // there they only compile
      LoadOptions options;
      options.threads = threads;
      options.device.tf32 = std::getenv("TESSERA_CONFORMANCE_TF32");
      std::vector<std::string> kernels;
      INFO(c.what << " with " << threads << " threads");
      // A case that fails leaves the next ones to run: a device is seldom at hand, and tells all it can.
      std::vector<Values> actual;
      try {
        actual = c.plan.run(backend, c.inputs, c.wanted, options, &kernels);
      } catch (const std::exception &e) {
        FAIL_CHECK(e.what());
        continue;
      }
      std::string list;
      for (const std::string &k : kernels)
        list += k + "; ";
      for (size_t i = 0; i < expected.size(); ++i) {
        INFO("result " << i << " " << str(c.plan.shapeOf(c.wanted[i])) << ": " << list);
        CHECK(difference(expected[i], actual[i], c.tolerance) == "");
      }
    }
}

} // namespace tessera::rt::test
