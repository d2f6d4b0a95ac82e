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
  CHECK(loop.blocks(kOnePointEach) == 1024);
  CHECK(loop.blocks(kOnePointEach - 1) == 4096);
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
  for (const char *part :
       {"const Side<float> in0_side = *(const Side<float> *)(in0 + first);\n", "Side<u16> out0_side;\n",
        "const u32 i = first | part;\n", "out0_side.e[part] = STORE(in0_side.e[part] + in1[i / 32]);\n",
        "*(Side<u16> *)(out0 + first) = out0_side;\n", "threadIdx.x * 4u", "i < first + 4u"})
    CHECK(large.find(part) != std::string::npos);
  CHECK(loop.tableSource().find("in0_side") != std::string::npos);
  // A loop that leaves the device idle gives its points to as many threads.
  CHECK(loop.source(kOnePointEach - 1).find("Side<float>") == std::string::npos);
}

TEST_CASE("what lies beside along the points is moved by one access, too") {
  PointLoop loop{{{"const u16", "in0", true}, {"const u16", "in1", true, "x1", "f1"}, {"u16", "out0", true}},
                 "out0[i] = STORE(in0[i] + in1[x1]);\n"};
  loop.each = 8;
  loop.firstIndices = "const u32 f1 = first % 64u;\n";
  CHECK(loop.pointsPerBlock() == 2048);
  CHECK(loop.blocks(kOnePointEach) == 512);
  for (const std::string &source : {loop.source(kOnePointEach), loop.tableSource()})
    for (const char *part : {"T e[8]", "const u32 f1 = first % 64u;\n", "part < 8u", "i < first + 8u",
                             "threadIdx.x * 8u", "const Side<u16> in1_side = *(const Side<u16> *)(in1 + f1);\n",
                             "out0_side.e[part] = STORE(in0_side.e[part] + in1_side.e[part]);\n"}) {
      INFO(part);
      CHECK(source.find(part) != std::string::npos);
    }
}

TEST_CASE("loops of every type do every point") {
  // Not a multiple of a block's points, nor of four; of four, and of eight.
  const std::vector<std::pair<int64_t, plan::DType>> cases = {
      {1023, plan::F32}, {1023, plan::BF16}, {1023, plan::F16},  {1023, plan::F64},
      {1028, plan::F32}, {1028, plan::BF16}, {1032, plan::BF16}, {1032, plan::F16}};
  for (const auto &[columns, type] : cases) {
    const int64_t rows = 1031, n = rows * columns;
    PlanBuilder p;
    const plan::DType wide = type == plan::F64 ? plan::F64 : plan::F32;
    // With a result of 32 bits a thread does four points, with results of 16 bits alone eight.
    const plan::DType other = columns == 1032 ? type : wide;
    const uint32_t x = p.buffer(type, {rows, columns}), bias = p.buffer(other, {columns}),
                   y = p.buffer(type, {rows, columns}), z = p.buffer(other, {rows, columns});
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
