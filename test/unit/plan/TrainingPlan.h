// A complete little training plan that the checker accepts: y = relu(x w), loss = sum y, plain SGD.
// One rank holds a slice of the batch; the gradient is all-reduced, the output gathered.
#ifndef TESSERA_TEST_UNIT_PLAN_TRAININGPLAN_H
#define TESSERA_TEST_UNIT_PLAN_TRAININGPLAN_H

#include "test/unit/plan/PlanBuilder.h"

namespace tessera::rt {

enum TrainingBuffer : uint32_t { X, W, LR, STEP_COUNT, MOMENT, Y, Z, ZFLAT, GRAD, GRAD_SUM, PART, LOSS, OUT };
enum TrainingStep : int { MATMUL, RELU, REDUCE, LOSS_SUM, GRADIENT, GRADIENT_SUM, UPDATE, GATHER };

inline plan::Plan trainingPlan(uint32_t rank, uint32_t ranks) {
  PlanBuilder b(rank, ranks);
  int64_t batch = 8, rows = batch / ranks;
  b.plan.set_global_batch(uint64_t(batch));
  b.buffer("x", {rows, 3});
  b.buffer("w", {3, 2}, plan::F32, true);
  b.constant("lr", 0.5f);
  b.buffer("step", {}, plan::I64);
  b.buffer("moment", {3, 2}, plan::F32, true);
  b.buffer("y", {rows, 2});
  b.over("z", {rows, 2}, Y); // relu in place
  b.alias("zflat", {rows * 2}, Z);
  b.buffer("grad", {3, 2});
  b.buffer("grad_sum", {3, 2});
  b.buffer("part", {});
  b.alias("loss", {}, PART);
  b.buffer("out", {batch, 2});
  b.bind(plan::INPUT, "x", X, {batch, 3}, {rank * rows, 0});
  b.bind(plan::STEP, "step", STEP_COUNT, {}, {}, rank == 0);
  b.bind(plan::PARAMETER, "w", W, {3, 2}, {0, 0}, rank == 0);
  b.bind(plan::STATE, "momentum/w", MOMENT, {3, 2}, {0, 0}, rank == 0)->set_fill(0.25);
  b.bind(plan::OUTPUT, "out", OUT, {batch, 2}, {0, 0}, rank == 0);
  b.bind(plan::LOSS, "loss", LOSS, {}, {}, rank == 0);

  b.kernel("/fc/MatMul", "matmul", {X, W}, {Y});
  b.kernel("/fc/Relu", "relu", {Y}, {Z});
  plan::Kernel *sum = b.kernel("loss", "reduce_sum", {ZFLAT}, {PART});
  PlanBuilder::set(sum, "dims", std::vector<int64_t>{0});
  PlanBuilder::set(sum, "keepdims", 0);
  b.collective("loss.sum", plan::ALL_REDUCE, PART, LOSS, plan::SUM);
  plan::Kernel *gradient = b.kernel("/fc/MatMul.grad_w", "matmul", {X, Z}, {GRAD});
  PlanBuilder::set(gradient, "transpose_a", 1);
  PlanBuilder::set(gradient, "transpose_b", 0);
  b.collective("/fc/MatMul.grad_w.sum", plan::ALL_REDUCE, GRAD, GRAD_SUM, plan::SUM);
  // w = w - lr * grad_sum
  plan::Kernel *update = b.kernel("w.update", "fused", {W, LR, GRAD_SUM}, {W});
  plan::Expression *e = update->mutable_expression();
  for (int64_t size : {3, 2})
    e->add_domain(size);
  for (std::vector<int64_t> view : {std::vector<int64_t>{3, 2}, {1, 1}, {3, 2}}) {
    plan::View *v = e->add_input_views();
    for (int64_t size : view)
      v->add_shape(size);
  }
  auto instruction = [&](const std::string &op, uint32_t a, uint32_t c) {
    plan::Instruction *i = e->add_code();
    i->set_op(op);
    i->set_type(plan::F32);
    i->add_operands(a);
    i->add_operands(c);
  };
  instruction("mul", 1, 2);
  instruction("sub", 0, 3);
  plan::Result *r = e->add_results();
  r->set_value(4);
  r->add_shape(3);
  r->add_shape(2);
  b.collective("out", plan::ALL_GATHER, Z, OUT)->set_dim(0);
  return b.plan;
}

inline std::vector<plan::Plan> trainingPlans(uint32_t ranks) {
  std::vector<plan::Plan> plans;
  for (uint32_t rank = 0; rank < ranks; ++rank)
    plans.push_back(trainingPlan(rank, ranks));
  return plans;
}

} // namespace tessera::rt

#endif
