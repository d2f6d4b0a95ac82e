// A training step in small, whose sums run beside kernels, and the same plan with all steps one after the other. Memory
// is reused while sums are under way.
//
//   g1 = x w;  sum g1 beside   g2 = relu x;  sum g2 beside   h = x + x, in the place of g1;
//   u1 = s1 + h;  u2 = s2 + u1;  sum u2 on the rank's own time;  out = that
#ifndef TESSERA_TEST_UNIT_PLAN_LANEPLAN_H
#define TESSERA_TEST_UNIT_PLAN_LANEPLAN_H

#include "test/unit/plan/PlanBuilder.h"

namespace tessera::rt {

struct LanePlan {
  enum Buffer : uint32_t { X, W, G1, G2, S1, S2, H, U1, U2, OUT };
  enum Step : int { MAKE_1, SUM_1, MAKE_2, SUM_2, REUSE, UPDATE_1, UPDATE_2, LAST_SUM };

  static plan::Plan make(uint32_t rank, uint32_t ranks, bool beside, int64_t rows = 4) {
    PlanBuilder b(rank, ranks);
    b.buffer("x", {rows, 4});
    b.buffer("w", {4, 4}, plan::F32, true);
    for (const char *name : {"g1", "g2", "s1", "s2"})
      b.buffer(name, {rows, 4});
    b.over("h", {rows, 4}, G1);
    for (const char *name : {"u1", "u2", "out"})
      b.buffer(name, {rows, 4});
    b.bind(plan::INPUT, "x", X, {rows * ranks, 4}, {int64_t(rank) * rows, 0});
    b.bind(plan::STATE, "w", W, {4, 4}, {0, 0}, rank == 0)->set_fill(2);
    b.bind(plan::OUTPUT, "out", OUT, {rows, 4}, {0, 0}, rank == 0);
    b.kernel("g1", "matmul", {X, W}, {G1});
    b.collective("g1.sum", plan::ALL_REDUCE, G1, S1, plan::SUM);
    b.kernel("g2", "relu", {X}, {G2});
    b.collective("g2.sum", plan::ALL_REDUCE, G2, S2, plan::SUM);
    b.kernel("h", "add", {X, X}, {H});
    b.kernel("u1", "add", {S1, H}, {U1});
    b.kernel("u2", "add", {S2, U1}, {U2});
    b.collective("last.sum", plan::ALL_REDUCE, U2, OUT, plan::SUM);
    if (beside) {
      runBeside(b.plan, SUM_1, MAKE_1);
      runBeside(b.plan, SUM_2, MAKE_2);
      step(b.plan, REUSE).add_waits(SUM_1);
      step(b.plan, UPDATE_2).add_waits(SUM_2);
    }
    return b.plan;
  }

  static plan::Step &step(plan::Plan &plan, int step) { return *plan.mutable_programs(0)->mutable_steps(step); }

private:
  static void runBeside(plan::Plan &plan, int number, int after) {
    step(plan, number).set_resource(plan::COMMUNICATION);
    step(plan, number).add_waits(uint32_t(after));
  }
};

} // namespace tessera::rt

#endif
