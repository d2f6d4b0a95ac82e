// Views of a part of another buffer: what the checker proves of them.
#include "test/unit/plan/PlanBuilder.h"

#include "runtime/plan/PlanChecker.h"
#include "runtime/plan/PlanFile.h"

#include <catch2/catch.hpp>

using namespace tessera;
using namespace tessera::rt;

namespace {

/// x [4, 16] is fed, y = relu(x), z = relu(rows 2 and 3 of y) is the output.
struct PartPlan {
  PlanBuilder b{0, 1};
  uint32_t x, y, part, z;

  PartPlan() {
    b.plan.set_global_batch(4);
    x = b.buffer("x", {4, 16});
    y = b.buffer("y", {4, 16});
    part = b.alias("y.part", {2, 16}, y);
    b.plan.mutable_buffers(int(part))->set_offset(b.plan.buffers(int(y)).offset() + 128);
    z = b.buffer("z", {2, 16});
    b.bind(plan::INPUT, "x", x, {4, 16}, {0, 0});
    b.bind(plan::OUTPUT, "z", z, {2, 16}, {0, 0});
    b.kernel("whole", "relu", {x}, {y});
    b.kernel("part", "relu", {part}, {z});
    b.plan.set_version(neededVersion(b.plan));
  }
  plan::Step &step(int s) { return *b.plan.mutable_programs(0)->mutable_steps(s); }
  std::string refusal() const { return checkPlan(b.plan).message(); }
};

} // namespace

TEST_CASE("a step reads a part of a buffer") {
  PartPlan p;
  CHECK(p.b.plan.version() == 5);
  CHECK(p.refusal() == "");
}

TEST_CASE("a part is there when the whole is") {
  PartPlan p;
  p.b.plan.mutable_programs(0)->mutable_steps()->SwapElements(0, 1);
  CHECK_THAT(p.refusal(), Catch::Contains("reads buffer 2 'y.part', which nothing has written"));
}

TEST_CASE("what is written over another part of the whole makes all parts undefined") {
  PartPlan p;
  const uint32_t other = p.b.over("other", {1, 16}, p.y);
  p.b.kernel("overwrite", "relu", {p.z}, {other});
  p.step(2).mutable_kernel()->set_inputs(0, p.x);
  p.b.plan.mutable_programs(0)->mutable_steps()->SwapElements(1, 2);
  CHECK_THAT(p.refusal(), Catch::Contains("which buffer 4 'other' has overwritten"));
}

TEST_CASE("nothing writes a part, and no binding names one") {
  PartPlan p;
  p.step(0).mutable_kernel()->set_outputs(0, p.part);
  CHECK_THAT(p.refusal(), Catch::Contains("writes buffer 2 'y.part', which is a part of buffer 1 'y'"));
  PartPlan q;
  q.b.plan.mutable_bindings(1)->set_buffer(q.part);
  CHECK_THAT(q.refusal(), Catch::Contains("buffer 2 'y.part' is a part of buffer 1 'y'"));
}
