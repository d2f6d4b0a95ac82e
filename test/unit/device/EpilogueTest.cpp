// A product and the loop behind it are one library call where that is allowed.
#include "test/conformance/backend/PlanBuilder.h"

#include <catch2/catch.hpp>

using namespace tessera;
using namespace tessera::rt;
using namespace tessera::rt::test;
using Catch::Contains;

namespace {

/// relu(x w + bias) as a product and a loop; what runs them.
std::vector<std::string> stepsOf(bool readElsewhere, bool operandOverwritten) {
  PlanBuilder p;
  uint32_t x = p.buffer(plan::F32, {4, 3}), w = p.buffer(plan::F32, {3, 8}),
           bias = p.buffer(plan::F32, {8}), t = p.buffer(plan::F32, {4, 8}),
           y = p.buffer(plan::F32, {4, 8}), other = p.buffer(plan::F32, {4, 8});
  p.kernel("matmul", {x, w}, {t});
  if (operandOverwritten)
    p.kernel("neg", {w}, {w});
  plan::Expression &e = *p.kernel("fused", {bias, t}, {y}).mutable_expression();
  for (auto *shape : {e.mutable_domain(), e.add_input_views()->mutable_shape(),
                      e.add_input_views()->mutable_shape()}) {
    shape->Add(e.input_views_size() == 2 && shape == e.mutable_input_views(0)->mutable_shape() ? 1
                                                                                               : 4);
    shape->Add(8);
  }
  for (auto [op, operands] : {std::pair("add", std::vector<uint32_t>{0, 1}), {"relu", {2}}}) {
    plan::Instruction &i = *e.add_code();
    i.set_op(op);
    for (uint32_t o : operands)
      i.add_operands(o);
    i.set_type(plan::F32);
  }
  plan::Result &r = *e.add_results();
  r.set_value(3);
  r.add_shape(4);
  r.add_shape(8);
  if (readElsewhere)
    p.kernel("neg", {t}, {other});
  std::vector<std::string> steps;
  p.run("cuda", {{x, Values(12, 1)}, {w, Values(24, 1)}, {bias, Values(8, -2)}}, {y}, {}, &steps);
  return steps;
}

} // namespace

TEST_CASE("a bias and a function behind a product are the product's epilogue") {
  const std::vector<std::string> steps = stepsOf(false, false);
  CHECK_THAT(steps[0], Contains("with step 1"));
  CHECK_THAT(steps[1], Contains("cuBLASLt") && Contains("+ bias + relu"));
}

TEST_CASE("not where somebody else reads the product, or its operands are gone") {
  CHECK_THAT(stepsOf(true, false)[1], Contains("generated"));
  CHECK_THAT(stepsOf(false, true)[2], Contains("generated"));
}
