// Convolutions of few channels, and the gradients of their filters, are products of unfolded windows: which ones, and
// what they make. Values of other shapes are those of the conformance suite.
#include "runtime/backend/ResolvedPlan.h"
#include "runtime/backend/cuda/bind/ChannelsLast.h"
#include "runtime/backend/cuda/bind/CudaKernel.h"
#include "test/conformance/backend/PlanBuilder.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

using namespace tessera::rt;
using namespace tessera::rt::test;
using namespace tessera::rt::cuda;
using Catch::Contains;
namespace plan = tessera::plan;

namespace {

const char *kUnfolded = "windows unfolded";

struct Image {
  plan::DType type = plan::BF16, result = plan::F32;
  Shape x, kernel, strides, pads, dilations = Shape(kernel.size(), 1);
  int64_t filters = 8, groups = 1;

  Shape w() const {
    Shape sizes = {filters, x[1] / groups};
    sizes.insert(sizes.end(), kernel.begin(), kernel.end());
    return sizes;
  }
  Shape y() const {
    Shape sizes = {x[0], filters};
    for (size_t d = 0; d < kernel.size(); ++d)
      sizes.push_back((x[d + 2] + pads[d] + pads[kernel.size() + d] - dilations[d] * (kernel[d] - 1) - 1) / strides[d] +
                      1);
    return sizes;
  }
};

/// A forward convolution and the gradient of its filters.
struct Both {
  PlanBuilder p;
  uint32_t x, w, y, dy, dw;

  explicit Both(const Image &c)
      : x(p.buffer(c.type, c.x)), w(p.buffer(c.type, c.w())), y(p.buffer(c.result, c.y())), dy(p.buffer(c.type, c.y())),
        dw(p.buffer(c.result, c.w())) {
    Attributes a = {{"strides", c.strides}, {"pads", c.pads}, {"dilations", c.dilations}, {"groups", c.groups}};
    if (c.type != c.result)
      a["wide"] = int64_t(1);
    p.kernel("conv", {x, w}, {y}, a);
    a["kernel_sizes"] = c.kernel;
    p.kernel("conv_weight_grad", {x, dy}, {dw}, a);
  }

  /// The first choice for a step, on tensors with channels last.
  CudaKernel bound(size_t step) {
    auto calls = resolveCalls(p.plan(), {});
    REQUIRE(calls.ok());
    KernelCall call = (*calls)[0][step];
    for (std::vector<TensorView> *views : {&call.inputs, &call.outputs})
      for (TensorView &view : *views)
        view.layout = channelsLastLayout(view.shape);
    Result<std::vector<CudaKernel>> choices = bindCuda(call, {});
    REQUIRE(choices.ok());
    REQUIRE(!choices->empty());
    return choices->front();
  }
};

/// Quarters up to 2: no sum of their products is rounded in F32.
Values quarters(int64_t n, uint32_t seed) {
  std::mt19937 random(seed);
  Values values;
  for (int64_t i = 0; i < n; ++i)
    values.push_back(double(int(random() % 17) - 8) / 4);
  return values;
}

/// What both steps run as. Their results were compared with the reference backend's before.
std::vector<std::string> run(const Image &c) {
  Both both(c);
  const std::map<uint32_t, Values> inputs = {{both.x, quarters(elementCount(c.x), 1)},
                                             {both.w, quarters(elementCount(c.w()), 2)},
                                             {both.dy, quarters(elementCount(c.y()), 3)}};
  std::vector<std::string> kernels;
  const std::vector<Values> found = both.p.run("cuda", inputs, {both.y, both.dw}, {}, &kernels),
                            expected = both.p.run("reference", inputs, {both.y, both.dw});
  // Results of 16 bits are rounded once.
  const double tolerance = c.result == plan::F32 ? 0 : c.result == plan::F16 ? 0x1p-10 : 0x1p-7;
  for (size_t o : {0, 1}) {
    size_t wrong = 0;
    REQUIRE(found[o].size() == expected[o].size());
    for (size_t i = 0; i < found[o].size(); ++i)
      wrong += !(std::abs(found[o][i] - expected[o][i]) <= tolerance * std::abs(expected[o][i]));
    INFO(kernels[o]);
    CHECK(wrong == 0);
  }
  return kernels;
}

} // namespace

