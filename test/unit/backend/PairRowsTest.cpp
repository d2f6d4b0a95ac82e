// Rows of BF16 as pairs, and products of pairs. Processors without the instruction have neither.
#include "runtime/backend/cpu/product/PairRows.h"
#include "runtime/backend/Half.h"
#include "runtime/backend/cpu/InstructionSet.h"
#include "runtime/backend/cpu/product/ProductOps.h"
#include "test/conformance/backend/PlanBuilder.h"

#include <bit>
#include <catch2/catch.hpp>
#include <vector>

using namespace tessera;
using namespace tessera::rt;
using namespace tessera::rt::test;

namespace {

/// Small whole numbers, so that sums are exact.
uint16_t number(int64_t i) { return toBfloat16(float(i * 29 % 17 - 8)).bits; }
float value(uint16_t bits) { return bfloatToFloat(bits); }
uint32_t bitsOf(float pair) { return std::bit_cast<uint32_t>(pair); }

} // namespace

TEST_CASE("rows are interleaved in pairs, with 0 beside the last of odd ones") {
  const PairRows *const rows = pairRows();
  CHECK((rows != nullptr) == (pairOps() != nullptr));
  if (!rows)
    return;
  const int64_t stride = 70;
  std::vector<uint16_t> from(size_t(9 * stride));
  for (size_t i = 0; i < from.size(); ++i)
    from[i] = number(int64_t(i));
  for (const int64_t terms : {1, 4, 9})
    for (const int64_t n : {1, 16, 17, 32, 45, 64}) {
      INFO(terms << " x " << n);
      const int64_t room = n + 3;
      std::vector<float> to(size_t((terms + 1) / 2 * room + 1), 3);
      rows->interleave(to.data(), room, from.data(), stride, terms, n);
      for (int64_t term = 0; term < terms; term += 2)
        for (int64_t i = 0; i < room; ++i) {
          const float got = to[size_t(term / 2 * room + i)];
          if (i >= n) {
            CHECK(got == 3); // nothing is written behind a row
            continue;
          }
          const uint32_t one = from[size_t(term * stride + i)];
          const uint32_t other = term + 1 < terms ? from[size_t((term + 1) * stride + i)] : 0;
          CHECK(bitsOf(got) == (one | other << 16));
        }
    }
}

TEST_CASE("lines become BF16 up to a whole pair, are multiplied and summed") {
  const PairRows *const rows = pairRows();
  if (!rows)
    return;
  for (const int64_t n : {1, 2, 15, 16, 31, 33, 64, 197}) {
    INFO(n);
    std::vector<float> x;
    std::vector<uint16_t> a, b, to(size_t(n + 2), 5);
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      x.push_back(float(i) / 3 - 5);
      a.push_back(number(i));
      b.push_back(number(3 * i + 1));
      sum += double(value(a.back())) * double(value(b.back()));
    }
    CHECK(rows->dot(a.data(), b.data(), n) == float(sum));
    rows->narrow(to.data(), x.data(), 0.5f, n);
    for (int64_t i = 0; i < n; ++i)
      CHECK(to[size_t(i)] == toBfloat16(x[size_t(i)] * 0.5f).bits);
    if (n % 2)
      CHECK(to[size_t(n)] == 0);
    CHECK(to[size_t(n + n % 2)] == 5);
    x.push_back(9);
    rows->multiply(x.data(), 2, n);
    CHECK(x[0] == -10);
    CHECK(x.back() == 9);
  }
}

TEST_CASE("a micro tile of pairs adds both products") {
  const ProductOps *const ops = pairOps();
  if (!ops)
    return;
  const int64_t pairs = 7;
  std::vector<uint16_t> a(size_t(ops->rows * pairs * 2)), b(size_t(pairs * ops->columns * 2));
  for (size_t i = 0; i < a.size(); ++i)
    a[i] = number(int64_t(i));
  for (size_t i = 0; i < b.size(); ++i)
    b[i] = number(int64_t(5 * i + 2));
  std::vector<float> y(size_t(ops->rows * ops->columns));
  MicroTile t;
  t.a = reinterpret_cast<const float *>(a.data());
  t.rowStride = pairs;
  t.termStride = 1;
  t.b = reinterpret_cast<const float *>(b.data());
  t.bStride = ops->columns;
  t.bVectorStride = ops->vector;
  t.terms = pairs;
  t.y = y.data();
  t.yStride = ops->columns;
  t.yVectorStride = ops->vector;
  ops->run(ops->rows, 2, t);
  for (int64_t row = 0; row < ops->rows; ++row)
    for (int64_t column = 0; column < ops->columns; ++column) {
      float sum = 0;
      for (int64_t term = 0; term < 2 * pairs; ++term)
        sum += value(a[size_t(row * 2 * pairs + term)]) *
               value(b[size_t((term / 2 * ops->columns + column) * 2 + term % 2)]);
      CHECK(y[size_t(row * ops->columns + column)] == sum);
    }
}

TEST_CASE("products over rows of BF16 are of pairs, and exact where sums are") {
  struct Setting {
    Shape a, b;
    plan::DType result;
  };
  for (const Setting &s : {Setting{{64, 48}, {64, 40}, plan::BF16}, Setting{{197, 100}, {197, 70}, plan::F32},
                           Setting{{1, 5}, {1, 2}, plan::F32}, Setting{{3, 700, 33}, {3, 700, 34}, plan::BF16}}) {
    INFO(str(s.a) << " x " << str(s.b));
    PlanBuilder p;
    const uint32_t a = p.buffer(plan::BF16, s.a), b = p.buffer(plan::BF16, s.b);
    Shape shape = s.a;
    shape[shape.size() - 2] = s.a.back();
    shape.back() = s.b.back();
    const uint32_t y = p.buffer(s.result, shape);
    p.kernel("matmul", {a, b}, {y}, {{"transpose_a", int64_t(1)}, {"wide", int64_t(s.result == plan::F32)}});
    std::map<uint32_t, Values> inputs;
    for (const uint32_t buffer : {a, b})
      for (int64_t i = 0; i < elementCount(p.shapeOf(buffer)); ++i)
        inputs[buffer].push_back(double(value(number(i + int64_t(buffer)))) / 8);
    std::vector<std::string> kernels;
    const Values got = p.run("cpu", inputs, {y}, {}, &kernels)[0];
    CHECK(got == p.run("reference", inputs, {y})[0]);
    CHECK((kernels.at(0).find("avx512_bf16, 1 leaf") != std::string::npos) == (pairOps() && !multipliesTiles()));
  }
}
