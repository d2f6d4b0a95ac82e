// Plans that a backend refuses, and buffers that it holds.
#include "runtime/backend/Kernel.h"
#include "test/conformance/backend/PlanBuilder.h"

#include <catch2/catch.hpp>
#include <cstring>

using namespace tessera;
using namespace tessera::rt;
using namespace tessera::rt::test;
using Catch::Matchers::Contains;

TEST_CASE("an unknown backend is named with the choices") {
  CHECK_THAT(createBackend("tpu").status().message(), Contains("'tpu'") && Contains("reference"));
}

TEST_CASE("bad kernels are refused in one sentence that names the step") {
  for (const char *backend : {"reference", "null"}) {
    auto refusal = [&](auto build) {
      PlanBuilder p;
      build(p);
      return p.refusal(backend);
    };
    CHECK(refusal([](PlanBuilder &p) { p.kernel("relu", {p.buffer(plan::F32, {2})}, {p.buffer(plan::F32, {2})}); }) ==
          "");
    CHECK_THAT(
        refusal([](PlanBuilder &p) { p.kernel("frobnicate", {p.buffer(plan::F32, {2})}, {p.buffer(plan::F32, {2})}); }),
        Contains("step 'frobnicate0'") && Contains("no kernel"));
    CHECK_THAT(refusal([](PlanBuilder &p) {
                 p.kernel("add", {p.buffer(plan::F32, {2}), p.buffer(plan::F32, {3})}, {p.buffer(plan::F32, {3})});
               }),
               Contains("[2]") && Contains("[3]"));
    CHECK_THAT(refusal([](PlanBuilder &p) {
                 p.kernel("add", {p.buffer(plan::F32, {2}), p.buffer(plan::I64, {2})}, {p.buffer(plan::F32, {2})});
               }),
               Contains("f32, i64"));
    CHECK_THAT(
        refusal([](PlanBuilder &p) {
          p.kernel("transpose", {p.buffer(plan::F32, {2, 3})}, {p.buffer(plan::F32, {3, 2})}, {{"perm", Shape{1, 1}}});
        }),
        Contains("permutation"));
    CHECK_THAT(refusal([](PlanBuilder &p) {
                 uint32_t x = p.buffer(plan::F32, {4, 4});
                 p.kernel("transpose", {x}, {x}, {{"perm", Shape{1, 0}}});
               }),
               Contains("overlaps"));
    CHECK_THAT(refusal([](PlanBuilder &p) {
                 p.kernel("conv", {p.buffer(plan::F32, {1, 3, 8, 8}), p.buffer(plan::F32, {4, 3, 3, 3})},
                          {p.buffer(plan::F32, {1, 4, 8, 8})},
                          {{"strides", Shape{1, 1}},
                           {"pads", Shape{0, 0, 0, 0}},
                           {"dilations", Shape{1, 1}},
                           {"groups", int64_t(1)}});
               }),
               Contains("[1, 4, 6, 6], not [1, 4, 8, 8]"));
    CHECK_THAT(refusal([](PlanBuilder &p) {
                 p.kernel("slice", {p.buffer(plan::F32, {4})}, {p.buffer(plan::F32, {4})},
                          {{"starts", Shape{2}}, {"limits", Shape{6}}, {"strides", Shape{1}}});
               }),
               Contains("leave the operand"));
  }
}

TEST_CASE("bad buffers are refused before memory is touched") {
  auto refusal = [](auto change) {
    PlanBuilder p;
    uint32_t x = p.buffer(plan::F32, {4}), y = p.buffer(plan::F32, {4});
    p.kernel("relu", {x}, {y});
    change(p.plan());
    return p.refusal("null");
  };
  CHECK(refusal([](plan::Plan &) {}) == "");
  CHECK_THAT(refusal([](plan::Plan &p) { p.mutable_buffers(1)->set_offset(128); }), Contains("beyond the arena"));
  CHECK_THAT(refusal([](plan::Plan &p) { p.mutable_buffers(1)->set_offset(~uint64_t(63)); }),
             Contains("beyond the arena"));
  CHECK_THAT(refusal([](plan::Plan &p) { p.mutable_buffers(1)->set_shape(0, int64_t(1) << 62); }),
             Contains("out of range"));
  CHECK_THAT(refusal([](plan::Plan &p) { p.mutable_buffers(0)->set_dtype(plan::DTYPE_INVALID); }),
             Contains("element type"));
  CHECK_THAT(refusal([](plan::Plan &p) { p.set_arena_bytes(uint64_t(1) << 62); }), Contains("arena"));
  CHECK_THAT(
      refusal([](plan::Plan &p) { p.mutable_programs(0)->mutable_steps(0)->mutable_kernel()->set_inputs(0, 9); }),
      Contains("no buffer 9"));
  CHECK_THAT(refusal([](plan::Plan &p) { p.mutable_buffers(1)->set_constant(std::string(16, 0)); }),
             Contains("constant is written"));
}

TEST_CASE("constants are loaded, widened where asked") {
  PlanBuilder p;
  uint32_t c = p.buffer(plan::F32, {2}), y = p.buffer(plan::F32, {2});
  float contents[2] = {1.5f, -2.0f};
  p.plan().mutable_buffers(0)->set_constant(std::string(reinterpret_cast<char *>(contents), 8));
  p.kernel("neg", {c}, {y});
  for (bool widen : {false, true}) {
    LoadOptions options;
    options.widen = widen;
    CHECK(p.run("reference", {}, {y}, options)[0] == Values{-1.5, 2});
    auto backend = createBackend("reference");
    auto loaded = (*backend)->load(p.plan(), options);
    CHECK((*loaded)->dtype(y) == (widen ? plan::F64 : plan::F32));
    CHECK((*loaded)->arenaBytes() == (widen ? 256 : 128));
    CHECK((*loaded)->describe(0, 0) == "reference: neg reference");
  }
}

TEST_CASE("the registry takes the first implementation that accepts and binds") {
  KernelRegistry registry;
  auto yes = [](const KernelCall &) { return true; };
  auto no = [](const KernelCall &) { return false; };
  auto declines = [](const KernelCall &) { return BindResult(std::unique_ptr<BoundKernel>()); };
  registry.add("relu", {"a", no, [](const KernelCall &) { return bindFunction("a", nullptr); }});
  registry.add("relu", {"b", yes, declines});
  registry.add("relu", {"c", yes, [](const KernelCall &) { return bindFunction("c", nullptr); }});
  registry.add("relu", {"d", yes, [](const KernelCall &) { return bindFunction("d", nullptr); }});
  plan::Kernel kernel;
  kernel.set_name("relu");
  KernelCall call;
  call.kernel = &kernel;
  BindResult bound = registry.bind(call);
  REQUIRE(bound.ok());
  CHECK((*bound)->describe() == "c");
  kernel.set_name("gelu");
  CHECK_THAT(registry.bind(call).status().message(), Contains("no kernel 'gelu'"));
}
