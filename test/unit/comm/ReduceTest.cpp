#include "runtime/comm/Reduce.h"
#include "runtime/support/Float16.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

using namespace tessera::rt;
namespace plan = tessera::plan;

namespace {

/// The value of a small float by its definition.
double decode(uint16_t bits, int mantissa, int low) {
  const int exponent = (bits & 0x7fff) >> mantissa, fraction = bits & ((1 << mantissa) - 1);
  const double sign = bits & 0x8000 ? -1 : 1;
  return sign *
         std::ldexp(exponent ? fraction + (1 << mantissa) : fraction, std::max(exponent, 1) - 1 + low - mantissa);
}

bool finite(uint16_t bits, int mantissa) { return (bits & 0x7fff) < (0x7fff >> mantissa << mantissa); }

} // namespace

TEST_CASE("16-bit floats: every value survives a conversion, and numbers between neighbours round", "[comm]") {
  struct Format {
    int mantissa, low;
    float (*widen)(uint16_t);
    uint16_t (*narrow)(float);
  };
  for (const Format &f : {Format{10, -14, halfToFloat, floatToHalf}, Format{7, -126, bfloatToFloat, floatToBfloat}}) {
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      const auto b = uint16_t(bits);
      const float wide = f.widen(b);
      if (!finite(b, f.mantissa)) {
        const bool nan = (b & ((1 << f.mantissa) - 1)) != 0;
        REQUIRE(std::isnan(wide) == nan);
        REQUIRE(std::isnan(f.widen(f.narrow(wide))) == nan);
        if (!nan)
          REQUIRE(f.narrow(wide) == b);
        continue;
      }
      REQUIRE(wide == decode(b, f.mantissa, f.low));
      REQUIRE(std::signbit(wide) == (b >> 15 != 0));
      REQUIRE(f.narrow(wide) == b);
      // A tie between this value and the next larger magnitude goes to the even one.
      const auto up = uint16_t(b + 1);
      if (!finite(up, f.mantissa))
        continue;
      const double next = decode(up, f.mantissa, f.low), middle = (wide + next) / 2;
      const auto tie = float(middle);
      if (tie != middle) // below the range of F32's subnormal numbers
        continue;
      REQUIRE(f.narrow(tie) == (b & 1 ? up : b));
      REQUIRE(f.narrow(std::nextafter(tie, wide)) == b);
      REQUIRE(f.narrow(std::nextafter(tie, float(next))) == up);
    }
  }
  CHECK(floatToHalf(65519.0f) == 0x7bff);
  CHECK(floatToHalf(65520.0f) == 0x7c00);
  CHECK(floatToHalf(1e30f) == 0x7c00);
  CHECK(floatToHalf(1e-30f) == 0);
  CHECK(floatToBfloat(std::numeric_limits<float>::max()) == 0x7f80);
}

TEST_CASE("sums follow the order of the inputs", "[comm]") {
  // (1e8 + 1) - 1e8 is 0 in F32, (1e8 - 1e8) + 1 is 1.
  const std::vector<float> big(9000, 1e8f), one(9000, 1.0f), minus(9000, -1e8f);
  std::vector<float> out(9000), copy(9000);
  const void *first[] = {big.data(), one.data(), minus.data()};
  const void *second[] = {big.data(), minus.data(), one.data()};
  void *outs[] = {out.data(), copy.data()};
  reduceTo(first, 3, outs, 2, 9000, plan::F32, plan::SUM);
  CHECK(out == std::vector<float>(9000, 0.0f));
  CHECK(copy == out);
  reduceTo(second, 3, outs, 2, 9000, plan::F32, plan::SUM);
  CHECK(out == std::vector<float>(9000, 1.0f));
  CHECK(copy == out);
}

TEST_CASE("16-bit sums are rounded once", "[comm]") {
  // 2048 + 1 + 1 is 2050 in F16; rounding in between would give 2048.
  const uint16_t a = floatToHalf(2048), b = floatToHalf(1);
  const void *in[] = {&a, &b, &b};
  uint16_t sum = 0;
  void *out[] = {&sum};
  reduceTo(in, 3, out, 1, 1, plan::F16, plan::SUM);
  CHECK(halfToFloat(sum) == 2050);
}