TEST_CASE("convolutions of few channels are products of unfolded windows") {
  const Image images[] = {
      {plan::BF16, plan::F32, {2, 3, 93, 96}, {7, 7}, {2, 2}, {3, 3, 3, 3}, {1, 1}, 104},
      {plan::F16, plan::F16, {2, 3, 93, 96}, {7, 7}, {2, 2}, {2, 3, 3, 2}, {1, 1}, 104},
      // Filters that lie as rows of the matrix do, which are not copied.
      {plan::BF16, plan::BF16, {2, 4, 70, 75}, {3, 4}, {1, 1}, {1, 2, 0, 1}, {1, 1}, 136},
      // Of one channel; steps of several points within a window; windows that lie outside of the image.
      {plan::F16, plan::F16, {2, 1, 91, 120}, {5, 3}, {1, 2}, {9, 1, 9, 8}, {2, 3}, 480},
      {plan::BF16, plan::F32, {2, 2, 21, 22, 24}, {3, 2, 3}, {1, 1, 2}, {0, 1, 1, 2, 1, 0}, {2, 1, 2}, 200},
      {plan::BF16, plan::F32, {2, 3, 16384}, {9}, {2}, {4, 4}, {1}, 160},
  };
  for (const Image &image : images) {
    INFO(str(image.x));
    const std::vector<std::string> kernels = run(image);
    for (const std::string &kernel : kernels)
      CHECK_THAT(kernel, Contains(kUnfolded));
  }
}

TEST_CASE("a matrix of unfolded windows is made in parts") {
  // 7, 7 and 6 images: sums of the last part have their own number of points.
  const Image image = {plan::BF16, plan::F32, {20, 3, 224, 224}, {7, 7}, {2, 2}, {3, 3, 3, 3}, {1, 1}, 4};
  for (const std::string &kernel : run(image))
    CHECK_THAT(kernel, Contains(kUnfolded));
  Both both(image);
  for (const size_t step : {0, 1}) {
    const CudaKernel kernel = both.bound(step);
    std::vector<TesseraMatMul> products;
    for (const Action &action : kernel.actions)
      if (const auto *product = std::get_if<LibraryMatMul>(&action))
        products.push_back(product->what);
    REQUIRE(products.size() == 3);
    for (size_t i = 0; i < products.size(); ++i) {
      const int64_t points = (i == 2 ? 6 : 7) * 112 * 112;
      CHECK((step == 0 ? products[i].m : products[i].k * products[i].batch) == points);
      CHECK(products[i].accumulate == (step == 1 && i == 1));
      CHECK(products[i].alignment >= 8);
    }
    CHECK(kernel.scratch < uint64_t(40) << 20);
  }
}

TEST_CASE("other convolutions are not unfolded") {
  const Image stem = {plan::BF16, plan::F32, {128, 3, 224, 224}, {7, 7}, {2, 2}, {3, 3, 3, 3}, {1, 1}, 64};
  auto unfolded = [](const Image &c) {
    Both both(c);
    const std::string forward = both.bound(0).description, gradient = both.bound(1).description;
    CHECK((forward.find(kUnfolded) == std::string::npos) == (gradient.find(kUnfolded) == std::string::npos));
    return forward.find(kUnfolded) != std::string::npos;
  };
  CHECK(unfolded(stem));
  Image more = stem, groups = stem, small = stem, single = stem, huge = stem;
  more.x[1] = 5; // most of what cuDNN multiplies is no zero
  CHECK_FALSE(unfolded(more));
  groups.x[1] = 4;
  groups.groups = 2;
  CHECK_FALSE(unfolded(groups));
  small.x = {1, 3, 28, 28}; // the launches would take longer than cuDNN
  CHECK_FALSE(unfolded(small));
  single.type = plan::F32;
  CHECK_FALSE(unfolded(single));
  huge.x = {1, 3, 8192, 8192}; // one image takes more scratch memory than is wanted
  CHECK_FALSE(unfolded(huge));
}
