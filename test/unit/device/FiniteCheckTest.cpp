// The device looks for numbers that are not finite in parameters and states: in any type and place, whoever wrote them.
#include "runtime/backend/Finite.h"
#include "test/conformance/backend/PlanBuilder.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

using namespace tessera::rt;
using test::PlanBuilder;
namespace plan = tessera::plan;

namespace {

/// A plan with one program, y = -x, and buffers that are bound.
struct Watched {
  PlanBuilder p;
  std::unique_ptr<LoadedPlan> loaded;
  std::shared_ptr<std::atomic<bool>> found = std::make_shared<std::atomic<bool>>(false);

  uint32_t bound(plan::DType type, int64_t elements, plan::Role role = plan::PARAMETER) {
    const uint32_t b = p.buffer(type, {elements});
    plan::Binding *binding = p.plan().add_bindings();
    binding->set_role(role);
    binding->set_buffer(b);
    return b;
  }
  void load() {
    Result<std::unique_ptr<LoadedPlan>> made = (*createBackend("cuda"))->load(p.plan(), {});
    INFO(made.status().message());
    REQUIRE(made.ok());
    loaded = std::move(*made);
  }
  void write(uint32_t buffer, test::Values values) {
    std::vector<char> bytes(values.size() * bytesPerElement(loaded->dtype(buffer)));
    test::encode(loaded->dtype(buffer), values, bytes.data());
    REQUIRE(loaded->upload(buffer, bytes.data()).ok());
  }
  bool watch(uint32_t program, uint32_t buffer, const std::shared_ptr<std::atomic<bool>> &by) {
    return loaded->capabilities().finite->watch(program, buffer, by);
  }
  /// Runs the program as a whole, or its steps one by one.
  bool run(bool apart) {
    if (apart) {
      REQUIRE(loaded->launch(0, 0).ok());
      REQUIRE(loaded->capabilities().finite->endProgram(0).ok());
    } else {
      REQUIRE(loaded->capabilities().programs->runProgram(0, {}).ok());
    }
    REQUIRE(loaded->synchronize().ok());
    return found->exchange(false);
  }
};

} // namespace

TEST_CASE("a device finds what is not finite in any place of any type") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (auto [type, most] : {std::pair{plan::F16, 65504.0},
                            {plan::BF16, 3.3895313892515355e38},
                            {plan::F32, double(std::numeric_limits<float>::max())},
                            {plan::F64, std::numeric_limits<double>::max()}}) {
    // One number, parts of a word, and more than a piece of 256 KiB and a part of a word.
    const auto size = int64_t(bytesPerElement(type));
    for (int64_t n : {int64_t(1), int64_t(3), int64_t(1001), (int64_t(256) << 10) / size + 3}) {
      Watched w;
      const uint32_t x = w.p.buffer(plan::F32, {4}), y = w.bound(plan::F32, 4), state = w.bound(type, n, plan::STATE);
      w.p.kernel("neg", {x}, {y});
      w.load();
      REQUIRE(w.watch(0, y, w.found));
      REQUIRE(w.watch(0, state, w.found));
      w.write(x, {1, 2, 3, 4});
      test::Values values(static_cast<size_t>(n), most);
      for (size_t i = 1; i < values.size(); i += 2)
        values[i] = i % 4 == 1 ? -most : 0;
      w.write(state, values);
      INFO("type " << type << ", " << n << " elements");
      CHECK_FALSE(w.run(false));
      const bool apart = n == 3;
      for (int64_t place : {int64_t(0), n / 2, n - 3, n - 1})
        for (double value : {kInfinity, -kInfinity, std::nan("")}) {
          const auto at = size_t(std::max<int64_t>(place, 0));
          std::swap(values[at], value);
          w.write(state, values);
          CHECK(w.run(apart));
          std::swap(values[at], value);
        }
      w.write(state, values);
      CHECK_FALSE(w.run(apart));
      // The program itself writes the number.
      w.write(x, {1, 2, kInfinity, 4});
      CHECK(w.run(apart));
    }
  }
}

TEST_CASE("the device and the host agree on every pattern of 16 bits") {
  for (plan::DType type : {plan::F16, plan::BF16}) {
    Watched w;
    const uint32_t x = w.p.buffer(plan::F32, {4}), y = w.p.buffer(plan::F32, {4}), state = w.bound(type, 4);
    w.p.kernel("neg", {x}, {y});
    w.load();
    w.write(x, {1, 2, 3, 4});
    REQUIRE(w.watch(0, state, w.found));
    int wrong = 0;
    for (uint32_t pattern = 0; pattern < 0x10000; pattern += pattern % 0x80 == 2 ? 0x7d : 1) {
      // Neighbours with most bits set carry furthest.
      uint16_t four[4] = {0x7bff, 0xfbff, 0x7bff, 0xfbff};
      if (type == plan::BF16)
        for (uint16_t &v : four)
          v = uint16_t((v & 0x8000) | 0x7f7f);
      four[pattern % 4] = uint16_t(pattern);
      REQUIRE(w.loaded->upload(state, four).ok());
      wrong += w.run(true) != bool(nonFinite(four, type, 4));
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("a value that does not stay, and one that is watched already, cannot be watched") {
  Watched w;
  const uint32_t x = w.bound(plan::F32, 4, plan::INPUT), y = w.p.buffer(plan::F32, {4}),
                 counter = w.bound(plan::I64, 1, plan::STATE), parameter = w.bound(plan::F32, 4);
  w.p.kernel("neg", {x}, {y});
  w.load();
  CHECK_FALSE(w.watch(0, x, w.found));
  CHECK_FALSE(w.watch(0, y, w.found));
  CHECK_FALSE(w.watch(1, parameter, w.found));
  CHECK_FALSE(w.watch(0, 99, w.found));
  // An integer is always finite.
  CHECK(w.watch(0, counter, w.found));
  const int64_t ones = -1;
  REQUIRE(w.loaded->upload(counter, &ones).ok());
  w.write(x, {1, 2, 3, 4});
  CHECK_FALSE(w.run(false));
  auto other = std::make_shared<std::atomic<bool>>(false);
  CHECK_FALSE(w.watch(0, parameter, other));
  // The parameter is watched later, when programs have run.
  w.write(parameter, {1, 2, 3, NAN});
  CHECK_FALSE(w.run(false));
  CHECK(w.watch(0, parameter, w.found));
  CHECK(w.run(false));
  CHECK(w.run(true));
  CHECK_FALSE(other->load());
}
