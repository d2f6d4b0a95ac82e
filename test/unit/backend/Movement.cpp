// Data movement and indexing on the reference backend, and conversions between layouts.
#include "test/conformance/backend/PlanBuilder.h"

#include <catch2/catch.hpp>
#include <numeric>

using namespace tessera;
using namespace tessera::rt;
using namespace tessera::rt::test;

namespace {
Values counting(int64_t n) {
  Values v(static_cast<size_t>(n));
  std::iota(v.begin(), v.end(), 0);
  return v;
}

Values one(const std::string &name, plan::DType type, const Shape &in, const Shape &out, const Attributes &attributes) {
  PlanBuilder p;
  uint32_t x = p.buffer(type, in), y = p.buffer(type, out);
  p.kernel(name, {x}, {y}, attributes);
  return p.run("reference", {{x, counting(elementCount(in))}}, {y})[0];
}
} // namespace

TEST_CASE("transpose, slice, pad, broadcast, reshape") {
  for (plan::DType t : {plan::F32, plan::F64, plan::I8, plan::BF16}) {
    CHECK(one("transpose", t, {2, 3}, {3, 2}, {{"perm", Shape{1, 0}}}) == Values{0, 3, 1, 4, 2, 5});
    CHECK(one("slice", t, {2, 5}, {1, 2},
              {{"starts", Shape{1, 1}}, {"limits", Shape{2, 5}}, {"strides", Shape{1, 3}}}) == Values{6, 9});
    CHECK(one("pad", t, {2, 2}, {3, 4},
              {{"lo", Shape{1, 0}}, {"hi", Shape{0, 1}}, {"inner", Shape{0, 1}}, {"value", 7.0}}) ==
          Values{7, 7, 7, 7, 0, 7, 1, 7, 2, 7, 3, 7});
    CHECK(one("broadcast", t, {2, 1}, {2, 2, 2}, {}) == Values{0, 0, 1, 1, 0, 0, 1, 1});
    CHECK(one("reshape", t, {2, 3}, {6}, {}) == counting(6));
  }
}

TEST_CASE("concat along a middle dimension") {
  PlanBuilder p;
  uint32_t a = p.buffer(plan::I64, {2, 1, 2}), b = p.buffer(plan::I64, {2, 2, 2});
  uint32_t y = p.buffer(plan::I64, {2, 3, 2});
  p.kernel("concat", {a, b}, {y}, {{"dim", int64_t(1)}});
  CHECK(p.run("reference", {{a, counting(4)}, {b, {10, 11, 12, 13, 14, 15, 16, 17}}}, {y})[0] ==
        Values{0, 1, 10, 11, 12, 13, 2, 3, 14, 15, 16, 17});
}

TEST_CASE("gather gives 0 outside the shard and scatter_add is its adjoint") {
  PlanBuilder p;
  uint32_t table = p.buffer(plan::F32, {2, 3, 2}), i = p.buffer(plan::I32, {2, 2});
  uint32_t y = p.buffer(plan::F32, {2, 2, 2, 2}), back = p.buffer(plan::F32, {2, 3, 2});
  p.kernel("gather", {table, i}, {y}, {{"axis", int64_t(1)}, {"start", int64_t(3)}});
  p.kernel("scatter_add", {i, y}, {back}, {{"axis", int64_t(1)}, {"size", int64_t(3)}, {"start", int64_t(3)}});
  auto out = p.run("reference", {{table, counting(12)}, {i, {3, 5, 5, 2}}}, {y, back});
  CHECK(out[0] == Values{0, 1, 4, 5, 4, 5, 0, 0, 6, 7, 10, 11, 10, 11, 0, 0});
  CHECK(out[1] == Values{0, 1, 0, 0, 8, 10, 6, 7, 0, 0, 20, 22});
}

TEST_CASE("layouts convert there and back") {
  Shape shape = {2, 32, 3};
  Layout blocked{{{1, 16}}}, weights{{{1, 4}, {0, 2}, {1, 2}}};
  Values plain = counting(elementCount(shape)), a(plain.size()), b(plain.size());
  convertLayout(a.data(), blocked, plain.data(), Layout(), shape, 8);
  // [n][C][x][c]: element (1, 17, 2) lies at block 1, position 1.
  CHECK(a[((1 * 2 + 1) * 3 + 2) * 16 + 1] == (1 * 32 + 17) * 3 + 2);
  convertLayout(b.data(), weights, a.data(), blocked, shape, 8);
  // (1, 17, 2): dim 1 = 2 * 8 + 0 * 2 + 1: outer 2, then blocks 4 -> 0, 2 -> 1; dim 0 = outer 0,
  // inner 1.
  CHECK(b[(((0 * 4 + 2) * 3 + 2) * 4 + 0) * 4 + 1 * 2 + 1] == (1 * 32 + 17) * 3 + 2);
  convertLayout(a.data(), Layout(), b.data(), weights, shape, 8);
  CHECK(a == plain);
}

