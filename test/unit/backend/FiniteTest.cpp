// NaNs and infinities are found in every place, and no other number is taken for one.
#include "runtime/backend/Finite.h"
#include "runtime/backend/Backend.h"
#include "test/conformance/backend/PlanBuilder.h"

#include <array>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

using namespace tessera;
using namespace tessera::rt;

namespace {

/// Bit patterns of one type.
template <typename Bits> struct Patterns {
  plan::DType type;
  Bits sign, infinity, largest, quiet, signalling;
};
const Patterns<uint16_t> kHalf = {plan::F16, 0x8000, 0x7c00, 0x7bff, 0x7e00, 0x7c01};
const Patterns<uint16_t> kBfloat = {plan::BF16, 0x8000, 0x7f80, 0x7f7f, 0x7fc0, 0x7f81};
const Patterns<uint32_t> kSingle = {plan::F32, 0x80000000, 0x7f800000, 0x7f7fffff, 0x7fc00000, 0x7f800001};
const Patterns<uint64_t> kDouble = {plan::F64,          uint64_t(1) << 63,   0x7ff0000000000000,
                                    0x7fefffffffffffff, 0x7ff8000000000000u, 0x7ff0000000000001};

template <typename Bits> void check(const Patterns<Bits> &p, size_t count, int threads) {
  INFO("type " << p.type << ", " << count << " elements, " << threads << " threads");
  // Finite: zeros, denormals, the largest of either sign.
  std::vector<Bits> x(count, p.largest);
  for (size_t i = 0; i < count; ++i)
    x[i] = std::array<Bits, 5>{p.largest, static_cast<Bits>(p.largest | p.sign), Bits(0), p.sign, Bits(1)}[i % 5];
  CHECK_FALSE(nonFinite(x.data(), p.type, count, threads));
  for (size_t at : {size_t(0), count / 3, count / 2, count - 1}) {
    const Bits before = x[at];
    for (Bits sign : {Bits(0), p.sign}) {
      x[at] = p.infinity | sign;
      NonFinite found = nonFinite(x.data(), p.type, count, threads);
      CHECK((found.infinity && !found.nan));
      for (Bits nan : {p.quiet, p.signalling}) {
        x[at] = nan | sign;
        found = nonFinite(x.data(), p.type, count, threads);
        CHECK((found.nan && !found.infinity));
      }
    }
    x[at] = before;
  }
  if (count > 1) {
    x[0] = p.infinity;
    x[count - 1] = p.quiet;
    CHECK(nonFinite(x.data(), p.type, count, threads).nan);
  }
}

} // namespace

TEST_CASE("NaNs and infinities are found in any place, of any type, by any number of threads") {
  // From 65,536 elements on, a thread gets a part.
  for (size_t count : {size_t(1), size_t(7), size_t(1000), size_t(65536 * 3 + 5)})
    for (int threads : {1, 2, 3, 8}) {
      check(kHalf, count, threads);
      check(kBfloat, count, threads);
      check(kSingle, count, threads);
      check(kDouble, count, threads);
    }
}

TEST_CASE("empty tensors and integers hold nothing that is not finite") {
  const std::vector<int32_t> ones(100, -1); // a NaN's bits as F32
  for (plan::DType type : {plan::I8, plan::U8, plan::I32, plan::BOOL})
    CHECK_FALSE(nonFinite(ones.data(), type, 100));
  CHECK_FALSE(nonFinite(nullptr, plan::F32, 0));
  CHECK(nonFinite(ones.data(), plan::F32, 100).nan);
}

TEST_CASE("the example in the header is true") {
  const float x[3] = {1, INFINITY, 2};
  const NonFinite found = nonFinite(x, plan::F32, 3);
  CHECK((found.infinity && !found.nan));
}

TEST_CASE("a kernel tells whether its last result is finite") {
  const int64_t n = 100'003;
  test::PlanBuilder p;
  const uint32_t x = p.buffer(plan::F32, {n}), z = p.buffer(plan::F32, {n}), y = p.buffer(plan::F32, {n}),
                 sum = p.buffer(plan::F32, {1});
  p.kernel("add", {x, x}, {y});
  p.kernel("neg", {z}, {y}); // overwritten: what was there before does not count
  p.kernel("reduce_sum", {x}, {sum}, {{"dims", Shape{0}}, {"keepdims", int64_t(1)}});
  Result<std::unique_ptr<Backend>> backend = createBackend("cpu");
  LoadOptions options;
  options.threads = 3;
  Result<std::unique_ptr<LoadedPlan>> loaded = (*backend)->load(p.plan(), options);
  INFO(loaded.status().message());
  REQUIRE(loaded.ok());
  auto found = std::make_shared<std::atomic<bool>>(false);
  CHECK_FALSE((*loaded)->capabilities().finite->watch(0, x, found)); // nothing writes it
  CHECK_FALSE((*loaded)->capabilities().finite->watch(0, sum, found));
  CHECK_FALSE((*loaded)->capabilities().finite->watch(1, y, found));
  REQUIRE((*loaded)->capabilities().finite->watch(0, y, found));
  std::vector<float> bad(n, INFINITY), values(n, 1);
  REQUIRE((*loaded)->upload(x, bad.data()).ok());
  auto run = [&] {
    REQUIRE((*loaded)->upload(z, values.data()).ok());
    for (uint32_t step : {0, 1, 2})
      REQUIRE((*loaded)->launch(0, step).ok());
    return found->exchange(false);
  };
  CHECK_FALSE(run());
  for (size_t at : {size_t(0), size_t(4095), size_t(4096), size_t(50'001), size_t(n - 1)})
    for (float value : {INFINITY, NAN}) {
      values[at] = value;
      CHECK(run());
      values[at] = 1;
    }
}
