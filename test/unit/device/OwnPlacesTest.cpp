// Small tensors have memory of their own on a device, so that steps run as one wherever the plan has put these.
#include "runtime/backend/cuda/layout/OwnPlaces.h"
#include "test/conformance/backend/Loops.h"
#include "test/unit/device/JoinedProgram.h"

#include <catch2/catch.hpp>

using namespace tessera;
using namespace tessera::rt;
using namespace tessera::rt::test;

TEST_CASE("where small tensors lie does not bar steps that could run as one") {
  JoinedProgram c(5, {"in whole programs: generated rows", "with loops over the results"});
  c.tolerance = 1e-6;
  c.p.buffer(plan::F32, {1 << 16}); // a part of the arena may be as large as its small tensors
  const Shape full = {6, 40}, row = {6, 1}, column = {1, 40};
  const uint32_t x = c.input(full), before = c.p.buffer(plan::F32, {40}), sum = c.p.buffer(plan::F32, row),
                 first = c.p.buffer(plan::F32, {40}), last = c.p.buffer(plan::F32, {40});
  c.move(last, before);
  c.p.kernel("tanh", {c.input({40})}, {before});
  Loop(c.p, full).in(x).out(sum, 0, plan::SUM, row).out(first, 0, plan::SUM, column);
  c.p.kernel("neg", {first}, {c.output({40})});
  c.p.kernel("exp", {before}, {c.output({40})}); // before `last` is written
  Loop(c.p, full).in(x).in(sum, row).op("sub", {0, 1}).out(c.output(full), 2).out(last, 2, plan::SUM, column);
  c.p.kernel("abs", {last}, {c.output({40})});
  const std::vector<size_t> places = c.places();
  CHECK(places[4] == places[1]);
}

TEST_CASE("small tensors that only loops use are moved, with their views") {
  PlanBuilder p;
  const uint32_t rest = p.buffer(plan::F32, {1 << 20}), x = p.buffer(plan::F32, {40}),
                 small = p.buffer(plan::F32, {40}), view = p.rows(small, 16, 8),
                 large = p.buffer(plan::F32, {(1 << 14) + 1}), shown = p.buffer(plan::F32, {40}),
                 turned = p.buffer(plan::F32, {40, 1}), kept = p.buffer(plan::F32, {40}),
                 other = p.buffer(plan::BF16, {50});
  p.kernel("neg", {x}, {small});
  p.kernel("neg", {view}, {p.buffer(plan::F32, {8})});
  p.kernel("neg", {rest}, {large});
  p.kernel("neg", {x}, {shown});
  p.kernel("transpose", {x}, {turned}, {{"perm", Shape{0}}}); // no loop
  p.kernel("neg", {x}, {kept});
  p.kernel("neg", {x}, {other});
  for (const uint32_t b : {x, shown}) {
    plan::Binding &binding = *p.plan().add_bindings();
    binding.set_role(plan::OUTPUT);
    binding.set_buffer(b);
  }
  p.plan().mutable_buffers(int(kept))->set_persistent(true);
  const auto offsets = [&] {
    const cuda::OwnPlaces places(p.plan());
    std::vector<char> memory(places.bytes() + 1);
    std::vector<TensorView> buffers(size_t(p.plan().buffers_size()));
    places.place(buffers, memory.data());
    std::vector<int64_t> found;
    for (const TensorView &b : buffers)
      found.push_back(b.data ? b.as<char>() - memory.data() : -1);
    return found;
  };
  std::vector<int64_t> found = offsets();
  CHECK(found[small] == 0);
  CHECK(found[view] == 16 * 4);
  CHECK(found[other] == 256);
  for (const uint32_t b : {rest, x, large, shown, turned, kept})
    CHECK(found[b] == -1);
  // All of them together take at most a part of the arena.
  p.plan().set_arena_bytes(16 * 256);
  found = offsets();
  CHECK(found[small] == 0);
  CHECK(found[other] == -1);
}
