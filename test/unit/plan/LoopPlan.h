// A plan that calls a section once per micro-batch, and the same plan written out. Both give equal numbers: sums are of
// small integers.
//
//   begin   s = w w;  acc = w - w
//   body    xi = rows of x;  k = one of 1, 2, 3, ...;  y = xi s;  z = k;  sum y and z over the ranks in one message;
//           y = y z;  acc = acc + y;  m = y - m                    (m is a state: it passes from call to call)
//   end     out = acc - y                                          (y is the last call's)
#ifndef TESSERA_TEST_UNIT_PLAN_LOOPPLAN_H
#define TESSERA_TEST_UNIT_PLAN_LOOPPLAN_H

#include "test/unit/plan/PlanBuilder.h"

namespace tessera::rt {

struct LoopPlan {
  enum Buffer : uint32_t { X, W, NUMBERS, M, S, ACC, XI, KI, K, Y, Z, YS, ZS, OUT };
  enum Step : int { SQUARE, ZERO, ROWS, NUMBER, PRODUCT, FACTOR, SUM_Y, SUM_Z, SCALE, ADD, CARRY, LAST };
  static constexpr int kBegin = 2, kBody = 11, kEnd = 12; // where the sections end
  static constexpr int64_t kRows = 2;                     // of a micro-batch on a rank

  /// `calls`: the body is called `parts` times. Otherwise it stands there as often.
  static plan::Plan make(uint32_t rank, uint32_t ranks, int parts, bool calls) {
    PlanBuilder b(rank, ranks);
    const int64_t rows = kRows * parts;
    b.buffer("x", {rows, 2});
    b.buffer("w", {2, 2}, plan::F32, true);
    b.buffer("numbers", {parts, 4}, plan::F32, true);
    std::string contents;
    for (int i = 0; i < parts; ++i)
      for (int j = 0; j < 4; ++j) {
        const auto value = float(i + 1);
        contents.append(reinterpret_cast<const char *>(&value), sizeof value);
      }
    b.plan.mutable_buffers(NUMBERS)->set_constant(contents);
    b.buffer("m", {2, 2}, plan::F32, true);
    b.buffer("s", {2, 2});
    b.buffer("acc", {2, 2});
    b.buffer("xi", {kRows, 2});
    b.buffer("ki", {1, 4});
    b.alias("k", {2, 2}, KI);
    for (const char *name : {"y", "z", "ys", "zs", "out"})
      b.buffer(name, {2, 2});
    b.bind(plan::INPUT, "x", X, {rows * ranks, 2}, {int64_t(rank) * rows, 0});
    b.bind(plan::STATE, "w", W, {2, 2}, {0, 0}, rank == 0)->set_fill(1);
    b.bind(plan::STATE, "m", M, {2, 2}, {0, 0}, rank == 0)->set_fill(3);
    b.bind(plan::OUTPUT, "out", OUT, {2, 2}, {0, 0}, rank == 0);

    b.kernel("s", "mul", {W, W}, {S});
    b.kernel("acc.zero", "sub", {W, W}, {ACC});
    for (int part = 0; part < (calls ? 1 : parts); ++part) {
      take(b, "xi", X, XI, parts, calls ? -1 : part);
      take(b, "ki", NUMBERS, KI, parts, calls ? -1 : part);
      b.kernel("y", "matmul", {XI, S}, {Y});
      b.kernel("z", "abs", {K}, {Z});
      b.collective("y.sum", plan::ALL_REDUCE, Y, YS, plan::SUM)->set_joined(1);
      b.collective("z.sum", plan::ALL_REDUCE, Z, ZS, plan::SUM);
      b.kernel("scale", "mul", {YS, ZS}, {YS});
      b.kernel("acc.add", "add", {ACC, YS}, {ACC});
      b.kernel("m.carry", "sub", {YS, M}, {M});
    }
    b.kernel("out", "sub", {ACC, YS}, {OUT});
    if (calls) {
      plan::Program *program = b.plan.mutable_programs(0);
      for (int end : {kBegin, kBody, kEnd})
        program->add_section_ends(uint32_t(end));
      call(*program, 0, 0);
      for (int part = 0; part < parts; ++part)
        call(*program, 1, uint32_t(part));
      call(*program, 2, 0);
      b.plan.set_version(2);
    }
    return b.plan;
  }

  static void call(plan::Program &program, uint32_t section, uint32_t index) {
    plan::Call *call = program.add_calls();
    call->set_section(section);
    call->set_index(index);
  }

private:
  /// The rows of one micro-batch, or of the call's.
  static void take(PlanBuilder &b, const std::string &name, uint32_t from, uint32_t to, int parts, int part) {
    if (part < 0)
      return PlanBuilder::set(b.kernel(name, "micro_rows", {from}, {to}), "parts", int64_t(parts));
    plan::Kernel *slice = b.kernel(name, "slice", {from}, {to});
    const int64_t columns = b.plan.buffers(int(from)).shape(1);
    PlanBuilder::set(slice, "limits", std::vector<int64_t>{b.plan.buffers(int(from)).shape(0), columns});
    PlanBuilder::set(slice, "starts", std::vector<int64_t>{part, 0});
    PlanBuilder::set(slice, "strides", std::vector<int64_t>{parts, 1});
  }
};

} // namespace tessera::rt

#endif
