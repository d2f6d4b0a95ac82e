// Large loops give a thread several points without a condition between them, so that its loads are on their way
// together.
#include "runtime/backend/cuda/text/PointLoop.h"
#include "test/conformance/backend/PlanBuilder.h"

#include <catch2/catch.hpp>

using namespace tessera;
using namespace tessera::rt;
using namespace tessera::rt::cuda;
using namespace tessera::rt::test;

TEST_CASE("a thread of a large loop does its points without a condition between them") {
  const PointLoop loop{{{"const float", "in"}, {"float", "out"}}, "BODY(i);\n"};
  const std::string large = loop.source(kOnePointEach), small = loop.source(kOnePointEach - 1);
  CHECK(PointLoop::blocks(kOnePointEach) == 1024);
  CHECK(PointLoop::blocks(kOnePointEach - 1) == 4096);
  const std::string together =
      "for (u32 part = 0; part < 4u; ++part) {\nconst u32 i = first + part * 256u;\nBODY(i);\n}";
  CHECK(large.find(together) != std::string::npos);
  CHECK(small.find("part") == std::string::npos);
  CHECK(loop.tableSource().find("part < 4u") != std::string::npos);
}

TEST_CASE("every point of a large loop is done, once") {
  for (int64_t n : {kOnePointEach - 1, kOnePointEach, kOnePointEach + 255, kOnePointEach + 777}) {
    PlanBuilder p;
    const uint32_t x = p.buffer(plan::F32, {n}), y = p.buffer(plan::F32, {n});
    p.kernel("neg", {x}, {y});
    Values values;
    for (int64_t i = 0; i < n; ++i)
      values.push_back(double(i % 16777));
    const Values found = p.run("cuda", {{x, values}}, {y})[0];
    for (double &v : values)
      v = -v;
    CHECK(bool(found == values));
  }
}
