// Gradients of convolutions' weights in leaves, held against the sums of the leaves' gradients.
#include "test/unit/backend/Splits.h"

#include <catch2/catch.hpp>

using namespace tessera;
using namespace tessera::rt;
using namespace tessera::rt::test;

namespace {

struct Sizes {
  int64_t n, leaves, c, f, h, kernel, stride = 1, groups = 1;
  Shape x() const { return {n, c, h, h}; }
  Shape dy() const { return {n, f, (h - 1) / stride + 1, (h - 1) / stride + 1}; }
  Shape dw() const { return {f, c / groups, kernel, kernel}; }
  Attributes attributes() const {
    const int64_t pad = kernel / 2;
    return {{"strides", Shape{stride, stride}},
            {"pads", Shape{pad, pad, pad, pad}},
            {"dilations", Shape{1, 1}},
            {"groups", groups},
            {"kernel_sizes", Shape{kernel, kernel}}};
  }
};

/// The gradient by one kernel with leaves, or by a kernel for each leaf and additions.
Values gradient(const Sizes &s, plan::DType type, const std::string &backend, int threads, bool one,
                std::string *description = nullptr) {
  PlanBuilder p;
  p.plan().set_version(11);
  p.plan().set_leaves(8);
  std::map<uint32_t, Values> inputs;
  const auto part = [&](const Shape &whole, uint64_t seed, int64_t parts, int64_t number) {
    Shape shape = whole;
    shape[0] /= parts;
    const uint32_t buffer = p.buffer(type, shape);
    inputs[buffer] = slice(numbers(elementCount(whole), seed, type), whole, 0, parts, number);
    return buffer;
  };
  const int64_t kernels = one ? 1 : s.leaves;
  Attributes attributes = s.attributes();
  if (one)
    attributes["leaves"] = s.leaves;
  std::vector<uint32_t> sums;
  for (int64_t i = 0; i < kernels; ++i) {
    sums.push_back(p.buffer(type, s.dw()));
    p.kernel("conv_weight_grad", {part(s.x(), 1, kernels, i), part(s.dy(), 2, kernels, i)}, {sums.back()}, attributes);
  }
  for (std::vector<uint32_t> next; sums.size() > 1; sums = next, next.clear())
    for (size_t i = 0; i < sums.size(); i += 2) {
      next.push_back(p.buffer(type, s.dw()));
      p.kernel("add", {sums[i], sums[i + 1]}, {next.back()});
    }
  LoadOptions options;
  options.threads = threads;
  std::vector<std::string> descriptions;
  const Values result = p.run(backend, inputs, sums, options, &descriptions)[0];
  if (description)
    *description = descriptions[0];
  return result;
}

} // namespace

TEST_CASE("a gradient of weights in leaves is the tree of their gradients, to the bit", "[bits]") {
  const std::vector<Sizes> sizes = {{8, 4, 32, 64, 9, 3},   {8, 8, 32, 64, 9, 3, 2},    {8, 1, 32, 64, 9, 3},
                                    {8, 2, 512, 512, 4, 3}, {4, 4, 512, 480, 3, 3},     {8, 4, 3, 64, 16, 7, 2},
                                    {8, 4, 24, 40, 7, 3},   {4, 2, 32, 32, 8, 3, 1, 2}, {4, 4, 32, 32, 8, 3, 1, 32},
                                    {8, 4, 64, 48, 5, 1},   {8, 2, 64, 48, 9, 1, 2},    {8, 4, 6, 10, 7, 5}};
  for (plan::DType type : {plan::F32, plan::BF16, plan::F64})
    for (const Sizes &s : sizes) {
      if (type == plan::F64 && s.c > 100) // by plain loops
        continue;
      const Values wanted = gradient(s, type, "cpu", 1, false);
      for (int threads : {1, 2, 3, 8}) {
        std::string description;
        const Values got = gradient(s, type, "cpu", threads, true, &description);
        INFO("type " << type << ", " << s.leaves << " leaves of " << str(s.x()) << " and " << str(s.dy()) << ", "
                     << threads << " threads, " << description);
        CHECK(sameBits(got, wanted));
      }
    }
}

TEST_CASE("the reference adds a gradient's leaves as a tree", "[bits]") {
  for (plan::DType type : {plan::F32, plan::BF16, plan::F16, plan::F64})
    for (const Sizes &s : {Sizes{8, 8, 5, 20, 4, 3}, Sizes{8, 4, 4, 6, 5, 3, 2, 2}, Sizes{6, 2, 3, 5, 4, 1}}) {
      INFO("type " << type << ", " << s.leaves << " leaves of " << str(s.x()));
      CHECK(sameBits(gradient(s, type, "reference", 2, true), gradient(s, type, "reference", 1, false)));
    }
}

TEST_CASE("leaves of a gradient of weights divide the images") {
  PlanBuilder p;
  const Sizes s{6, 4, 2, 3, 4, 3};
  const uint32_t x = p.buffer(plan::F32, s.x()), dy = p.buffer(plan::F32, s.dy()), dw = p.buffer(plan::F32, s.dw());
  Attributes attributes = s.attributes();
  attributes["leaves"] = s.leaves;
  p.kernel("conv_weight_grad", {x, dy}, {dw}, attributes);
  p.plan().set_version(11);
  CHECK_THROWS_WITH(p.run("reference", {{x, numbers(elementCount(s.x()), 1, plan::F32)}}, {dw}),
                    Catch::Contains("4 leaves are no power of two that divides the 6 images"));
}
