// Which kernels the CPU takes for operands of 16 bits.
#include "test/conformance/backend/Loops.h"

#include <catch2/catch.hpp>

using namespace tessera;
using namespace tessera::rt;
using namespace tessera::rt::test;

namespace {

/// The kernel that the CPU takes for the only step of a plan.
std::string kernelOf(PlanBuilder &plan) {
  Result<std::unique_ptr<Backend>> backend = createBackend("cpu");
  REQUIRE(backend.ok());
  Result<std::unique_ptr<LoadedPlan>> loaded = (*backend)->load(plan.plan(), {});
  INFO(loaded.status().message());
  REQUIRE(loaded.ok());
  return (*loaded)->describe(0, 0);
}

} // namespace

TEST_CASE("no product, convolution, softmax or loop in 16 bits is left to the reference kernels") {
  for (plan::DType type : {plan::BF16, plan::F16}) {
    const Attributes window = {{"strides", Shape{1, 1}}, {"pads", Shape(4, 1)}, {"dilations", Shape{1, 1}}};
    Attributes conv = window;
    conv["groups"] = int64_t(1);
    std::vector<std::string> kernels;
    {
      PlanBuilder p;
      p.kernel("matmul", {p.buffer(type, {32, 64}), p.buffer(type, {64, 32})}, {p.buffer(type, {32, 32})});
      kernels.push_back(kernelOf(p));
    }
    {
      PlanBuilder p;
      const uint32_t x = p.buffer(type, {2, 16, 8, 8}), w = p.buffer(type, {16, 16, 3, 3});
      p.kernel("conv", {x, w}, {p.buffer(type, {2, 16, 8, 8})}, conv);
      kernels.push_back(kernelOf(p));
    }
    {
      PlanBuilder p;
      p.kernel("softmax", {p.buffer(type, {4, 50})}, {p.buffer(type, {4, 50})}, {{"dim", int64_t(1)}});
      kernels.push_back(kernelOf(p));
    }
    {
      PlanBuilder p;
      const Shape shape = {4, 50};
      const uint32_t x = p.buffer(type, shape), y = p.buffer(plan::F32, shape);
      Loop(p, shape).in(x).op("mul", {0, 0}).out(y, 1);
      kernels.push_back(kernelOf(p));
    }
    for (const std::string &kernel : kernels) {
      INFO(dtypeName(type) << ": " << kernel);
      CHECK(kernel.find("reference") == std::string::npos);
    }
  }
}
