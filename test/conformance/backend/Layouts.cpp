// The layouts that the cpu backend chooses. No reorder stands around the convolutions of a chain.
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
