// Independent loops of the same code run as one launch. They give the same bits together and apart.
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

/// A program of loops.
struct Program : JoinedProgram {
  Program() : JoinedProgram(7, {"in whole programs: generated loops of"}) {}

  /// w -= 0.1 g, in place.
  uint32_t update(const Shape &shape, uint32_t w, uint32_t g, double rate = 0.1) {
    Loop(p, shape).in(w).in(g).constant(rate).op("mul", {1, 2}).op("sub", {0, 3}).out(w, 4);
    return w;
  }
  uint32_t update(const Shape &shape) {
    const uint32_t w = input(shape), g = input(shape);
    wanted.push_back(w);
    return update(shape, w, g);
  }
};

using Places = std::vector<size_t>;

} // namespace

TEST_CASE("the same loop on tensors of many sizes is one launch") {
  Program c;
  for (const Shape &shape : {Shape{2}, Shape{1000}, Shape{32, 32}, Shape{1025}, Shape{5, 1000}})
    c.update(shape);
  CHECK(c.places() == Places(5, 4));
}

TEST_CASE("a loop is put off behind work that is independent of it") {
  Program c;
  c.update({40});
  c.p.kernel("transpose", {c.input({6, 7})}, {c.output({7, 6})}, {{"perm", Shape{1, 0}}});
  c.update({70});
  c.p.kernel("neg", {c.input({8})}, {c.output({8})});
  c.update({3, 9});
  CHECK(c.places() == Places{4, 1, 4, 3, 4});
}

TEST_CASE("loops of other code, types or broadcasts stay apart") {
  Program c;
  c.update({40});
  const uint32_t w = c.input({40}), g = c.input({40}), scale = c.input({1});
  c.wanted.push_back(w);
  c.update({40}, w, g, 0.2);
  Loop(c.p, {40}).in(c.input({40})).in(scale, {1}).op("mul", {0, 1}).out(c.output({40}), 2);
  Loop(c.p, {40}).in(c.input({40})).in(c.input({40})).op("mul", {0, 1}).out(c.output({40}), 2);
  Loop(c.p, {40}).in(c.input({40}, plan::BF16)).op("neg", {0}).out(c.output({40}), 1);
  Loop(c.p, {40}).in(c.input({40})).op("neg", {0}).out(c.output({40}), 1);
  CHECK(c.places() == Places{0, 1, 2, 3, 4, 5});
}

TEST_CASE("a loop runs before the step that reads its result") {
  Program c;
  const uint32_t y = c.output({40});
  c.p.kernel("neg", {c.input({40})}, {y});
  c.p.kernel("neg", {c.input({50})}, {c.output({50})});
  c.p.kernel("exp", {y}, {c.output({40})});
  c.p.kernel("neg", {c.input({60})}, {c.output({60})});
  c.p.kernel("neg", {c.input({70})}, {c.output({70})});
  // The second is put off further, since nothing reads its result.
  CHECK(c.places() == Places{0, 4, 2, 4, 4});
  // One result is the other's operand.
  Program d;
  const uint32_t first = d.output({40});
  d.p.kernel("neg", {d.input({40})}, {first});
  d.p.kernel("neg", {first}, {d.output({40})});
  CHECK(d.places() == Places{0, 1});
}

TEST_CASE("a loop runs before the memory of its operand is used again") {
  Program c;
  const uint32_t w = c.input({40}), g = c.input({40}), x = c.input({40}), other = c.p.buffer(plan::F32, {40});
  c.wanted = {w};
  c.p.plan().mutable_buffers(int(other))->set_offset(c.p.plan().buffers(int(g)).offset());
  c.update({40}, w, g);
  c.update({50});
  c.p.kernel("exp", {x}, {other});
  c.update({60});
  c.update({70});
  CHECK(c.places() == Places{1, 1, 2, 4, 4});
}

TEST_CASE("loops of several sections stay apart") {
  Program c;
  c.update({40});
  c.update({50});
  c.update({60});
  c.update({70});
  plan::Program &program = *c.p.plan().mutable_programs(0);
  program.add_section_ends(2);
  program.add_section_ends(4);
  for (const uint32_t section : {0u, 1u, 1u})
    program.add_calls()->set_section(section);
  c.p.plan().set_version(2);
  CHECK(c.places() == Places{1, 1, 3, 3});
}

TEST_CASE("slices of equal size, wherever they begin, are one launch") {
  Program c;
  const uint32_t x = c.input({4, 9});
  for (int64_t part = 0; part < 3; ++part)
    c.p.kernel("slice", {x}, {c.output({4, 3})},
               {{"starts", Shape{0, 3 * part}}, {"limits", Shape{4, 3 * part + 3}}, {"strides", Shape{1, 1}}});
  c.p.kernel("slice", {x}, {c.output({4, 2})},
             {{"starts", Shape{0, 1}}, {"limits", Shape{4, 3}}, {"strides", Shape{1, 1}}});
  CHECK(c.places() == Places{2, 2, 2, 3});
}

TEST_CASE("parts of equal size are put behind each other by one launch") {
  Program c;
  c.p.kernel("concat", {c.input({4, 3}), c.input({4, 3}), c.input({4, 3})}, {c.output({4, 9})}, {{"dim", int64_t(1)}});
  c.p.kernel("concat", {c.input({4, 3}), c.input({4, 2})}, {c.output({4, 5})}, {{"dim", int64_t(1)}});
  CHECK(c.places() == Places{0, 1});
  Result<std::vector<std::vector<KernelCall>>> calls = resolveCalls(c.p.plan(), {});
  REQUIRE(calls.ok());
  for (const size_t step : {0, 1}) {
    const Result<std::vector<cuda::CudaKernel>> choices = cuda::bindCuda((*calls)[0][step], {});
    REQUIRE(choices.ok());
    CHECK(choices->front().actions.size() == step + 1);
  }
}

TEST_CASE("a loop does not wait for others where it would stand between rows") {
  JoinedProgram c(7, {"generated loops of", "generated rows", "with loops over the results"});
  c.tolerance = 1e-6;
  const Shape full = {6, 40}, row = {6, 1}, column = {1, 40};
  const uint32_t x = c.input(full), g = c.p.buffer(plan::F32, {40, 6}), sum = c.p.buffer(plan::F32, row),
                 sums = c.p.buffer(plan::F32, {40}), y = c.output(full);
  const auto update = [&](const Shape &shape, uint32_t by) {
    const uint32_t w = c.input(shape);
    c.wanted.push_back(w);
    Loop(c.p, shape).in(w).in(by).constant(0.1).op("mul", {1, 2}).op("sub", {0, 3}).out(w, 4);
  };
  c.move(g, y);
  c.p.kernel("transpose", {c.input({6, 40})}, {g}, {{"perm", Shape{1, 0}}});
  update({40, 6}, g);
  Loop(c.p, full).in(x).out(sum, 0, plan::SUM, row).out(sums, 0, plan::SUM, column);
  update({40}, sums); // together with the first they would have to run before `y` is written, and behind these sums
  Loop(c.p, full).in(x).in(sum, row).op("sub", {0, 1}).out(y, 2);
  const std::vector<size_t> places = c.places();
  CHECK(places[4] == places[2]);
}