TEST_CASE("boxes are copied between layouts unless they cut a block") {
  const Shape whole = {3, 64, 2}, box = {2, 32, 2}, begin = {1, 16, 0}, zero = {0, 0, 0};
  const Layout plain, blocked{{{1, 16}}};
  const Values from = counting(elementCount(whole));
  Values inBlocks(from.size()), part(size_t(elementCount(box))), partInBlocks(part.size()), back(part.size());
  convertLayout(inBlocks.data(), blocked, from.data(), plain, whole, 8);
  copyOfBox({plain, box, zero}, {plain, whole, begin}, box)->run(part.data(), from.data(), 8);
  CHECK(part[0] == (1 * 64 + 16) * 2);
  CHECK(part.back() == (2 * 64 + 47) * 2 + 1);
  std::optional<StridedCopy> copy = copyOfBox({blocked, box, zero}, {blocked, whole, begin}, box);
  REQUIRE(copy);
  copy->run(partInBlocks.data(), inBlocks.data(), 8);
  convertLayout(back.data(), plain, partInBlocks.data(), blocked, box, 8);
  CHECK(back == part);
  // From blocks to rows, and back into the place that the box was taken from.
  copyOfBox({plain, box, zero}, {blocked, whole, begin}, box)->run(back.data(), inBlocks.data(), 8);
  CHECK(back == part);
  Values rest = inBlocks;
  for (double &value : back)
    value += 1000;
  copyOfBox({blocked, whole, begin}, {plain, box, zero}, box)->run(rest.data(), back.data(), 8);
  Values unblocked(rest.size());
  convertLayout(unblocked.data(), plain, rest.data(), blocked, whole, 8);
  for (size_t i = 0; i < from.size(); ++i) {
    const size_t row = i / 128, channel = i / 2 % 64;
    CHECK(unblocked[i] == from[i] + (row >= 1 && channel >= 16 && channel < 48 ? 1000 : 0));
  }
  CHECK_FALSE(copyOfBox({plain, box, zero}, {blocked, whole, {1, 8, 0}}, box));
  CHECK_FALSE(copyOfBox({plain, {2, 24, 2}, zero}, {blocked, whole, begin}, {2, 24, 2}));
  CHECK_FALSE(copyOfBox({blocked, whole, {1, 24, 0}}, {plain, box, zero}, box));
}

TEST_CASE("boxes are copied from and to channels that lie last, wherever they begin") {
  const Shape whole = {3, 64, 2, 5}, box = {2, 23, 2, 5}, begin = {1, 9, 0, 0}, zero = {0, 0, 0, 0};
  const Layout plain, last{{{1, 64}}}, lastOfBox{{{1, 23}}};
  const Values from = counting(elementCount(whole));
  Values lying(from.size()), part(size_t(elementCount(box))), back(part.size());
  convertLayout(lying.data(), last, from.data(), plain, whole, 8);
  CHECK(lying[1] == 10); // channel 1 of the first pixel
  CHECK(lying[64] == 1); // the second pixel
  CHECK(lying[size_t((2 * 10 + 7) * 64 + 33)] == (2 * 64 + 33) * 10 + 7);
  copyOfBox({plain, box, zero}, {plain, whole, begin}, box)->run(part.data(), from.data(), 8);
  for (const Layout &layout : {plain, lastOfBox}) {
    Values cut(part.size()), put = lying, unpacked(from.size());
    copyOfBox({layout, box, zero}, {last, whole, begin}, box)->run(cut.data(), lying.data(), 8);
    convertLayout(back.data(), plain, cut.data(), layout, box, 8);
    CHECK(back == part);
    for (double &value : cut)
      value += 1000;
    copyOfBox({last, whole, begin}, {layout, box, zero}, box)->run(put.data(), cut.data(), 8);
    convertLayout(unpacked.data(), plain, put.data(), last, whole, 8);
    for (size_t i = 0; i < from.size(); ++i) {
      const size_t row = i / 640, channel = i / 10 % 64;
      CHECK(unpacked[i] == from[i] + (row >= 1 && channel >= 9 && channel < 32 ? 1000 : 0));
    }
  }
  // Blocks of 16 may not be cut, whatever the other side is.
  CHECK_FALSE(copyOfBox({lastOfBox, box, zero}, {Layout{{{1, 16}}}, whole, begin}, box));
}
