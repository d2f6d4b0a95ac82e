// How pooling is generated. The values of random shapes are those of the conformance suite.
#include "runtime/backend/ResolvedPlan.h"
#include "runtime/backend/cuda/bind/ChannelsLast.h"
#include "runtime/backend/cuda/bind/CudaKernel.h"
#include "test/conformance/backend/PlanBuilder.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

using namespace tessera::rt;
using namespace tessera::rt::test;
using Catch::Contains;
namespace plan = tessera::plan;

namespace {

struct Windows {
  std::string name = "avg_pool"; // or max_pool; the forward operator
  plan::DType type = plan::F32;
  Shape x = {1, 4, 9, 6}, kernel = {3, 2}, strides = {2, 1}, pads = {1, 0, 1, 1};
  bool includePad = false;

  Shape y() const {
    Shape sizes = {x[0], x[1]};
    for (size_t d = 0; d < kernel.size(); ++d)
      sizes.push_back((x[d + 2] + pads[d] + pads[kernel.size() + d] - kernel[d]) / strides[d] + 1);
    return sizes;
  }
  Attributes attributes(bool gradient) const {
    Attributes a = {{"kernel", kernel}, {"strides", strides}, {"pads", pads}};
    if (name == "max_pool")
      a["dilations"] = Shape(kernel.size(), 1);
    else
      a["include_pad"] = int64_t(includePad);
    if (gradient && name == "avg_pool")
      a["input_sizes"] = Shape(x.begin() + 2, x.end());
    return a;
  }
};

/// The kernels that run it, forward and backward. Their results were compared with the reference backend's before.
std::vector<std::string> run(const Windows &w, const std::function<double(int64_t)> &element) {
  PlanBuilder p;
  const uint32_t x = p.buffer(w.type, w.x), y = p.buffer(w.type, w.y()), dy = p.buffer(w.type, w.y()),
                 dx = p.buffer(w.type, w.x);
  p.kernel(w.name, {x}, {y}, w.attributes(false));
  p.kernel(w.name + "_grad", w.name == "max_pool" ? std::vector<uint32_t>{x, dy} : std::vector<uint32_t>{dy}, {dx},
           w.attributes(true));
  std::map<uint32_t, Values> inputs;
  for (int64_t i = 0; i < elementCount(w.x); ++i)
    inputs[x].push_back(element(i));
  for (int64_t i = 0; i < elementCount(w.y()); ++i)
    inputs[dy].push_back(element(3 * i));
  std::vector<std::string> kernels;
  const std::vector<Values> found = p.run("cuda", inputs, {y, dx}, {}, &kernels),
                            expected = p.run("reference", inputs, {y, dx});
  const double tolerance = bytesPerElement(w.type) == 2 ? 0x1p-6 : 1e-5;
  for (size_t o : {0, 1})
    for (size_t i = 0; i < expected[o].size(); ++i) {
      const double e = expected[o][i], f = found[o][i];
      if (e == f || (std::isnan(e) && std::isnan(f)))
        continue;
      INFO(kernels[o] << ", element " << i << ": " << f << ", not " << e);
      REQUIRE(std::isfinite(e));
      REQUIRE(std::abs(e - f) <= tolerance * std::max(1.0, std::abs(e)));
    }
  return kernels;
}

double small(int64_t i) { return double(i * 7 % 11 - 5) / 4; }

} // namespace

TEST_CASE("maxima of neighbouring channels are found together where channels come last") {
  struct Case {
    plan::DType type;
    int64_t channels, together;
  };
  for (const Case &c : {Case{plan::BF16, 16, 8}, Case{plan::BF16, 12, 4}, Case{plan::F32, 16, 4}, Case{plan::F32, 6, 2},
                        Case{plan::BF16, 5, 1}}) {
    Windows w;
    w.name = "max_pool";
    w.x = {2, c.channels, 9, 6};
    PlanBuilder p;
    const uint32_t x = p.buffer(c.type, w.x), y = p.buffer(c.type, w.y()), dx = p.buffer(c.type, w.x);
    p.kernel("max_pool", {x}, {y}, w.attributes(false));
    p.kernel("max_pool_grad", {x, y}, {dx}, w.attributes(true));
    Result<std::vector<std::vector<KernelCall>>> calls = resolveCalls(p.plan(), {});
    REQUIRE(calls.ok());
    for (KernelCall &call : (*calls)[0]) {
      for (std::vector<TensorView> *views : {&call.inputs, &call.outputs})
        for (TensorView &view : *views)
          view.layout = channelsLastLayout(view.shape);
      const Result<std::vector<cuda::CudaKernel>> choices = cuda::bindCuda(call, {});
      REQUIRE(choices.ok());
      for (const cuda::Action &action : choices->front().actions)
        CHECK_THAT(std::get<cuda::Launch>(action).source,
                   Contains("#define SIDE " + std::to_string(c.together) + "\n"));
    }
  }
}

TEST_CASE("NaN and infinities stay in the windows that hold them") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (const char *name : {"avg_pool", "max_pool"})
    for (plan::DType type : {plan::F32, plan::BF16}) {
      Windows w;
      w.name = name;
      w.type = type;
      w.x = {1, 4, 16, 6};
      // Windows hold one such number, several of them, or only such numbers.
      run(w, [&](int64_t i) {
        const int64_t row = i / 6 % 16, column = i % 6;
        return row < 4    ? -inf
               : row == 6 ? (column == 1   ? nan
                             : column == 4 ? inf
                                           : -1)
               : row == 9 ? (column < 3 ? nan : -inf)
               : row > 12 ? inf
                          : small(i);
      });
    }
}
