// Steps of one thread each that run at once.
#include "runtime/backend/SideBySide.h"
#include "test/conformance/backend/PlanBuilder.h"

#include <catch2/catch.hpp>

using namespace tessera;
using namespace tessera::rt;
using namespace tessera::rt::test;

namespace {

std::byte memory[1024];

TensorView bytesAt(size_t at, int64_t count) { return {plan::U8, {count}, Layout(), memory + at}; }

/// A step that reads 64 bytes and writes 64.
SingleStep step(size_t reads, size_t writes) {
  SingleStep s{true, 0, {KernelCall()}};
  s.calls[0].inputs = {bytesAt(reads, 64)};
  s.calls[0].outputs = {bytesAt(writes, 64)};
  return s;
}

using Counts = std::vector<uint32_t>;

} // namespace

TEST_CASE("steps in a row run at once unless one touches what another writes") {
  const SingleStep a = step(0, 512), b = step(0, 576), c = step(64, 640);
  CHECK(countSideBySide({}).empty());
  CHECK(countSideBySide({a, b, c}) == Counts{3, 0, 0});
  CHECK(countSideBySide({a, b, step(512, 640)}) == Counts{2, 0, 1}); // reads what the first writes
  CHECK(countSideBySide({a, b, step(543, 640)}) == Counts{2, 0, 1}); // and what both write
  CHECK(countSideBySide({a, step(64, 0)}) == Counts{1, 1});          // writes what the first reads
  CHECK(countSideBySide({a, step(64, 512), b}) == Counts{1, 2, 0});  // writes the same place
  SingleStep alone = b, elsewhere = b, twice = b;
  alone.single = false;
  elsewhere.section = 1;
  twice.calls.push_back(twice.calls[0]);
  CHECK(countSideBySide({a, alone, c}) == Counts{1, 1, 1});
  CHECK(countSideBySide({a, elsewhere, c}) == Counts{1, 1, 1});
  CHECK(countSideBySide({a, twice}) == Counts{1, 1});
}

TEST_CASE("weight gradients of leaves run on a thread each, with the bits of one thread") {
  PlanBuilder p;
  constexpr int64_t leaves = 5, rows = 2;
  const uint32_t x = p.buffer(plan::F32, {leaves * rows, 32, 6, 6}),
                 dy = p.buffer(plan::F32, {leaves * rows, 16, 4, 4});
  std::vector<uint32_t> gradients;
  for (int64_t leaf = 0; leaf < leaves; ++leaf) {
    gradients.push_back(p.buffer(plan::F32, {16, 32, 3, 3}));
    p.kernel("conv_weight_grad", {p.rows(x, leaf * rows, rows), p.rows(dy, leaf * rows, rows)}, {gradients.back()},
             {{"strides", Shape{1, 1}},
              {"pads", Shape{0, 0, 0, 0}},
              {"dilations", Shape{1, 1}},
              {"groups", int64_t(1)},
              {"kernel_sizes", Shape{3, 3}}});
  }
  p.plan().set_leaves(leaves);
  Values in, of;
  for (int64_t i = 0; i < leaves * rows * 32 * 36; ++i)
    in.push_back(double(float(i % 101) / 7));
  for (int64_t i = 0; i < leaves * rows * 16 * 16; ++i)
    of.push_back(double(float(i % 31) / 3 - 4));
  std::vector<std::string> alone, beside;
  const auto one = p.run("cpu", {{x, in}, {dy, of}}, gradients, {.threads = 1}, &alone);
  for (int threads : {2, 3, 8})
    CHECK(p.run("cpu", {{x, in}, {dy, of}}, gradients, {.threads = threads}, &beside) == one);
  for (size_t s = 0; s < size_t(leaves); ++s) {
    CHECK(alone[s].find("a thread each") == std::string::npos);
    CHECK(beside[s].find("a thread each") != std::string::npos);
  }
}
