// Loops over the results of sums run in the kernel that ends the sums. They give the same bits together and apart.
#include "runtime/backend/ResolvedPlan.h"
#include "runtime/backend/cuda/bind/CudaKernel.h"
#include "test/conformance/backend/Loops.h"
#include "test/unit/device/JoinedProgram.h"

#include <catch2/catch.hpp>
#include <random>

using namespace tessera;
using namespace tessera::rt;
using namespace tessera::rt::test;
using Catch::Contains;

namespace {

struct Program : JoinedProgram {
  Program() : JoinedProgram(5, {"with loops over the results"}) {}
};

using Places = std::vector<size_t>;

/// The sums of x over all but the channels, half of them plus a bias, and a function of that.
struct Channels : Program {
  int64_t rows, channels;
  uint32_t x, bias, sum, half, y;

  explicit Channels(int64_t rows = 3000, int64_t channels = 20) : rows(rows), channels(channels) {
    x = input({rows, channels});
    bias = input({channels});
    sum = p.buffer(plan::F32, {channels});
    half = p.buffer(plan::F32, {channels});
    y = output({channels});
  }
  void sums() { Loop(p, {rows, channels}).in(x).out(sum, 0, plan::SUM, {1, channels}); }
  void halves() { Loop(p, {channels}).in(sum).in(bias).constant(0.5).op("mul", {0, 2}).op("add", {3, 1}).out(half, 4); }
  void exponentials() { Loop(p, {channels}).in(half).op("exp", {0}).out(y, 1); }
};

/// sum -> mean -> sum of squared distances -> variance.
struct Variance : Program {
  const plan::DType type;
  const Shape full, perChannel;
  uint32_t x, sum, mean, squares, variance;

  explicit Variance(plan::DType type, double centre, double deviation, const Shape &full = {16, 3, 20, 20})
      : type(type), full(full), perChannel{1, full[1], 1, 1} {
    x = input(full, type, centre, deviation);
    sum = p.buffer(wide(), perChannel);
    mean = output(perChannel, wide());
    squares = p.buffer(wide(), perChannel);
    variance = output(perChannel, wide());
  }
  plan::DType wide() const { return type == plan::F64 ? plan::F64 : plan::F32; }
  double share() const { return double(full[1]) / double(elementCount(full)); }
  void means() {
    Loop(p, full, wide()).in(x).out(sum, 0, plan::SUM, perChannel);
    Loop(p, perChannel, wide()).in(sum).constant(share()).op("mul", {0, 1}).out(mean, 2);
  }
  void distances(bool opposite = false) {
    Loop loop(p, full, wide());
    opposite ? loop.in(mean, perChannel).in(x) : loop.in(x).in(mean, perChannel);
    loop.op("sub", {0, 1}).op("mul", {2, 2}).out(squares, 3, plan::SUM, perChannel);
    Loop(p, perChannel, wide()).in(squares).constant(share()).op("mul", {0, 1}).out(variance, 2);
  }
};

} // namespace

TEST_CASE("loops over the results of sums are part of the kernel that ends them") {
  // Of many rows, whose sums are made in parts, and of few.
  for (const int64_t rows : {5, 3000, 60000}) {
    Channels c(rows);
    c.sums();
    c.halves();
    c.exponentials();
    c.wanted.insert(c.wanted.end(), {c.sum, c.half}); // others may read what stands between
    CHECK(c.places() == Places{2, 2, 2});
  }
}

TEST_CASE("sums in parts are one launch, whose blocks count themselves anew in every run") {
  for (const int64_t channels : {20, 40}) { // one block of channels, and two
    Channels c(3000, channels);
    Loop(c.p, {3000, channels}).in(c.x).out(c.output({channels}), 0, plan::SUM, {1, channels});
    Result<std::vector<std::vector<KernelCall>>> calls = resolveCalls(c.p.plan(), {});
    REQUIRE(calls.ok());
    const Result<std::vector<cuda::CudaKernel>> choices = cuda::bindCuda((*calls)[0][0], {});
    REQUIRE(choices.ok());
    REQUIRE(choices->front().actions.size() == 1);
    const auto &launch = std::get<cuda::Launch>(choices->front().actions.front());
    CHECK(launch.grid[1] > 1);
    CHECK(launch.counters == (channels == 20 ? 1 : 2));

    const std::vector<std::vector<Values>> runs = c.runAgain(3, {{c.wanted.back(), 0}});
    const Values &numbers = c.inputs[c.x], &first = runs[0][0];
    for (int64_t i = 0; i < channels; ++i) {
      double sum = 0;
      for (int64_t row = 0; row < 3000; ++row)
        sum += numbers[size_t(row * channels + i)];
      CHECK(first[size_t(i)] == Approx(sum).margin(1e-4));
    }
    CHECK(runs[1] == runs[0]);
    CHECK(runs[2] == runs[0]);
  }
}