TEST_CASE("a tree of trees is one tree, however the parts are shared out", "[comm]") {
  struct Shared {
    int parts, each;
  };
  constexpr size_t count = 5001;
  for (plan::DType type : {plan::F32, plan::F64, plan::BF16, plan::F16}) {
    const size_t size = bytesPerElement(type);
    std::mt19937_64 random(7);
    std::vector<std::vector<std::byte>> parts(16, std::vector<std::byte>(count * size));
    for (std::vector<std::byte> &part : parts)
      for (size_t i = 0; i < count; ++i) {
        const double wide = std::ldexp(double(random() >> 11) - 0x1p52, int(random() % 12) - 58);
        const auto value = float(wide);
        const uint16_t half = type == plan::F16 ? floatToHalf(value) : floatToBfloat(value);
        const void *from = size == 8   ? static_cast<const void *>(&wide)
                           : size == 4 ? static_cast<const void *>(&value)
                                       : &half;
        std::memcpy(part.data() + i * size, from, size);
      }
    auto tree = [&](const std::vector<std::vector<std::byte>> &inputs, bool asTree = true) {
      std::vector<const void *> in;
      for (const auto &input : inputs)
        in.push_back(input.data());
      std::vector<std::byte> sum(count * size);
      void *out[] = {sum.data()};
      reduceTo(in.data(), int(in.size()), out, 1, count, type, {plan::SUM, asTree});
      return sum;
    };
    for (const Shared &s : {Shared{8, 2}, {8, 4}, {8, 8}, {16, 2}, {16, 8}, {12, 4}, {6, 2}, {7, 2}, {7, 4}, {11, 4}}) {
      std::vector<std::vector<std::byte>> members;
      for (int first = 0; first < s.parts; first += s.each)
        members.push_back(tree({parts.begin() + first, parts.begin() + std::min(first + s.each, s.parts)}));
      INFO(s.parts << " parts, " << s.each << " each, type " << type);
      CHECK(tree(members) == tree({parts.begin(), parts.begin() + s.parts}));
      if (members.size() > 3) // the orders differ, and the numbers show it
        CHECK(tree(members) != tree(members, false));
    }
  }
}

TEST_CASE("outputs may be inputs; integers wrap; booleans sum as or", "[comm]") {
  std::vector<int32_t> a = {INT32_MAX, -5}, b = {1, 3};
  const void *in[] = {a.data(), b.data()};
  void *out[] = {b.data(), a.data()};
  reduceTo(in, 2, out, 2, 2, plan::I32, plan::SUM);
  CHECK(a == std::vector<int32_t>{INT32_MIN, -2});
  CHECK(b == a);
  uint8_t p[4] = {0, 1, 0, 1}, q[4] = {0, 0, 1, 1}, r[4];
  const void *flags[] = {p, q};
  void *result[] = {r};
  reduceTo(flags, 2, result, 1, 4, plan::BOOL, plan::SUM);
  CHECK((r[0] == 0 && r[1] == 1 && r[2] == 1 && r[3] == 1));
  reduceTo(flags, 2, result, 1, 4, plan::BOOL, plan::MIN);
  CHECK((r[0] == 0 && r[1] == 0 && r[2] == 0 && r[3] == 1));
  const uint8_t high = 200, low = 100;
  uint8_t most = 0;
  const void *bytes[] = {&high, &low};
  void *one[] = {&most};
  reduceTo(bytes, 2, one, 1, 1, plan::U8, plan::MAX); // unsigned
  CHECK(most == 200);
  reduceTo(bytes, 2, one, 1, 1, plan::I8, plan::MAX); // the same bits signed
  CHECK(most == 100);
}

TEST_CASE("MAX and MIN hand on a NaN from any member", "[comm]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (int where = 0; where < 3; ++where)
    for (plan::Reduction reduction : {plan::MAX, plan::MIN}) {
      float values[3] = {1, 2, 3}, result = 0;
      values[where] = nan;
      const void *in[] = {values, values + 1, values + 2};
      void *out[] = {&result};
      reduceTo(in, 3, out, 1, 1, plan::F32, reduction);
      CHECK(std::isnan(result));
    }
}
