// A convolution and the loop behind it as one call, and weights that stay as the convolution wants them.
#include "runtime/backend/Kernel.h"
#include "test/conformance/backend/Loops.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace tessera;
using namespace tessera::rt;
using namespace tessera::rt::test;
using Catch::Matchers::Contains;

namespace {

Values numbers(int64_t count, int seed) {
  Values values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(double((i * 37 + seed * 11) % 41 - 20) / 16);
  return values;
}

const Attributes kOnce = {
    {"strides", Shape{1, 1}}, {"pads", Shape{1, 1, 1, 1}}, {"dilations", Shape{1, 1}}, {"groups", int64_t(1)}};

/// conv x, w -> t, then a loop over t, a bias and perhaps another tensor -> y.
struct Pair {
  PlanBuilder p;
  int64_t channels;
  Shape image, channel;
  uint32_t x, w, bias, other, t, y;
  explicit Pair(int64_t channels = 32)
      : channels(channels), image{2, channels, 6, 6}, channel{1, channels, 1, 1}, x(p.buffer(plan::F32, image)),
        w(p.buffer(plan::F32, {channels, channels, 3, 3})), bias(p.buffer(plan::F32, channel)),
        other(p.buffer(plan::F32, image)), t(p.buffer(plan::F32, image)), y(p.buffer(plan::F32, image)) {
    p.kernel("conv", {x, w}, {t}, kOnce);
  }
  std::vector<Values> run(const std::string &backend, std::vector<std::string> *told = nullptr,
                          std::vector<uint32_t> wanted = {}, const LoadOptions &options = {}) {
    wanted.insert(wanted.begin(), y);
    const int64_t points = 2 * channels * 36;
    return p.run(backend,
                 {{x, numbers(points, 1)},
                  {w, numbers(channels * channels * 9, 2)},
                  {bias, numbers(channels, 3)},
                  {other, numbers(points, 4)}},
                 wanted, options, told);
  }
  /// Whether the pair runs as one call; the results are those of the reference in any case.
  bool joins(const LoadOptions &options = {}) {
    std::vector<std::string> told;
    const Values ours = run("cpu", &told, {}, options)[0], theirs = run("reference")[0];
    double largest = 0, off = 0;
    for (size_t i = 0; i < ours.size(); ++i) {
      largest = std::max(largest, std::abs(theirs[i]));
      off = std::max(off, std::abs(theirs[i] - ours[i]));
    }
    CHECK(off <= 1e-5 * largest);
    const bool joined = told[0].ends_with("with the loop behind it");
    CHECK((told[1] == "cpu: fused with the step before it") == joined);
    return joined;
  }
  Loop loop() { return std::move(Loop(p, image).in(t).in(bias, channel)); }
};

} // namespace

TEST_CASE("a convolution applies the functions that loops behind it have") {
  struct Function {
    const char *name;
    void (*build)(Pair &);
  };
  const Function functions[] = {
      {"bias",
       [](Pair &q) {
         q.loop().op("add", {0, 1}).out(q.y, 2);
       }},
      {"relu",
       [](Pair &q) {
         q.loop().op("add", {1, 0}).op("relu", {2}).out(q.y, 3);
       }},
      {"relu alone", [](Pair &q) { Loop(q.p, q.image).in(q.t).op("relu", {0}).out(q.y, 1); }},
      {"clip",
       [](Pair &q) {
         q.loop().op("add", {0, 1}).op("relu", {2}).constant(6).op("min", {3, 4}).out(q.y, 5);
       }},
      {"sigmoid",
       [](Pair &q) {
         q.loop().op("add", {0, 1}).op("sigmoid", {2}).out(q.y, 3);
       }},
      {"swish",
       [](Pair &q) {
         q.loop().op("add", {0, 1}).op("sigmoid", {2}).op("mul", {2, 3}).out(q.y, 4);
       }},
      {"hard sigmoid",
       [](Pair &q) {
         Loop l = q.loop();
         l.op("add", {0, 1}).constant(0.2).op("mul", {2, 3}).constant(0.5).op("add", {4, 5}).op("relu", {6});
         l.constant(1).op("min", {7, 8}).out(q.y, 9);
       }},
      {"hard swish",
       [](Pair &q) {
         Loop l = q.loop();
         l.op("add", {0, 1}).constant(1. / 6).op("mul", {2, 3}).constant(0.5).op("add", {4, 5}).op("relu", {6});
         l.constant(1).op("min", {7, 8}).op("mul", {2, 9}).out(q.y, 10);
       }},
      {"added",
       [](Pair &q) {
         q.loop().in(q.other).op("add", {0, 1}).op("add", {2, 3}).op("relu", {4}).out(q.y, 5);
       }},
  };
  for (const Function &f : functions) {
    INFO(f.name);
    Pair q;
    f.build(q);
    CHECK(q.joins());
  }
}