TEST_CASE("a thread reads neighbouring numbers of neighbouring sums by one access") {
  struct Case {
    plan::DType type;
    int64_t channels;
    std::string access; // empty: one number at a time
  };
  for (const Case &c :
       {Case{plan::BF16, 64, "Side<u16, 8>"}, Case{plan::BF16, 20, "Side<u16, 4>"}, Case{plan::BF16, 6, "Side<u16, 2>"},
        Case{plan::BF16, 7, ""}, Case{plan::F32, 20, "Side<float, 4>"}, Case{plan::F64, 6, "Side<double, 2>"}})
    for (const Shape &outer : {Shape{5, 3}, Shape{41, 73}, Shape{300, 200}}) { // of few rows, of some, and in parts
      INFO(dtypeName(c.type) << " " << outer[0] << " x " << outer[1] << " x " << c.channels);
      Program program;
      const int64_t n = c.channels;
      const Shape full = {outer[0], outer[1], n}, perRow = {outer[0], 1, 1}, perChannel = {1, 1, n};
      const plan::DType wide = c.type == plan::F64 ? plan::F64 : plan::F32;
      const uint32_t x = program.input(full, c.type), weight = program.input(perRow, wide),
                     centre = program.input(perChannel, wide), sum = program.output({n}, wide),
                     weighted = program.output({n}, wide), least = program.output({n}, wide);
      Loop(program.p, full, wide)
          .in(x)
          .in(weight, perRow)
          .in(centre, perChannel)
          .op("sub", {0, 2})
          .op("mul", {3, 1})
          .out(sum, 0, plan::SUM, perChannel)
          .out(weighted, 4, plan::SUM, perChannel)
          .out(least, 3, plan::MIN, perChannel);
      Result<std::vector<std::vector<KernelCall>>> calls = resolveCalls(program.p.plan(), {});
      REQUIRE(calls.ok());
      const Result<std::vector<cuda::CudaKernel>> choices = cuda::bindCuda((*calls)[0][0], {});
      REQUIRE(choices.ok());
      const std::string &source = std::get<cuda::Launch>(choices->front().actions.front()).source;
      if (c.access.empty())
        CHECK_THAT(source, !Contains("Side<"));
      else
        CHECK_THAT(source, Contains("*(const " + c.access + " *)"));
      const std::vector<Values> found = program.p.run("cuda", program.inputs, program.wanted),
                                expected = program.p.run("reference", program.inputs, program.wanted);
      for (size_t o : {0, 1, 2})
        for (size_t i = 0; i < expected[o].size(); ++i)
          CHECK(found[o][i] == Approx(expected[o][i]).epsilon(1e-6).margin(1e-5));
    }
}

TEST_CASE("sums with a loop along the same rows have such loops behind them, too") {
  Channels c(640, 40);
  const uint32_t top = c.p.buffer(plan::F32, {640, 1}), shifted = c.output({640, 40});
  Loop(c.p, {640, 40}).in(c.x).out(top, 0, plan::MAX, {640, 1});
  Loop(c.p, {640, 40}).in(c.x).in(top, {640, 1}).op("sub", {0, 1}).out(shifted, 2).out(c.sum, 2, plan::SUM, {1, 40});
  c.halves();
  c.exponentials();
  c.tolerance = 1e-6; // of sums in another order
  CHECK(c.places() == Places{3, 3, 3, 3});
}

TEST_CASE("a loop over other points, and what is no loop, stay apart") {
  Channels c;
  c.sums();
  Loop(c.p, {2, 20}).in(c.sum, {1, 20}).in(c.input({2, 20})).op("mul", {0, 1}).out(c.output({2, 20}), 2);
  Loop(c.p, {20}).in(c.sum).out(c.output({1}), 0, plan::SUM, {1});
  c.p.kernel("reshape", {c.sum}, {c.output({4, 5})});
  CHECK(c.places() == Places{0, 1, 2, 3});
}

