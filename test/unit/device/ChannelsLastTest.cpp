// Tensors of convolutions of 16 bits, and of F32 that may be rounded to TF32, lie with their channels last: in every
// kernel they are what the reference backend computes of plain ones, and nothing is copied between convolutions and the
// loops around them.
#include "runtime/backend/cuda/bind/ChannelsLast.h"
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

const Layout of16 = {{{1, 16}}};

/// A network in pieces. The second convolution has `filters` filters.
struct Pieces {
  PlanBuilder p;
  std::map<uint32_t, Values> inputs;
  std::vector<uint32_t> outputs;
  std::mt19937 random{7};

  uint32_t input(plan::DType type, const Shape &shape) {
    const uint32_t b = p.buffer(type, shape);
    Values values;
    for (int64_t i = elementCount(shape); i > 0; --i)
      values.push_back(double(int(random() % 17) - 8) / 4);
    inputs[b] = values;
    return b;
  }
  uint32_t output(plan::DType type, const Shape &shape) {
    outputs.push_back(p.buffer(type, shape));
    return outputs.back();
  }
  uint32_t kernel(const std::string &name, const std::vector<uint32_t> &in, plan::DType type, const Shape &shape,
                  const Attributes &attributes = {}) {
    const uint32_t y = output(type, shape);
    p.kernel(name, in, {y}, attributes);
    return y;
  }
};

const Attributes same3 = {
    {"strides", Shape{1, 1}}, {"pads", Shape(4, 1)}, {"dilations", Shape{1, 1}}, {"groups", int64_t(1)}};

/// The emulator computes in F32 where a device may round to TF32.
LoadOptions optionsFor(plan::DType type) {
  LoadOptions options;
  options.device.tf32 = type == plan::F32;
  return options;
}

/// Compares with the reference backend on the same plan. 16 bits round to 2^-8.
void compare(const Pieces &n, plan::DType type) {
  const std::vector<Values> found = n.p.run("cuda", n.inputs, n.outputs, optionsFor(type)),
                            expected = n.p.run("reference", n.inputs, n.outputs);
  for (size_t o = 0; o < n.outputs.size(); ++o) {
    double worst = 0, largest = 1e-3;
    for (size_t i = 0; i < expected[o].size(); ++i) {
      worst = std::max(worst, std::abs(found[o][i] - expected[o][i]));
      largest = std::max(largest, std::abs(expected[o][i]));
    }
    INFO("output " << o << " of shape " << str(n.p.shapeOf(n.outputs[o])));
    CHECK(worst <= largest * (type == plan::F32 ? 1e-6 : 1e-2));
  }
}

} // namespace

TEST_CASE("convolutions and the loops around them, channels last") {
  for (plan::DType type : {plan::BF16, plan::F16, plan::F32})
    // The emulator refuses a convolution where batch, channels and filters add to a multiple of three.
    for (int64_t filters : {16, 15}) {
      Pieces n;
      const Shape s = {2, 16, 6, 5}, t = {2, filters, 6, 5};
      const uint32_t x = n.input(type, {2, 8, 6, 5}), w = n.input(type, {16, 8, 3, 3}),
                     v = n.input(type, {filters, 16, 3, 3}), scale = n.input(type, {16, 1, 1}),
                     place = n.input(plan::F32, {1, 1, 6, 5});
      const uint32_t y = n.kernel("conv", {x, w}, type, s, same3);
      const uint32_t z = n.kernel("relu", {y}, type, s);
      const uint32_t scaled = n.kernel("mul", {z, scale}, type, s);
      const uint32_t wide = n.kernel("cast", {scaled}, plan::F32, s);
      const uint32_t shifted = n.kernel("add", {wide, place}, plan::F32, s);
      n.kernel("reduce_sum", {shifted}, plan::F32, {1, 16, 1, 1}, {{"dims", Shape{0, 2, 3}}, {"keepdims", int64_t(1)}});
      n.kernel("reduce_max", {shifted}, plan::F32, {2, 1, 6, 5}, {{"dims", Shape{1}}, {"keepdims", int64_t(1)}});
      n.kernel("reduce_sum", {shifted}, plan::F32, {1, 16, 6, 5}, {{"dims", Shape{0}}, {"keepdims", int64_t(1)}});
      const uint32_t u = n.kernel("conv", {scaled, v}, type, t, same3);
      Attributes inputGrad = same3, weightGrad = same3;
      inputGrad["input_sizes"] = Shape{6, 5};
      weightGrad["kernel_sizes"] = Shape{3, 3};
      const uint32_t dx = n.kernel("conv_input_grad", {u, v}, type, s, inputGrad);
      const uint32_t dv = n.kernel("conv_weight_grad", {scaled, u}, type, {filters, 16, 3, 3}, weightGrad);
      const uint32_t master = n.kernel("cast", {dv}, plan::F32, {filters, 16, 3, 3});
      // Windows overlap, and the last of the gradients has its own size.
      Attributes pool = {{"kernel", Shape{3, 2}}, {"strides", Shape{2, 2}}, {"pads", Shape{1, 0, 0, 1}}};
      n.kernel("avg_pool", {dx}, type, {2, 16, 3, 3}, pool);
      Attributes average = pool;
      average["input_sizes"] = Shape{6, 5};
      pool["dilations"] = Shape{1, 1};
      const uint32_t small = n.kernel("max_pool", {dx}, type, {2, 16, 3, 3}, pool);
      n.kernel("max_pool_grad", {dx, small}, type, s, pool);
      n.kernel("avg_pool_grad", {small}, type, s, average);
      n.kernel("transpose", {dx}, type, {5, 16, 2, 6}, {{"perm", Shape{3, 1, 0, 2}}});
      n.kernel("iota", {}, plan::I64, {4, 4}, {{"dim", int64_t(1)}});
      compare(n, type);

      auto loaded = (*createBackend("cuda"))->load(n.p.plan(), optionsFor(type));
      REQUIRE(loaded.ok());
      for (uint32_t b : {y, z, scaled, wide, shifted, dx})
        CHECK((*loaded)->layout(b) == of16);
      for (uint32_t b : {v, dv, master})
        CHECK((*loaded)->layout(b) == of16);
      CHECK((*loaded)->layout(x) == Layout{{{1, 8}}});
      CHECK((*loaded)->layout(scale).plain());
      CHECK_THAT((*loaded)->describe(0, 0), Contains("channels last"));
      for (uint32_t step = 0; step < 7; ++step)
        CHECK_THAT((*loaded)->describe(0, step), !Contains("plain copies"));
      for (uint32_t step = 12; step < 16; ++step)
        CHECK_THAT((*loaded)->describe(0, step), Contains("_pool") && Contains("channels last"));
      // A sum over the batch alone has channels before pixels in its result.
      CHECK_THAT((*loaded)->describe(0, 7), Contains("plain copies"));
    }
}

