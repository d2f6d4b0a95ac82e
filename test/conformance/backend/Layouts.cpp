// The layouts that the cpu backend chooses. No reorder stands around the convolutions of a chain.
#include "runtime/backend/cpu/InstructionSet.h"
#include "test/conformance/backend/Suite.h"

#include <catch2/catch.hpp>

using namespace tessera;
using namespace tessera::rt;
using namespace tessera::rt::test;

namespace {
const Attributes same3 = {
    {"strides", Shape{1, 1}}, {"pads", Shape(4, 1)}, {"dilations", Shape{1, 1}}, {"groups", int64_t(1)}};
}

TEST_CASE("a chain of convolutions stays blocked", "[conformance]") {
  Random random(31);
  Case c;
  c.tolerance = 1e-5;
  c.what = "chain";
  Shape s = {2, 32, 6, 6};
  uint32_t image = c.input(random, plan::F32, {2, 3, 6, 6}), w0 = c.input(random, plan::F32, {32, 3, 3, 3});
  uint32_t w1 = c.input(random, plan::F32, {32, 32, 3, 3});
  uint32_t a = c.output(plan::F32, s), b = c.output(plan::F32, s), d = c.output(plan::F32, s);
  uint32_t pooled = c.output(plan::F32, {2, 32, 1, 1});
  c.plan.kernel("conv", {image, w0}, {a}, same3);
  c.plan.kernel("relu", {a}, {b});
  c.plan.kernel("conv", {b, w1}, {d}, same3);
  uint32_t positive = c.output(plan::BOOL, s);
  c.plan.kernel("lt", {a, d}, {positive}); // a has two readers, so it is stored
  c.plan.kernel("reduce_sum", {d}, {pooled}, {{"dims", Shape{2, 3}}, {"keepdims", int64_t(1)}});
  uint32_t flat = c.plan.alias(pooled, {2, 32});
  c.plan.kernel("matmul", {flat, c.input(random, plan::F32, {32, 5})}, {c.output(plan::F32, {2, 5})});
  check(c);

  auto backend = createBackend("cpu");
  auto loaded = (*backend)->load(c.plan.plan(), LoadOptions());
  REQUIRE(loaded.ok());
  Layout blocked = (*loaded)->layout(a);
  REQUIRE(blocked.inner.size() == 1);
  CHECK(blocked.inner[0].first == 1);
  CHECK((*loaded)->layout(b) == blocked);
  CHECK((*loaded)->layout(d) == blocked);
  CHECK((*loaded)->layout(positive) == blocked);
  CHECK((*loaded)->layout(image).plain());
  CHECK((*loaded)->layout(pooled).plain());
  CHECK((*loaded)->layout(w1).inner.size() == 2);
  for (uint32_t step = 1; step < 6; ++step)
    CHECK((*loaded)->describe(0, step).find("reorder") == std::string::npos);
}

