// A product and the loop behind it are one library call where that is allowed.
#include "test/conformance/backend/PlanBuilder.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace tessera;
using namespace tessera::rt;
using namespace tessera::rt::test;
using Catch::Contains;

namespace {

/// relu(x w + bias) as a product and a loop: the kernels that run them, and the results as a whole and apart.
struct Done {
  std::vector<std::string> steps;
  Values product, result, productApart, resultApart;
};
Done done(bool readElsewhere, bool operandOverwritten, const LoadOptions &options = {}, double first = 1) {
  PlanBuilder p;
  uint32_t x = p.buffer(plan::F32, {4, 3}), w = p.buffer(plan::F32, {3, 8}), bias = p.buffer(plan::F32, {8}),
           t = p.buffer(plan::F32, {4, 8}), y = p.buffer(plan::F32, {4, 8}), other = p.buffer(plan::F32, {4, 8});
  p.kernel("matmul", {x, w}, {t});
  if (operandOverwritten) { // and the loop's bias made after it, so that the loop cannot run before
    p.kernel("neg", {w}, {w});
    p.kernel("neg", {bias}, {bias});
  }
  plan::Expression &e = *p.kernel("fused", {bias, t}, {y}).mutable_expression();
  for (auto *shape : {e.mutable_domain(), e.add_input_views()->mutable_shape(), e.add_input_views()->mutable_shape()}) {
    shape->Add(e.input_views_size() == 2 && shape == e.mutable_input_views(0)->mutable_shape() ? 1 : 4);
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
  Values values(12, 1);
  values[0] = first;
  Done d;
  for (bool apart : {false, true}) {
    const std::vector<Values> found = p.run("cuda", {{x, values}, {w, Values(24, 1)}, {bias, Values(8, -2)}}, {t, y},
                                            options, apart ? nullptr : &d.steps, apart);
    (apart ? d.productApart : d.product) = found[0];
    (apart ? d.resultApart : d.result) = found[1];
  }
  return d;
}

} // namespace

TEST_CASE("a bias and a function behind a product are the product's epilogue") {
  const Done d = done(false, false);
  CHECK_THAT(d.steps[0], Contains("(in whole programs: with step 1)"));
  CHECK_THAT(d.steps[1], Contains("in whole programs: cuBLASLt") && Contains("+ bias + relu"));
  CHECK(d.result == Values(32, 1));
}

TEST_CASE("single steps have their own results, for whoever looks at them") {
  const Done d = done(false, false);
  CHECK(d.productApart == Values(32, 3));
  CHECK(d.resultApart == Values(32, 1));
  CHECK(d.product != d.productApart); // never stored
}

TEST_CASE("a product stays apart if another step reads it, or if its operands are gone") {
  for (bool elsewhere : {true, false}) {
    const Done d = done(elsewhere, !elsewhere);
    CHECK_THAT(d.steps[0], !Contains("in whole programs"));
    for (const std::string &step : d.steps)
      CHECK_THAT(step, !Contains("in whole programs: cuBLASLt"));
    CHECK(d.product == d.productApart);
    CHECK(d.result == d.resultApart);
  }
}

TEST_CASE("where NaN is looked for, no library function hides it") {
  LoadOptions options;
  options.device.keepNan = true;
  const Done d = done(false, false, options, std::nan(""));
  for (const std::string &step : d.steps)
    CHECK_THAT(step, !Contains("in whole programs"));
  for (size_t i = 0; i < d.result.size(); ++i)
    CHECK(std::isnan(d.result[i]) == (i < 8)); // the first row
}

TEST_CASE("what runs in the place of a step is what whole programs run there") {
  PlanBuilder p;
  const uint32_t x = p.buffer(plan::F32, {4, 3}), w = p.buffer(plan::F32, {3, 8}), t = p.buffer(plan::F32, {4, 8}),
                 y = p.buffer(plan::F32, {4, 8}), z = p.buffer(plan::F32, {4, 8});
  p.kernel("matmul", {x, w}, {t});
  p.kernel("relu", {t}, {y});
  p.kernel("softmax", {y}, {z}, {{"dim", int64_t(1)}});
  Result<std::unique_ptr<Backend>> backend = createBackend("cuda");
  REQUIRE(backend.ok());
  Result<std::unique_ptr<LoadedPlan>> loaded = (*backend)->load(p.plan(), {});
  REQUIRE(loaded.ok());
  const std::vector<float> ones(24, 1);
  for (uint32_t b : {x, w})
    REQUIRE((*loaded)->upload(b, ones.data()).ok());
  ProgramRunner &programs = *(*loaded)->capabilities().programs;
  for (uint32_t s : {0, 1, 2})
    REQUIRE(programs.runPlace(0, {s, 0}).ok());
  std::vector<float> numbers(32);
  REQUIRE((*loaded)->download(t, numbers.data()).ok());
  CHECK(numbers == std::vector<float>(32, 0)); // never stored
  REQUIRE((*loaded)->download(y, numbers.data()).ok());
  CHECK(numbers == std::vector<float>(32, 3));
  for (uint32_t s : {0, 1}) {
    const auto as = (*loaded)->asRun(0, s);
    REQUIRE(as);
    CHECK(as->place == 1);
    CHECK(as->bytes == 4 * (12 + 24 + 32)); // x, w and y
    CHECK_THAT(as->implementation, Contains("cuBLASLt") && Contains("+ relu"));
  }
  CHECK_FALSE((*loaded)->asRun(0, 2));
}

TEST_CASE("numbers that a program tells are on the host when it is done") {
  PlanBuilder p;
  const uint32_t x = p.buffer(plan::F32, {4}), loss = p.buffer(plan::F32, {1});
  p.kernel("reduce_sum", {x}, {loss}, {{"dims", Shape{0}}});
  plan::Binding &binding = *p.plan().add_bindings();
  binding.set_role(plan::LOSS);
  binding.set_program(p.plan().programs(0).name());
  binding.set_buffer(loss);
  Result<std::unique_ptr<Backend>> backend = createBackend("cuda");
  REQUIRE(backend.ok());
  Result<std::unique_ptr<LoadedPlan>> loaded = (*backend)->load(p.plan(), {});
  REQUIRE(loaded.ok());
  auto run = [&](float each) {
    REQUIRE((*loaded)->upload(x, std::vector<float>(4, each).data()).ok());
    REQUIRE((*loaded)->capabilities().programs->runProgram(0, {}).ok());
    REQUIRE((*loaded)->synchronize().ok());
  };
  float found = 0;
  for (float each : {1.0F, 2.0F, 3.0F}) { // step by step, recorded, replayed
    run(each);
    *static_cast<float *>((*loaded)->address(loss)) = -1; // the device is not asked
    REQUIRE((*loaded)->download(loss, &found).ok());
    CHECK(found == 4 * each);
  }
  // What is written since is what is read.
  const float mine = 7;
  REQUIRE((*loaded)->upload(loss, &mine).ok());
  REQUIRE((*loaded)->download(loss, &found).ok());
  CHECK(found == 7);
  REQUIRE((*loaded)->launch(0, 0, 0).ok());
  REQUIRE((*loaded)->download(loss, &found).ok());
  CHECK(found == 12);
}