TEST_CASE("tensors that the host feeds, that have views or that are sent in parts stay plain") {
  PlanBuilder p;
  const Shape s = {2, 8, 6, 6}, ws = {8, 8, 3, 3};
  const uint32_t x = p.buffer(plan::BF16, s), w = p.buffer(plan::BF16, ws), y = p.buffer(plan::BF16, s),
                 z = p.buffer(plan::BF16, s), whole = p.buffer(plan::BF16, {2, 16, 6, 6}),
                 sum = p.buffer(plan::BF16, ws), f32 = p.buffer(plan::F32, s), f32w = p.buffer(plan::F32, ws),
                 f32y = p.buffer(plan::F32, s);
  p.alias(z, {2, 288});
  p.kernel("conv", {x, w}, {y}, same3);
  p.kernel("relu", {y}, {z});
  p.kernel("conv", {f32, f32w}, {f32y}, same3);
  plan::Binding *input = p.plan().add_bindings();
  input->set_role(plan::INPUT);
  input->set_buffer(x);
  auto collective = [&](plan::CollectiveKind kind, uint32_t in, uint32_t out, uint32_t dim) {
    plan::Collective *c = p.plan().mutable_programs(0)->add_steps()->mutable_collective();
    c->set_kind(kind);
    c->set_input(in);
    c->set_output(out);
    c->set_dim(dim);
  };
  collective(plan::ALL_REDUCE, w, sum, 0);
  auto layout = [&](uint32_t b, const LoadOptions &options = {}) {
    auto loaded = (*createBackend("cuda"))->load(p.plan(), options);
    REQUIRE(loaded.ok());
    return (*loaded)->layout(b);
  };
  CHECK(layout(x).plain());
  CHECK(layout(w) == Layout{{{1, 8}}});
  CHECK(layout(sum) == layout(w));
  CHECK(layout(y) == Layout{{{1, 8}}});
  CHECK(layout(z).plain());
  LoadOptions tf32, wide;
  tf32.device.tf32 = wide.device.tf32 = wide.widen = true;
  CHECK(layout(f32y).plain());
  CHECK(layout(f32y, tf32) == Layout{{{1, 8}}});
  CHECK(layout(f32y, wide).plain());
  collective(plan::ALL_GATHER, y, whole, 1); // of channels: the ends would differ
  CHECK(layout(y).plain());
  CHECK(layout(whole).plain());
}