TEST_CASE("convolutions of BF16 have their channels last where tiles are multiplied", "[conformance]") {
  for (const bool reproducible : {false, true}) {
    Random random(32);
    Case c;
    c.tolerance = 0.02;
    c.what = "chain of BF16";
    const Shape s = {2, 32, 6, 6}, both = {2, 64, 6, 6};
    const uint32_t image = c.input(random, plan::BF16, {2, 3, 6, 6}), w0 = c.input(random, plan::BF16, {32, 3, 3, 3}),
                   w1 = c.input(random, plan::BF16, {32, 32, 3, 3}), w2 = c.input(random, plan::BF16, {32, 64, 3, 3});
    const uint32_t a = c.output(plan::BF16, s), b = c.output(plan::BF16, s), d = c.output(plan::BF16, both),
                   e = c.output(plan::BF16, s), part = c.output(plan::BF16, s);
    c.plan.kernel("conv", {image, w0}, {a}, same3);
    c.plan.kernel("conv", {a, w1}, {b}, same3);
    c.plan.kernel("concat", {a, b}, {d}, {{"dim", int64_t(1)}});
    c.plan.kernel("conv", {d, w2}, {e}, same3);
    c.plan.kernel("slice", {d}, {part},
                  {{"starts", Shape{0, 32, 0, 0}}, {"limits", both}, {"strides", Shape{1, 1, 1, 1}}});
    c.plan.kernel("conv", {part, w1}, {c.output(plan::BF16, s)}, same3);
    Attributes attributes = same3;
    attributes["kernel_sizes"] = Shape{3, 3};
    c.plan.kernel("conv_weight_grad", {a, b}, {c.output(plan::BF16, {32, 32, 3, 3})}, attributes);
    if (reproducible) {
      c.plan.plan().set_version(3);
      c.plan.plan().set_leaves(2);
    }
    check(c);

    auto loaded = (*createBackend("cpu"))->load(c.plan.plan(), LoadOptions());
    REQUIRE(loaded.ok());
    const bool last = multipliesTiles() && !reproducible;
    for (auto [buffer, channels] : {std::pair{a, 32}, {b, 32}, {d, 64}, {e, 32}, {part, 32}})
      CHECK(((*loaded)->layout(buffer) == Layout{{{1, channels}}}) == last);
    if (last)
      for (uint32_t step : {1, 2, 3, 4}) { // of a convolution the weights alone
        const std::string by = (*loaded)->describe(0, step);
        CHECK(by.find(step % 2 ? "with 1 reorders" : "reorder") ==
              (step % 2 ? by.size() - std::string("with 1 reorders").size() : std::string::npos));
      }
  }
}

TEST_CASE("channels that fill no large block lie in small ones", "[conformance]") {
  for (const bool reproducible : {false, true}) {
    Random random(33);
    Case c;
    c.tolerance = 1e-5;
    c.what = "small blocks";
    const Shape s = {2, 24, 6, 6}, wide = {2, 32, 6, 6};
    const Attributes point = {
        {"strides", Shape{1, 1}}, {"pads", Shape(4, 0)}, {"dilations", Shape{1, 1}}, {"groups", int64_t(1)}};
    Attributes apart = same3; // a filter for each channel
    apart["groups"] = int64_t(24);
    const uint32_t image = c.input(random, plan::F32, wide), w0 = c.input(random, plan::F32, {24, 32, 1, 1}),
                   w1 = c.input(random, plan::F32, {24, 1, 3, 3}), w2 = c.input(random, plan::F32, {24, 24, 1, 1}),
                   w3 = c.input(random, plan::F32, {24, 24, 3, 3}), w4 = c.input(random, plan::F32, {32, 24, 1, 1});
    const uint32_t a = c.output(plan::F32, s), b = c.output(plan::F32, s), d = c.output(plan::F32, s),
                   e = c.output(plan::F32, s), f = c.output(plan::F32, s), y = c.output(plan::F32, wide);
    c.plan.kernel("conv", {image, w0}, {a}, point);
    c.plan.kernel("conv", {a, w1}, {b}, apart);
    c.plan.kernel("add", {a, b}, {d});
    c.plan.kernel("conv", {d, w2}, {e}, point);
    c.plan.kernel("conv", {e, w3}, {f}, same3);
    c.plan.kernel("conv", {f, w4}, {y}, point);
    auto gradients = [&](uint32_t x, uint32_t w, uint32_t dy, Attributes attributes) {
      const Shape filters = c.plan.shapeOf(w);
      attributes["kernel_sizes"] = Shape(filters.begin() + 2, filters.end());
      c.plan.kernel("conv_weight_grad", {x, dy}, {c.output(plan::F32, filters)}, attributes);
      attributes.erase("kernel_sizes");
      attributes["input_sizes"] = Shape{6, 6};
      c.plan.kernel("conv_input_grad", {dy, w}, {c.output(plan::F32, c.plan.shapeOf(x))}, attributes);
    };
    gradients(image, w0, a, point);
    gradients(a, w1, b, apart);
    gradients(d, w2, e, point);
    gradients(e, w3, f, same3);
    if (reproducible) {
      c.plan.plan().set_leaves(4);
      c.plan.plan().set_version(3);
    }
    check(c);
    auto loaded = (*createBackend("cpu"))->load(c.plan.plan(), LoadOptions());
    REQUIRE(loaded.ok());
    const Layout layout = (*loaded)->layout(b);
    if ((*loaded)->layout(y).inner[0].second == 16 && reproducible) {
      CHECK(layout.plain()); // what computes with small blocks adds in another order
      continue;
    }
    CHECK(layout == Layout{{{1, 8}}});
    CHECK((*loaded)->describe(0, 1).ends_with("with 1 reorders")); // of filters
  }
}

