// Loops whose rows repeat a period: what depends on the last dimension alone, for whole vectors of it. Against the
// reference, at lengths that a tile holds several of, one of, and a part of.
#include "test/conformance/backend/Loops.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

using namespace tessera;
using namespace tessera::rt;
using namespace tessera::rt::test;

namespace {

Values someNumbers(int64_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  Values values(static_cast<size_t>(n));
  for (double &v : values)
    v = double(random() % 129) / 64 - 1; // exact in BF16, sums exact in F32
  return values;
}

void checkNear(const Values &got, const Values &wanted, double tolerance) {
  REQUIRE(got.size() == wanted.size());
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i)
    worst = std::max(worst, std::abs(got[i] - wanted[i]) / (1 + std::abs(wanted[i])));
  CHECK(worst <= tolerance);
}

/// The lengths: several periods in a tile, the longest in one, more than a tile, no divisor of one, too long.
const int64_t kPeriods[] = {32, 48, 512, 768, 2048, 4080, 4096, 4112};

} // namespace

TEST_CASE("loops over periods compute what the reference computes") {
  for (plan::DType type : {plan::F32, plan::BF16})
    for (int64_t p : kPeriods)
      for (int threads : {1, 2}) {
        constexpr int64_t kRows = 37;
        const Shape domain{kRows, p}, period{1, p}, point{1, 1};
        PlanBuilder b;
        const uint32_t x = b.buffer(type, domain), y = b.buffer(type, domain), scale = b.buffer(plan::F32, period),
                       shift = b.buffer(type, period), factor = b.buffer(plan::F32, point);
        const uint32_t z = b.buffer(type, domain), sums = b.buffer(plan::F32, period),
                       products = b.buffer(plan::F32, period), most = b.buffer(plan::F32, period),
                       least = b.buffer(plan::F32, period), all = b.buffer(plan::F32, point),
                       same = b.buffer(plan::F32, period);
        Loop(b, domain)
            .in(x)
            .in(y)
            .in(scale, period)
            .in(shift, period)
            .in(factor, point)
            .op("mul", {2, 4})  // 5: a period
            .op("add", {5, 3})  // 6: a period
            .op("mul", {0, 5})  // 7
            .op("add", {7, 3})  // 8
            .op("relu", {8})    // 9
            .op("mul", {0, 1})  // 10
            .op("sub", {10, 6}) // 11
            .out(z, 9)
            .out(sums, 8, plan::SUM, period)
            .out(products, 10, plan::SUM, period)
            .out(most, 11, plan::MAX, period)
            .out(least, 11, plan::MIN, period)
            .out(all, 10, plan::SUM, point)
            .out(same, 6, plan::SUM, period);
        const std::map<uint32_t, Values> inputs = {{x, someNumbers(kRows * p, 1)},
                                                   {y, someNumbers(kRows * p, 2)},
                                                   {scale, someNumbers(p, 3)},
                                                   {shift, someNumbers(p, 4)},
                                                   {factor, {0.75}}};
        const std::vector<uint32_t> wanted = {z, sums, products, most, least, all, same};
        LoadOptions options;
        options.threads = threads;
        std::vector<std::string> by;
        const std::vector<Values> got = b.run("cpu", inputs, wanted, options, &by);
        const std::vector<Values> expected = b.run("reference", inputs, wanted);
        INFO("period " << p << ", " << threads << " threads, " << by[0]);
        CHECK((by[0].find("1x37x" + std::to_string(p)) != std::string::npos) == (p <= 4096));
        for (size_t i = 0; i < wanted.size(); ++i) {
          CAPTURE(i);
          checkNear(got[i], expected[i], 1e-6);
        }
      }
}

TEST_CASE("periods of every image move with it") {
  constexpr int64_t kImages = 20, kPoints = 9;
  for (int64_t p : {int64_t(64), int64_t(2048)}) {
    const Shape domain{kImages, kPoints, p}, perImage{kImages, 1, p};
    PlanBuilder b;
    const uint32_t x = b.buffer(plan::F32, domain), scale = b.buffer(plan::F32, perImage),
                   y = b.buffer(plan::F32, domain), sums = b.buffer(plan::F32, perImage);
    Loop(b, domain).in(x).in(scale, perImage).op("mul", {0, 1}).out(y, 2).out(sums, 2, plan::SUM, perImage);
    const std::map<uint32_t, Values> inputs = {{x, someNumbers(kImages * kPoints * p, 1)},
                                               {scale, someNumbers(kImages * p, 2)}};
    const std::vector<Values> expected = b.run("reference", inputs, {y, sums});
    for (int threads : {1, 2, 3}) {
      LoadOptions options;
      options.threads = threads;
      const std::vector<Values> got = b.run("cpu", inputs, {y, sums}, options);
      INFO("period " << p << ", " << threads << " threads");
      checkNear(got[0], expected[0], 0);
      checkNear(got[1], expected[1], 1e-6);
    }
  }
}

TEST_CASE("random numbers, indices and integers keep their places in rows of periods") {
  for (int64_t p : {int64_t(48), int64_t(768), int64_t(4080)}) {
    const Shape domain{23, p}, period{1, p};
    PlanBuilder b;
    const uint32_t step = b.buffer(plan::I64, {1, 1}), scale = b.buffer(plan::F32, period),
                   numbers = b.buffer(plan::F32, domain), places = b.buffer(plan::F32, domain);
    Loop(b, domain)
        .in(step, {1, 1})
        .in(scale, period)
        .op("random", {0}, plan::F32, 0, {{"stream", int64_t(3)}, {"global_shape", domain}, {"offset", Shape{0, 0}}})
        .op("mul", {2, 1})
        .op("iota", {}, plan::F32, 0, {{"dim", int64_t(1)}, {"start", int64_t(5)}})
        .op("add", {4, 1})
        .out(numbers, 3)
        .out(places, 5);
    const uint32_t ints = b.buffer(plan::I64, domain), added = b.buffer(plan::I64, period),
                   result = b.buffer(plan::I64, domain);
    Loop(b, domain).in(ints).in(added, period).op("add", {0, 1}, plan::I64).out(result, 2);
    Values many(size_t(23 * p)), few(static_cast<size_t>(p));
    for (size_t i = 0; i < many.size(); ++i)
      many[i] = double(i * 7 % 1000);
    for (size_t i = 0; i < few.size(); ++i)
      few[i] = double(i);
    const std::map<uint32_t, Values> inputs = {{step, {4}}, {scale, someNumbers(p, 1)}, {ints, many}, {added, few}};
    const std::vector<Values> expected = b.run("reference", inputs, {numbers, places, result});
    for (int threads : {1, 2}) {
      LoadOptions options;
      options.threads = threads;
      std::vector<std::string> by;
      const std::vector<Values> got = b.run("cpu", inputs, {numbers, places, result}, options, &by);
      INFO("period " << p << ", " << threads << " threads, " << by[0] << ", " << by[1]);
      for (size_t i = 0; i < got.size(); ++i)
        CHECK(got[i] == expected[i]);
      CHECK(by[1].find("fused") != std::string::npos);
    }
  }
}
