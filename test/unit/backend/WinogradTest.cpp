// Which convolutions are computed by Winograd's algorithm, and that their results are those of the reference.
#include "runtime/backend/cpu/OneDnn.h"
#include "test/unit/backend/Splits.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

using namespace tessera;
using namespace tessera::rt;
using namespace tessera::rt::test;

namespace {

struct Convolution {
  int64_t n = 2, c = 32, f = 48, height = 30, width = 28, kernel = 3, stride = 1, pad = 1, dilation = 1, groups = 1;
  plan::DType type = plan::F32;
  uint32_t leaves = 0;    // of a reproducible plan
  bool parameter = false; // no step writes the weights
  Shape x() const { return {n, c, height, width}; }
  Shape w() const { return {f, c / groups, kernel, kernel}; }
  Shape y() const {
    const auto points = [&](int64_t in) { return (in + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1; };
    return {n, f, points(height), points(width)};
  }
};

/// Whether the cpu backend takes Winograd's algorithm. The results are those of the reference in any case.
bool byWinograd(const std::string &kernel, const Convolution &s) {
  PlanBuilder p;
  if (s.leaves > 0) {
    p.plan().set_version(11);
    p.plan().set_leaves(s.leaves);
  }
  const bool inputGrad = kernel == "conv_input_grad", weightGrad = kernel == "conv_weight_grad";
  const Shape first = inputGrad ? s.y() : s.x(), second = weightGrad ? s.y() : s.w(),
              third = inputGrad    ? s.x()
                      : weightGrad ? s.w()
                                   : s.y();
  const uint32_t a = p.buffer(s.type, first), b = p.buffer(s.type, second), result = p.buffer(s.type, third);
  Attributes attributes = {{"strides", Shape{s.stride, s.stride}},
                           {"pads", Shape{s.pad, s.pad, s.pad, s.pad}},
                           {"dilations", Shape{s.dilation, s.dilation}},
                           {"groups", s.groups}};
  if (inputGrad)
    attributes["input_sizes"] = Shape{s.height, s.width};
  if (weightGrad)
    attributes["kernel_sizes"] = Shape{s.kernel, s.kernel};
  p.kernel(kernel, {a, b}, {result}, attributes);
  if (s.parameter) {
    plan::Binding &binding = *p.plan().add_bindings();
    binding.set_role(plan::PARAMETER);
    binding.set_name("w");
    binding.set_buffer(b);
  }
  const std::map<uint32_t, Values> inputs = {{a, numbers(elementCount(first), 1, s.type)},
                                             {b, numbers(elementCount(second), 2, s.type)}};
  std::vector<std::string> told;
  LoadOptions options;
  options.threads = 2;
  const Values ours = p.run("cpu", inputs, {result}, options, &told)[0],
               theirs = p.run("reference", inputs, {result})[0];
  double largest = 0, off = 0;
  for (size_t i = 0; i < ours.size(); ++i) {
    largest = std::max(largest, std::abs(theirs[i]));
    off = std::max(off, std::abs(theirs[i] - ours[i]));
  }
  INFO(told[0]);
  CHECK(off <= (s.type == plan::F32 ? 1e-5 : 1e-2) * largest);
  return told[0].find("wino") != std::string::npos;
}

/// Whether oneDNN has the algorithm here.
bool available() { return dnnlVersion().major < 3 && !isNarrow(dnnl::get_effective_cpu_isa()); }

const char *const kKernels[] = {"conv", "conv_input_grad", "conv_weight_grad"};

} // namespace

TEST_CASE("large images are convolved by Winograd's algorithm") {
  for (const std::string kernel : kKernels)
    for (const Convolution &s :
         {Convolution{}, Convolution{.height = 33, .width = 31}, Convolution{.n = 3, .c = 64, .f = 32, .pad = 0},
          Convolution{.n = 24, .c = 128, .f = 128, .height = 8, .width = 8}}) {
      INFO(kernel << " of " << str(s.x()) << " with " << str(s.w()));
      CHECK(byWinograd(kernel, s) == available());
    }
}

TEST_CASE("other convolutions are not") {
  for (const std::string kernel : kKernels)
    for (const auto &[why, s] :
         std::vector<std::pair<const char *, Convolution>>{{"few tiles", {.n = 1}},
                                                           {"few channels", {.c = 16}},
                                                           {"few results", {.f = 16}},
                                                           {"stride", {.n = 8, .stride = 2}},
                                                           {"window", {.kernel = 5, .pad = 2}},
                                                           {"dilation", {.pad = 2, .dilation = 2}},
                                                           {"groups", {.f = 32, .groups = 32}},
                                                           {"16 bits", {.type = plan::BF16}},
                                                           {"a reproducible plan", {.leaves = 2}}}) {
      INFO(kernel << ": " << why);
      CHECK_FALSE(byWinograd(kernel, s));
    }
}

TEST_CASE("weights that stay are transformed once, which pays for smaller images") {
  CHECK(byWinograd("conv", {.n = 1, .parameter = true}) == available());
  CHECK(byWinograd("conv", {.n = 1, .c = 64, .f = 64, .height = 14, .width = 14, .parameter = true}) == available());
  CHECK_FALSE(byWinograd("conv", {.n = 1, .height = 8, .width = 8, .parameter = true}));
}

TEST_CASE("Winograd's algorithm is not taken where it needs much memory") {
  const Convolution s{.n = 32, .c = 512, .f = 512, .height = 8, .width = 8};
  CHECK_FALSE(byWinograd("conv_weight_grad", s));
}
