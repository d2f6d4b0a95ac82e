//===- JoinedProgram.h - which steps of a program a CUDA device runs with which -------------------------------===//
//
//   JoinedProgram c(7, {"generated loops of"});
//   const uint32_t y = c.output({4, 4});
//   ... steps by c.p ...
//   CHECK(c.places() == std::vector<size_t>{1, 1});        // step 0 runs with step 1
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TEST_UNIT_DEVICE_JOINEDPROGRAM_H
#define TESSERA_TEST_UNIT_DEVICE_JOINEDPROGRAM_H

#include "test/conformance/backend/PlanBuilder.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

namespace tessera::rt::test {

struct JoinedProgram {
  PlanBuilder p;
  std::map<uint32_t, Values> inputs;
  std::vector<uint32_t> wanted;
  std::mt19937 random;
  double tolerance = 0;            // relative, between the whole program and its steps one by one
  std::vector<std::string> joined; // a step with which another runs is described by one of these; empty: by anything

  JoinedProgram(uint32_t seed, std::vector<std::string> joined) : random(seed), joined(std::move(joined)) {}

  /// Numbers around `mean`, at most `deviation` away, that no rounding leaves alone.
  uint32_t input(const Shape &shape, plan::DType type = plan::F32, double mean = 0, double deviation = 1) {
    const uint32_t b = p.buffer(type, shape);
    Values &values = inputs[b];
    for (int64_t i = elementCount(shape); i > 0; --i)
      values.push_back(double(float(mean + deviation * (double(random() % 2000) / 999.0 - 1))));
    return b;
  }
  /// Binds `b` to the outside. It lies where the plan says then (OwnPlaces.h).
  void show(uint32_t b) {
    plan::Binding &binding = *p.plan().add_bindings();
    binding.set_role(plan::OUTPUT);
    binding.set_buffer(b);
  }
  /// A buffer that is bound to the outside.
  uint32_t output(const Shape &shape, plan::DType type = plan::F32) {
    const uint32_t b = p.buffer(type, shape);
    show(b);
    wanted.push_back(b);
    return b;
  }
  /// Puts `b` at the place of `at`.
  void move(uint32_t b, uint32_t at, uint64_t further = 0) {
    p.plan().mutable_buffers(int(b))->set_offset(p.plan().buffers(int(at)).offset() + further);
  }

  /// What some F32 buffers hold after each of several runs of the program's first step, which is loaded once. Before
  /// every run each of them holds the number that stands beside it. The inputs are F32.
  std::vector<std::vector<Values>> runAgain(int runs, const std::vector<std::pair<uint32_t, float>> &buffers) {
    Result<std::unique_ptr<Backend>> made = createBackend("cuda");
    REQUIRE(made.ok());
    Result<std::unique_ptr<LoadedPlan>> loaded = (*made)->load(p.plan(), {});
    REQUIRE(loaded.ok());
    for (const auto &[b, values] : inputs)
      REQUIRE((*loaded)->upload(b, std::vector<float>(values.begin(), values.end()).data()).ok());
    std::vector<std::vector<Values>> found;
    for (int run = 0; run < runs; ++run) {
      for (const auto &[b, before] : buffers)
        REQUIRE((*loaded)->upload(b, std::vector<float>(size_t(elementCount(p.shapeOf(b))), before).data()).ok());
      REQUIRE((*loaded)->launch(0, 0, 0).ok());
      REQUIRE((*loaded)->synchronize().ok());
      found.emplace_back();
      for (const auto &[b, before] : buffers) {
        std::vector<float> numbers(size_t(elementCount(p.shapeOf(b))));
        REQUIRE((*loaded)->download(b, numbers.data()).ok());
        found.back().emplace_back(numbers.begin(), numbers.end());
      }
    }
    return found;
  }

  /// The step with which each step runs, itself if alone. As a whole the program gives what its steps give one by one.
  std::vector<size_t> places(const LoadOptions &options = {}) const {
    std::vector<std::string> steps;
    const std::vector<Values> whole = p.run("cuda", inputs, wanted, options, &steps),
                              apart = p.run("cuda", inputs, wanted, options, nullptr, true);
    for (size_t o = 0; o < whole.size(); ++o)
      for (size_t i = 0; i < whole[o].size(); ++i)
        REQUIRE(whole[o][i] == Approx(apart[o][i]).epsilon(tolerance).margin(0));
    std::vector<size_t> found;
    for (size_t s = 0; s < steps.size(); ++s) {
      const std::string with = "(in whole programs: with step ";
      const size_t at = steps[s].find(with);
      found.push_back(at == std::string::npos ? s : std::stoul(steps[s].substr(at + with.size())));
      if (found.back() != s && !joined.empty()) {
        INFO(steps[found.back()]);
        CHECK(std::ranges::any_of(
            joined, [&](const std::string &text) { return steps[found.back()].find(text) != std::string::npos; }));
      }
    }
    return found;
  }
};

} // namespace tessera::rt::test

#endif