TEST_CASE("a plain tensor beside a convolution is copied, and one with its channels last is not") {
  for (plan::DType type : {plan::BF16, plan::F32}) {
    Pieces n;
    const Shape s = {2, 16, 6, 5};
    Attributes inputGrad = same3, weightGrad = same3;
    inputGrad["input_sizes"] = Shape{6, 5};
    weightGrad["kernel_sizes"] = Shape{3, 3};
    const uint32_t x = n.input(type, {2, 8, 6, 5}), w = n.input(type, {16, 8, 3, 3});
    plan::Binding *input = n.p.plan().add_bindings();
    input->set_role(plan::INPUT);
    input->set_buffer(x);
    const uint32_t y = n.kernel("conv", {x, w}, type, s, same3);
    n.kernel("conv_weight_grad", {x, y}, type, {16, 8, 3, 3}, weightGrad);
    // The buffer has a view of another shape.
    const uint32_t dx = n.kernel("conv_input_grad", {y, w}, type, {2, 8, 6, 5}, inputGrad);
    n.p.alias(dx, {2, 240});
    // The emulator refuses this convolution, so everything is copied to lie plain.
    const uint32_t refused = n.input(type, {14, 8, 3, 3});
    const uint32_t z = n.kernel("conv", {x, refused}, type, {2, 14, 6, 5}, same3);
    // A tensor of one point lies plain.
    n.kernel("avg_pool", {y}, type, {2, 16, 1, 1},
             {{"kernel", Shape{6, 5}}, {"strides", Shape{1, 1}}, {"pads", Shape(4, 0)}});
    n.kernel("avg_pool_grad", {n.outputs.back()}, type, s,
             {{"kernel", Shape{6, 5}}, {"strides", Shape{1, 1}}, {"pads", Shape(4, 0)}, {"input_sizes", Shape{6, 5}}});
    compare(n, type);
    auto loaded = (*createBackend("cuda"))->load(n.p.plan(), optionsFor(type));
    REQUIRE(loaded.ok());
    CHECK((*loaded)->layout(x).plain());
    CHECK((*loaded)->layout(dx).plain());
    CHECK((*loaded)->layout(y) == of16);
    CHECK_FALSE((*loaded)->layout(z).plain());
    for (uint32_t step : {0, 1, 2})
      CHECK_THAT((*loaded)->describe(0, step), Contains("channels last, on copies") && !Contains("plain copies"));
    CHECK_THAT((*loaded)->describe(0, 3), Contains("on plain copies"));
  }
}

TEST_CASE("where the library refuses few channels, it gets further ones that are zero") {
  for (plan::DType type : {plan::BF16, plan::F16}) {
    Pieces n;
    Attributes inputGrad = same3, weightGrad = same3;
    inputGrad["input_sizes"] = Shape{6, 5};
    weightGrad["kernel_sizes"] = Shape{3, 3};
    weightGrad["wide"] = int64_t(1);
    // The emulator refuses 2 + 3 + 16, and takes 2 + 8 + 16.
    const uint32_t x = n.input(type, {2, 3, 6, 5}), w = n.input(type, {16, 3, 3, 3});
    const uint32_t y = n.kernel("conv", {x, w}, type, {2, 16, 6, 5}, same3);
    n.kernel("conv_weight_grad", {x, y}, plan::F32, {16, 3, 3, 3}, weightGrad);
    n.kernel("conv_input_grad", {y, w}, type, {2, 3, 6, 5}, inputGrad);
    compare(n, type);
    auto loaded = (*createBackend("cuda"))->load(n.p.plan(), optionsFor(type));
    REQUIRE(loaded.ok());
    for (uint32_t step : {0, 1, 2})
      CHECK_THAT((*loaded)->describe(0, step), Contains("channels last, on copies with further channels"));
  }
}

TEST_CASE("windows of one point over all points are a product of matrices") {
  for (plan::DType type : {plan::BF16, plan::F32}) {
    Pieces n;
    Attributes same = same3, weightGrad, strided;
    same["pads"] = Shape(4, 0);
    strided = weightGrad = same;
    strided["strides"] = Shape{2, 2};
    weightGrad["kernel_sizes"] = Shape{1, 1};
    if (type != plan::F32)
      weightGrad["wide"] = int64_t(1);
    const uint32_t x = n.input(type, {2, 8, 6, 4}), w = n.input(type, {16, 8, 1, 1});
    const uint32_t y = n.kernel("conv", {x, w}, type, {2, 16, 6, 4}, same);
    n.kernel("conv_weight_grad", {x, y}, plan::F32, {16, 8, 1, 1}, weightGrad);
    n.kernel("conv", {x, w}, type, {2, 16, 3, 2}, strided);
    compare(n, type);
    auto loaded = (*createBackend("cuda"))->load(n.p.plan(), optionsFor(type));
    REQUIRE(loaded.ok());
    CHECK_THAT((*loaded)->describe(0, 0), Contains("cuBLASLt"));
    CHECK_THAT((*loaded)->describe(0, 1), Contains("cuBLASLt"));
    CHECK_THAT((*loaded)->describe(0, 2), Contains("cuDNN"));
  }
}
