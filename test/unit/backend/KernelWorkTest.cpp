// The bytes and operations of kernels, against formulas written out by hand.
#include "runtime/backend/KernelWork.h"

#include "runtime/backend/ResolvedPlan.h"
#include "runtime/support/Scalar.h"
#include "test/conformance/backend/PlanBuilder.h"

#include <catch2/catch.hpp>

using namespace tessera;
using namespace tessera::rt;
using namespace tessera::rt::test;

namespace {

/// The work of the only kernel of a plan.
KernelWork only(const plan::Plan &plan, bool widen = false) {
  LoadOptions options;
  options.widen = widen;
  Result<std::vector<std::vector<KernelCall>>> calls = resolveCalls(plan, options);
  INFO(calls.status().message());
  REQUIRE(calls.ok());
  return workOf((*calls)[0][0]);
}

KernelWork kernel(const std::string &name, const std::vector<Shape> &inputs, const std::vector<Shape> &outputs,
                  const Attributes &attributes = {}, plan::DType type = plan::F32, bool widen = false) {
  PlanBuilder p;
  std::vector<uint32_t> in, out;
  for (const Shape &shape : inputs)
    in.push_back(p.buffer(type, shape));
  for (const Shape &shape : outputs)
    out.push_back(p.buffer(type, shape));
  p.kernel(name, in, out, attributes);
  return only(p.plan(), widen);
}

} // namespace

TEST_CASE("a product has two operations per multiplication and addition") {
  const KernelWork work = kernel("matmul", {{5, 2, 3}, {5, 3, 7}}, {{5, 2, 7}});
  CHECK(work.bytes == 4 * 5 * (2 * 3 + 3 * 7 + 2 * 7));
  CHECK(work.flops == 2.0 * 5 * 2 * 3 * 7);
  CHECK(kernel("matmul", {{2, 3}, {3, 7}}, {{2, 7}}, {}, plan::F32, true).bytes == 8 * (2 * 3 + 3 * 7 + 2 * 7));
}

TEST_CASE("a convolution and its gradients have the same products") {
  const Attributes attributes = {
      {"strides", Shape{2, 2}}, {"pads", Shape{1, 1, 1, 1}}, {"dilations", Shape{1, 1}}, {"groups", int64_t(2)}};
  const Shape x = {3, 4, 9, 9}, w = {6, 2, 3, 3}, y = {3, 6, 5, 5};
  const double flops = 2.0 * 3 * 6 * 5 * 5 * 2 * 3 * 3;
  CHECK(kernel("conv", {x, w}, {y}, attributes).flops == flops);
  Attributes input = attributes, weight = attributes;
  input["input_sizes"] = Shape{9, 9};
  weight["kernel_sizes"] = Shape{3, 3};
  CHECK(kernel("conv_input_grad", {y, w}, {x}, input).flops == flops);
  CHECK(kernel("conv_weight_grad", {x, y}, {w}, weight).flops == flops);
}

TEST_CASE("an elementwise operator counts its results, a reduction what it adds") {
  CHECK(kernel("add", {{4, 8}, {8}}, {{4, 8}}).flops == 4.0 * 8);
  CHECK(kernel("exp", {{4, 8}}, {{4, 8}}).flops == elementwiseFunction("exp")->work * 4 * 8);
  CHECK(elementwiseFunction("exp")->work > elementwiseFunction("add")->work);
  CHECK(kernel("reduce_sum", {{4, 8}}, {{4}}, {{"dims", Shape{1}}, {"keepdims", int64_t(0)}}).flops == 4.0 * 8);
}

TEST_CASE("an operator that only moves data has bytes and no operations") {
  const KernelWork work = kernel("transpose", {{2, 3}}, {{3, 2}}, {{"perm", Shape{1, 0}}});
  CHECK(work.bytes == 48);
  CHECK_FALSE(work.flops);
}