TEST_CASE("what a convolution cannot apply stays a loop") {
  auto stays = [](const char *name, void (*build)(Pair &), int64_t channels = 32) {
    INFO(name);
    Pair q(channels);
    build(q);
    CHECK_FALSE(q.joins());
  };
  stays("another function", [](Pair &q) { q.loop().op("add", {0, 1}).op("tanh", {2}).out(q.y, 3); });
  stays("hard swish by other factors", [](Pair &q) {
    Loop l = q.loop();
    l.op("add", {0, 1}).constant(0.25).op("mul", {2, 3}).constant(0.5).op("add", {4, 5}).op("relu", {6});
    l.constant(1).op("min", {7, 8}).op("mul", {2, 9}).out(q.y, 10);
  });
  stays("the product of two inputs", [](Pair &q) { q.loop().op("mul", {0, 1}).out(q.y, 2); });
  stays("two results", [](Pair &q) { q.loop().op("add", {0, 1}).op("relu", {2}).out(q.y, 3).out(q.other, 2); });
  stays("a sum", [](Pair &q) {
    const uint32_t sum = q.p.buffer(plan::F32, q.channel);
    q.loop().op("add", {0, 1}).op("relu", {2}).out(q.y, 3).out(sum, 3, plan::SUM, q.channel);
  });
  stays("a second reader", [](Pair &q) {
    q.loop().op("add", {0, 1}).op("relu", {2}).out(q.y, 3);
    q.p.kernel("neg", {q.t}, {q.p.buffer(plan::F32, q.image)});
  });
  stays("a result over what the convolution reads", [](Pair &q) {
    q.loop().op("add", {0, 1}).op("relu", {2}).out(q.y, 3);
    q.p.plan().mutable_buffers(int(q.y))->set_offset(q.p.plan().buffers(int(q.x)).offset());
  });
  stays("training", [](Pair &q) {
    q.loop().op("add", {0, 1}).op("relu", {2}).out(q.y, 3);
    q.p.plan().mutable_programs(0)->set_name("train");
  });
  stays("a reproducible plan", [](Pair &q) {
    q.loop().op("add", {0, 1}).op("relu", {2}).out(q.y, 3);
    q.p.plan().set_leaves(4);
    q.p.plan().set_version(3);
  });
  stays("a value that is asked for", [](Pair &q) {
    q.loop().op("add", {0, 1}).op("relu", {2}).out(q.y, 3);
    plan::Binding &binding = *q.p.plan().add_bindings();
    binding.set_role(plan::OUTPUT);
    binding.set_program("test");
    binding.set_buffer(q.t);
  });
  Pair q;
  q.loop().op("add", {0, 1}).op("relu", {2}).out(q.y, 3);
  LoadOptions options;
  options.device.keepNan = true;
  CHECK_FALSE(q.joins(options));
}

TEST_CASE("a result may lie where the convolution alone would put its own") {
  Pair q;
  q.loop().op("add", {0, 1}).op("relu", {2}).out(q.y, 3);
  q.p.plan().mutable_buffers(int(q.y))->set_offset(q.p.plan().buffers(int(q.t)).offset());
  CHECK(q.joins());
}

TEST_CASE("profiles find a pair in the place of its convolution") {
  Pair q;
  q.loop().op("add", {0, 1}).op("relu", {2}).out(q.y, 3);
  auto backend = createBackend("cpu");
  REQUIRE(backend);
  auto loaded = (*backend)->load(q.p.plan(), {});
  REQUIRE(loaded);
  const size_t image = 2 * 32 * 36, weights = 32 * 32 * 9;
  for (uint32_t step : {0u, 1u}) {
    const std::optional<AsRun> as = (*loaded)->asRun(0, step);
    REQUIRE(as);
    CHECK(as->place == 0);
    CHECK(as->bytes == 4 * (2 * image + weights + 32));
    CHECK_THAT(as->implementation, Contains("with the loop behind it"));
  }
}

TEST_CASE("what is made of weights that stay is made anew when they are written") {
  // Weights of channels that fill no blocks lie plain, and oneDNN wants them in an order of its own.
  PlanBuilder p;
  const uint32_t x = p.buffer(plan::F32, {2, 20, 6, 6}), w = p.buffer(plan::F32, {20, 20, 3, 3}),
                 y = p.buffer(plan::F32, {2, 20, 6, 6});
  p.kernel("conv", {x, w}, {y}, kOnce);
  plan::Binding &binding = *p.plan().add_bindings();
  binding.set_role(plan::PARAMETER);
  binding.set_name("w");
  binding.set_buffer(w);
  auto backend = createBackend("cpu");
  REQUIRE(backend);
  auto run = [&](LoadedPlan &plan, int seed) {
    std::vector<float> in(2 * 20 * 36), weights(20 * 20 * 9), out(2 * 20 * 36);
    encode(plan::F32, numbers(int64_t(in.size()), seed), in.data());
    encode(plan::F32, numbers(int64_t(weights.size()), seed + 1), weights.data());
    REQUIRE(plan.upload(x, in.data()).ok());
    REQUIRE(plan.upload(w, weights.data()).ok());
    for (int again = 0; again < 2; ++again)
      REQUIRE(plan.launch(0, 0, 0).ok());
    REQUIRE(plan.download(y, out.data()).ok());
    return out;
  };
  auto first = (*backend)->load(p.plan(), {}), second = (*backend)->load(p.plan(), {});
  REQUIRE(first);
  REQUIRE(second);
  const std::vector<float> before = run(**first, 1), after = run(**first, 5);
  CHECK(before != after);
  CHECK(after == run(**second, 5));
  // An input is reordered in each run.
  plan::Plan written = p.plan();
  written.mutable_bindings(0)->set_role(plan::INPUT);
  auto third = (*backend)->load(written, {});
  REQUIRE(third);
  CHECK((*first)->describe(0, 0) != (*third)->describe(0, 0));
  CHECK(run(**third, 5) == after);
}
