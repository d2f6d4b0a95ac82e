// Functions that the text of kernels has of its own, against F64, over all of their operands.
#include "test/conformance/backend/PlanBuilder.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <limits>

using namespace tessera::rt;
using namespace tessera::rt::test;
namespace plan = tessera::plan;

namespace {

Values erfOf(const Values &x) {
  PlanBuilder p;
  const Shape all{int64_t(x.size())};
  const uint32_t in = p.buffer(plan::F32, all), out = p.buffer(plan::F32, all);
  p.kernel("erf", {in}, {out});
  return p.run("cuda", {{in, x}}, {out})[0];
}

} // namespace

TEST_CASE("erf of F32 is off by two units in the last place at most, and never beyond 1") {
  Values x;
  for (int64_t i = 0; i < 600000; ++i) {
    const auto dense = float(double(i) / 1e5); // to 6
    x.push_back(i % 2 ? dense : -dense);
    if (i < 400) // powers, down to subnormal numbers
      x.push_back(std::ldexp(i % 2 ? 1.375f : -1.0f, int(-i / 3)));
  }
  const Values found = erfOf(x);
  double most = 0, absolute = 0;
  int64_t wrong = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = std::erf(x[i]), off = std::fabs(found[i] - expected);
    const float e = std::fabs(float(expected));
    const double unit = std::max(double(e) - double(std::nextafterf(e, 0)), 1e-44);
    most = std::max(most, off / unit);
    absolute = std::max(absolute, off);
    wrong += std::fabs(found[i]) > 1 || std::signbit(found[i]) != std::signbit(x[i]);
  }
  CHECK(wrong == 0);
  CHECK(most < 2);
  CHECK(absolute < 1.2e-7);
}

TEST_CASE("erf of what is no number or no finite one") {
  const double inf = std::numeric_limits<double>::infinity();
  const Values found = erfOf({inf, -inf, std::nan(""), 1e30, -1e30, 0.0, -0.0});
  CHECK(found[0] == 1);
  CHECK(found[1] == -1);
  CHECK(std::isnan(found[2]));
  CHECK(found[3] == 1);
  CHECK(found[4] == -1);
  CHECK((found[5] == 0 && !std::signbit(found[5])));
  CHECK((found[6] == 0 && std::signbit(found[6])));
}
