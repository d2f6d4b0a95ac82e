// Large loops give a thread several points without a condition between them, so that its loads are on their way
// together.
#include "runtime/backend/cuda/text/PointLoop.h"
#include "test/conformance/backend/Loops.h"
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

TEST_CASE("a thread moves four neighbouring elements by one access") {
  const PointLoop loop{{{"const float", "in0", true}, {"const float", "in1"}, {"u16", "out0", true}},
                       "out0[i] = STORE(in0[i] + in1[i / 32]);\n"};
  const std::string large = loop.source(kOnePointEach);
  for (const char *part : {"const Four<float> in0_4 = *(const Four<float> *)(in0 + first);\n", "Four<u16> out0_4;\n",
                           "const u32 i = first | part;\n", "out0_4.e[part] = STORE(in0_4.e[part] + in1[i / 32]);\n",
                           "*(Four<u16> *)(out0 + first) = out0_4;\n", "threadIdx.x * 4u", "i < first + 4u"})
    CHECK(large.find(part) != std::string::npos);
  CHECK(loop.tableSource().find("in0_4") != std::string::npos);
  // A loop that leaves the device idle gives its points to as many threads.
  CHECK(loop.source(kOnePointEach - 1).find("Four<float>") == std::string::npos);
}

TEST_CASE("loops of every type do every point") {
  const int64_t rows = 1031, columns = 1023, n = rows * columns; // not a multiple of a block's points, nor of four
  for (const plan::DType type : {plan::F32, plan::BF16, plan::F16, plan::F64}) {
    PlanBuilder p;
    const plan::DType wide = type == plan::F64 ? plan::F64 : plan::F32;
    const uint32_t x = p.buffer(type, {rows, columns}), bias = p.buffer(wide, {columns}),
                   y = p.buffer(type, {rows, columns}), z = p.buffer(wide, {rows, columns});
    Loop(p, {rows, columns}, wide).in(x).in(bias, {1, columns}).op("add", {0, 1}).out(y, 2).out(z, 2);
    Values values, added;
    for (int64_t i = 0; i < n; ++i)
      values.push_back(double(i % 61));
    for (int64_t i = 0; i < columns; ++i)
      added.push_back(double(i % 67));
    const std::vector<Values> found = p.run("cuda", {{x, values}, {bias, added}}, {y, z});
    int64_t wrong = 0;
    for (int64_t i = 0; i < n; ++i)
      for (const Values &result : found)
        wrong += result[size_t(i)] != values[size_t(i)] + added[size_t(i % columns)];
    INFO("type " << int(type));
    CHECK(wrong == 0);
  }
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