TEST_CASE("a loop may take the memory of its own operand, and no other's") {
  Channels c;
  c.sums();
  c.halves();
  c.exponentials();
  c.move(c.half, c.sum);
  c.move(c.y, c.bias);
  for (const uint32_t b : {c.half, c.sum, c.bias})
    c.show(b);
  CHECK(c.places() == Places{2, 2, 2});
  // Another thread still reads there.
  Channels d(3000, 40);
  const uint32_t room = d.p.buffer(plan::F32, {128});
  d.sums();
  d.halves();
  d.exponentials();
  d.move(d.bias, room);
  d.show(d.bias);
  d.move(d.y, room, 64);
  CHECK(d.places() == Places{1, 1, 2});
  // The sums of few rows end in the kernel that reads the rows.
  Channels e(5);
  e.sums();
  e.halves();
  e.move(e.half, e.x);
  e.show(e.half);
  e.wanted = {e.half};
  CHECK(e.places() == Places{0, 1});
  // Those of many rows have been read before.
  Channels f;
  f.sums();
  f.halves();
  f.move(f.half, f.x);
  f.show(f.half);
  f.wanted = {f.half};
  CHECK(f.places() == Places{1, 1});
  // Those of more channels than a block has: other blocks may still read.
  Channels g(3000, 40);
  g.sums();
  g.halves();
  g.move(g.half, g.x);
  g.show(g.half);
  g.wanted = {g.half};
  CHECK(g.places() == Places{0, 1});
}

TEST_CASE("a step between keeps its order with sums and loops") {
  Channels c;
  c.sums();
  c.p.kernel("neg", {c.bias}, {c.bias}); // the loop's operand is made here
  c.halves();
  c.exponentials();
  CHECK(c.places() == Places{3, 1, 3, 3});
  // The sums must run before the first, and the loop behind the second.
  Channels d;
  d.sums();
  d.p.kernel("neg", {d.x}, {d.x});
  d.p.kernel("exp", {d.bias}, {d.bias});
  d.halves();
  d.exponentials();
  CHECK(d.places() == Places{0, 1, 2, 3, 4});
}

TEST_CASE("a variance is made in the pass that makes the mean") {
  for (const plan::DType type : {plan::F32, plan::BF16, plan::F16})
    for (const bool opposite : {false, true}) {
      Variance v(type, type == plan::F32 ? 100 : 3, 1);
      v.means();
      v.distances(opposite);
      v.tolerance = 1e-6;
      CHECK(v.places() == Places{3, 3, 3, 3});
    }
}

TEST_CASE("a variance of numbers far from 0 has as many digits in one pass") {
  for (const double centre : {1e3, 1e4}) {
    Variance v(plan::F32, centre, 1);
    v.means();
    v.distances();
    const std::vector<Values> found = v.p.run("cuda", v.inputs, v.wanted);
    for (int64_t c = 0; c < v.full[1]; ++c) {
      std::vector<double> numbers;
      const int64_t points = v.full[2] * v.full[3];
      for (int64_t i = 0; i < elementCount(v.full); ++i)
        if (i / points % v.full[1] == c)
          numbers.push_back(v.inputs.at(v.x)[size_t(i)]);
      double mean = 0, variance = 0;
      for (double x : numbers)
        mean += x / double(numbers.size());
      for (double x : numbers)
        variance += (x - mean) * (x - mean) / double(numbers.size());
      CHECK(found[1][size_t(c)] == Approx(variance).epsilon(1e-5));
    }
  }
  // Where all are equal there is no variance, and none below 0.
  Variance same(plan::F32, 1234.567, 0);
  same.means();
  same.distances();
  const std::vector<Values> found = same.p.run("cuda", same.inputs, same.wanted);
  for (double variance : found[1]) {
    CHECK(variance >= 0);
    CHECK(variance < 1e-4 * 1234.567 * 1e-4);
  }
}

TEST_CASE("a second pass stays where one would not do") {
  Variance f64(plan::F64, 100, 1);
  f64.means();
  f64.distances();
  CHECK(f64.places() == Places{1, 1, 3, 3});
  // The numbers change between the passes.
  Variance changed(plan::F32, 1, 1);
  changed.means();
  changed.p.kernel("neg", {changed.x}, {changed.x});
  changed.distances();
  CHECK(changed.places() == Places{1, 1, 2, 4, 4});
  // Distances of other numbers.
  Variance other(plan::F32, 1, 1);
  other.means();
  other.x = other.input(other.full);
  other.distances();
  CHECK(other.places() == Places{1, 1, 3, 3});
}
