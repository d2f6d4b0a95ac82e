// Gradients of convolutions' weights in BF16, with channels that can lie last, against the reference. Numbers are small
// integers, so that sums are exact in any order.
#include "runtime/backend/cpu/InstructionSet.h"
#include "runtime/backend/cpu/OneDnnVersion.h"
#include "test/conformance/backend/PlanBuilder.h"

#include <catch2/catch.hpp>
#include <random>

using namespace tessera;
using namespace tessera::rt;
using namespace tessera::rt::test;

namespace {

struct Sizes {
  int64_t n, c, f;
  Shape image, kernel;
  int64_t stride, pad, dilation;
  const char *product; // of AMX: "product" of x as it lies, "windows" that are copied
};

const Sizes kSizes[] = {
    {3, 32, 48, {5, 7}, {1, 1}, 1, 0, 1, "product"},       // rows of images are those of the operands
    {2, 32, 16, {9, 8}, {1, 1}, 2, 0, 1, "windows"},       // every other point
    {2, 16, 32, {6, 5}, {3, 3}, 1, 1, 1, "windows"},       // borders
    {2, 16, 32, {6, 5}, {3, 2}, 1, 0, 1, "windows"},       // no borders, even kernel
    {2, 48, 16, {11, 9}, {3, 3}, 2, 1, 1, "windows"},      // strides
    {1, 16, 16, {9, 9}, {3, 3}, 1, 2, 2, "windows"},       // dilation
    {3, 64, 32, {64, 9}, {5, 5}, 1, 2, 1, "windows"},      // several blocks of lines, the last one shorter
    {2, 256, 64, {32, 8}, {3, 3}, 1, 1, 1, "windows"},     // two whole blocks
    {1, 16, 16, {5, 4, 6}, {3, 3, 3}, 1, 1, 1, "windows"}, // three dimensions
    {8, 32, 16, {40}, {4}, 3, 2, 1, "windows"},            // one
};

Values integers(int64_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  Values values(static_cast<size_t>(n));
  for (double &v : values)
    v = double(random() % 5) - 2;
  return values;
}

} // namespace

TEST_CASE("gradients of weights of channels that lie last") {
  for (const Sizes &s : kSizes)
    for (int threads : {1, 2}) {
      const size_t d = s.image.size();
      Shape x{s.n, s.c}, dy{s.n, s.f}, dw{s.f, s.c};
      for (size_t i = 0; i < d; ++i) {
        x.push_back(s.image[i]);
        dy.push_back((s.image[i] + 2 * s.pad - s.dilation * (s.kernel[i] - 1) - 1) / s.stride + 1);
        dw.push_back(s.kernel[i]);
      }
      PlanBuilder b;
      const uint32_t image = b.buffer(plan::BF16, x), gradient = b.buffer(plan::BF16, dy),
                     sums = b.buffer(plan::BF16, dw);
      b.kernel("conv_weight_grad", {image, gradient}, {sums},
               {{"strides", Shape(d, s.stride)},
                {"pads", Shape(2 * d, s.pad)},
                {"dilations", Shape(d, s.dilation)},
                {"groups", int64_t(1)},
                {"kernel_sizes", s.kernel}});
      const std::map<uint32_t, Values> inputs = {{image, integers(elementCount(x), 1)},
                                                 {gradient, integers(elementCount(dy), 2)}};
      LoadOptions options;
      options.threads = threads;
      std::vector<std::string> by;
      const Values got = b.run("cpu", inputs, {sums}, options, &by)[0];
      INFO(s.image.size() << " dimensions, " << s.c << " to " << s.f << " channels, " << threads << " threads, "
                          << by[0]);
      CHECK(got == b.run("reference", inputs, {sums})[0]);
      // Version 3 has gradients by AMX of its own, and takes no AMX for some products.
      if (multipliesTiles() && dnnlVersion() < DnnlVersion{3, 0, 0})
        CHECK(by[0].find(s.product) != std::string::npos);
    }
}
