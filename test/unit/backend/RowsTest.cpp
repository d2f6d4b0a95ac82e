// Kernels that read some rows of a tensor where they lie (plan.proto, Buffer.alias_of_plus_one) instead of a copy.
#include "test/conformance/backend/PlanBuilder.h"

#include <catch2/catch.hpp>
#include <cstring>

using namespace tessera;
using namespace tessera::rt;
using namespace tessera::rt::test;

namespace {

Values numbers(int64_t n, int64_t seed) {
  Values values;
  for (int64_t i = 0; i < n; ++i)
    values.push_back(double((i * 7919 + seed * 104729) % 1009 - 504) / 256);
  return values;
}

bool sameBits(const Values &a, const Values &b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

/// Rows [first, first + count) of a buffer, in place or as a copy.
uint32_t part(PlanBuilder &p, uint32_t of, int64_t first, int64_t count, bool inPlace) {
  if (inPlace)
    return p.rows(of, first, count);
  Shape shape = p.shapeOf(of), starts(shape.size(), 0);
  starts[0] = first;
  shape[0] = count;
  const uint32_t copy = p.buffer(plan::F32, shape);
  Shape limits = shape;
  limits[0] = first + count;
  p.kernel("slice", {of}, {copy}, {{"starts", starts}, {"limits", limits}, {"strides", Shape(shape.size(), 1)}});
  return copy;
}

const Attributes kWindow = {
    {"strides", Shape{1, 1}}, {"pads", Shape{1, 1, 1, 1}}, {"dilations", Shape{1, 1}}, {"groups", int64_t(1)}};

/// Gradients of a convolution's weights by the batch's quarters, and a sum of the weights' rows in halves.
std::vector<Values> quarters(const std::string &backend, bool inPlace, int64_t channels,
                             std::vector<std::string> &descriptions) {
  PlanBuilder p;
  const Shape image{8, channels, 8, 8}, weight{channels, channels, 3, 3};
  const uint32_t x = p.buffer(plan::F32, image), w = p.buffer(plan::F32, weight), y = p.buffer(plan::F32, image);
  p.kernel("conv", {x, w}, {y}, kWindow);
  Attributes a = kWindow;
  a["kernel_sizes"] = Shape{3, 3};
  std::vector<uint32_t> wanted = {y};
  for (int64_t q = 0; q < 4; ++q) {
    wanted.push_back(p.buffer(plan::F32, weight));
    const uint32_t xs = part(p, x, 2 * q, 2, inPlace), ys = part(p, y, 2 * q, 2, inPlace);
    p.kernel("conv_weight_grad", {xs, ys}, {wanted.back()}, a);
  }
  for (int64_t h = 0; h < 2; ++h) {
    wanted.push_back(p.buffer(plan::F32, {channels / 2, channels}));
    p.kernel("reduce_sum", {part(p, w, channels / 2 * h, channels / 2, inPlace)}, {wanted.back()},
             {{"dims", Shape{2, 3}}, {"keepdims", int64_t(0)}});
  }
  return p.run(backend, {{x, numbers(elementCount(image), 1)}, {w, numbers(elementCount(weight), 2)}}, wanted, {},
               &descriptions);
}

} // namespace

TEST_CASE("rows that are read in place are those of a copy, in every layout") {
  // Halves of 32, 16 and 48 output channels: whole blocks, whole blocks of 8 only, blocks that are cut.
  for (int64_t channels : {64, 16, 48, 24, 8})
    for (const char *backend : {"reference", "cpu"}) {
      std::vector<std::string> inPlace, copied;
      const std::vector<Values> a = quarters(backend, true, channels, inPlace),
                                b = quarters(backend, false, channels, copied);
      INFO(backend << ", " << channels << " channels");
      for (size_t r = 0; r < a.size(); ++r)
        CHECK(sameBits(a[r], b[r]));
    }
}

TEST_CASE("quarters of a batch keep the layout of convolutions") {
  std::vector<std::string> by;
  quarters("cpu", true, 64, by);
  for (size_t s = 0; s < by.size(); ++s) {
    INFO(by[s]);
    CHECK(by[s].find("slice") == std::string::npos);
    if (s < 5 && by[0].find("jit") != std::string::npos)
      CHECK(by[s].find("reorders") == by[0].find("reorders")); // only weights, if any
  }
}