TEST_CASE("rows of a micro-batch keep the layout of the convolution that reads them", "[conformance]") {
  for (const bool view : {false, true}) { // a view of another shape keeps the whole batch plain
    Random random(32);
    Case c;
    c.tolerance = 1e-5;
    c.what = view ? "rows of a plain batch" : "rows of a batch";
    const uint32_t batch = c.input(random, plan::F32, {6, 32, 6, 6}), w = c.input(random, plan::F32, {32, 32, 3, 3});
    const uint32_t rows = c.output(plan::F32, {2, 32, 6, 6}), y = c.output(plan::F32, {2, 32, 6, 6});
    const uint32_t sum = c.output(plan::F32, {2, 32, 6, 6});
    c.inputs[sum] = Values(2 * 32 * 6 * 6, 0);
    if (view)
      c.plan.alias(batch, {6, 32, 36});
    c.plan.kernel("micro_rows", {batch}, {rows}, {{"parts", int64_t(3)}});
    c.plan.kernel("conv", {rows, w}, {y}, same3);
    c.plan.kernel("add", {sum, y}, {sum});
    plan::Program &program = *c.plan.plan().mutable_programs(0);
    program.add_section_ends(3);
    for (uint32_t index : {0u, 1u, 2u})
      program.add_calls()->set_index(index);
    c.plan.plan().set_version(2);
    check(c);
    auto loaded = (*createBackend("cpu"))->load(c.plan.plan(), LoadOptions());
    REQUIRE(loaded.ok());
    CHECK((*loaded)->layout(batch).plain() == view);
    CHECK_FALSE((*loaded)->layout(rows).plain());
    CHECK(((*loaded)->describe(0, 0).find("reorder") != std::string::npos) == view);
  }
}

TEST_CASE("buffers with views stay plain, collectives have one layout", "[conformance]") {
  PlanBuilder p;
  Shape s = {2, 32, 6, 6}, ws = {32, 32, 3, 3};
  uint32_t x = p.buffer(plan::F32, s), w = p.buffer(plan::F32, ws), y = p.buffer(plan::F32, s);
  uint32_t halo = p.buffer(plan::F32, {2, 32, 8, 6}), sum = p.buffer(plan::F32, ws);
  uint32_t part = p.buffer(plan::F32, {16, 32, 3, 3}), odd = p.buffer(plan::F32, {8, 32, 3, 3});
  p.alias(x, {2, 32, 36});
  uint32_t sameOfX = p.alias(x, s), sameOfW = p.alias(w, ws);
  p.kernel("conv", {x, w}, {y}, same3);
  auto collective = [&](plan::CollectiveKind kind, uint32_t in, uint32_t out) {
    plan::Collective *c = p.plan().mutable_programs(0)->add_steps()->mutable_collective();
    c->set_kind(kind);
    c->set_input(in);
    c->set_output(out);
  };
  collective(plan::HALO, y, halo);
  collective(plan::ALL_REDUCE, w, sum);
  collective(plan::REDUCE_SCATTER, w, part);
  collective(plan::REDUCE_SCATTER, w, odd);
  auto backend = createBackend("cpu");
  auto loaded = (*backend)->load(p.plan(), LoadOptions());
  REQUIRE(loaded.ok());
  auto layout = [&](uint32_t b) { return (*loaded)->layout(b); };
  CHECK(layout(x).plain());
  CHECK(layout(sameOfX).plain());
  CHECK(layout(sameOfW) == layout(w)); // a view of the same shape is no hindrance
  CHECK(!layout(y).plain());
  CHECK(layout(halo) == layout(y));
  CHECK(!layout(w).plain());
  CHECK(layout(sum) == layout(w));
  CHECK(layout(part) == layout(w));
  if (layout(w).inner[0].second == 16)
    CHECK(layout(odd).plain()); // half a block
}