TEST_CASE("attention counts the scores that a row sees") {
  // 2 batches, 6 heads that share 3 of the keys, 4 rows, 5 keys.
  const Shape q = {2, 6, 4, 8}, k = {2, 3, 5, 8}, v = {2, 3, 5, 16}, y = {2, 6, 4, 16};
  const Attributes all = {{"scale", 1.0}};
  const Attributes causal = {{"scale", 1.0}, {"causal", int64_t(1)}, {"outside", -1e4}};
  CHECK(kernel("attention", {q, k, v}, {y}, all).flops == 2.0 * (2 * 6 * 4 * 5) * (8 + 16));
  const double inside = 2.0 * 6 * (1 + 2 + 3 + 4);
  CHECK(kernel("attention", {q, k, v}, {y}, causal).flops == 2.0 * inside * (8 + 16));
  // Scores again, dq and dk; dp and dv.
  CHECK(kernel("attention_grad", {y, q, k, v}, {q, k, v}, causal).flops == 2.0 * inside * (3 * 8 + 2 * 16));
  // Statistics cost nothing but their bytes, nor does the result beside them.
  const Shape lines = {2, 6, 4};
  const KernelWork plain = kernel("attention", {q, k, v}, {y}, causal),
                   kept = kernel("attention", {q, k, v}, {y, lines}, causal),
                   known = kernel("attention_grad", {y, q, k, v, y, lines}, {q, k, v}, causal);
  CHECK(kept.flops == plain.flops);
  CHECK(kept.bytes == plain.bytes + 4 * 2 * 6 * 4);
  CHECK(known.flops == 2.0 * inside * (3 * 8 + 2 * 16));
  // What is a part of a larger tensor counts as the part.
  const Shape all3 = {2, 12, 4, 20}, keys = {2, 3, 5, 24};
  Attributes parts = causal;
  parts["operand_parts"] = Shape{6, 6, 8, 8, 0, 3, 0, 8, 0, 3, 8, 16};
  const KernelWork inside3 = kernel("attention", {all3, keys, keys}, {y}, parts),
                   gradient3 = kernel("attention_grad", {y, all3, keys, keys, y, lines}, {q, k, v}, parts);
  // What dropout keeps is read.
  Attributes dropout = causal;
  dropout["keep_scale"] = 1.25;
  const KernelWork dropped = kernel("attention", {q, k, v, {2, 6, 4, 5}}, {y, lines}, dropout);
  CHECK((dropped.flops == plain.flops && dropped.bytes == kept.bytes + 4 * 2 * 6 * 4 * 5));
  CHECK((inside3.bytes == plain.bytes && inside3.flops == plain.flops));
  CHECK((gradient3.bytes == known.bytes && gradient3.flops == known.flops));
}

TEST_CASE("a fused loop has the work of its instructions for every element") {
  PlanBuilder p;
  const uint32_t x = p.buffer(plan::F32, {4, 8}), y = p.buffer(plan::F32, {4, 8});
  plan::Expression &e = *p.kernel("fused", {x}, {y}).mutable_expression();
  plan::View &view = *e.add_input_views();
  plan::Result &result = *e.add_results();
  for (int64_t size : {4, 8}) {
    e.add_domain(size);
    view.add_shape(size);
    result.add_shape(size);
  }
  auto add = [&](const char *op, std::vector<uint32_t> operands, double immediate = 0) {
    plan::Instruction &i = *e.add_code();
    i.set_op(op);
    i.set_type(plan::F32);
    i.set_immediate(immediate);
    for (uint32_t operand : operands)
      i.add_operands(operand);
  };
  add("constant", {}, 2); // no operation
  add("mul", {0, 1});
  add("exp", {2});
  result.set_value(3);
  const KernelWork work = only(p.plan());
  CHECK(work.flops == (1 + elementwiseFunction("exp")->work) * 4 * 8);
  CHECK(work.bytes == 2 * 4 * 4 * 8);
}

TEST_CASE("a micro-batch's rows count, not the whole batch") {
  PlanBuilder p;
  const uint32_t x = p.buffer(plan::F32, {32, 4}), y = p.buffer(plan::F32, {2, 4});
  p.kernel("micro_rows", {x}, {y}, {{"parts", int64_t(16)}});
  CHECK(only(p.plan()).bytes == 2 * 4 * 2 * 4);
}
