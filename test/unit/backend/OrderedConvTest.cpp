// Convolutions of single points by ordered products, in every layout, against the definition.
#include "runtime/backend/cpu/product/OrderedConv.h"
#include "runtime/backend/KernelChecks.h"
#include "runtime/backend/cpu/product/OrderedWeightGrad.h"
#include "runtime/backend/cpu/product/ProductOps.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

using namespace tessera;
using namespace tessera::rt;

namespace {

/// A tensor [a, b, pixels...] whose first two dimensions may lie in blocks.
struct Tensor {
  Shape shape;
  Layout layout;
  std::vector<float> data;

  Tensor(Shape shape, Layout layout) : shape(std::move(shape)), layout(std::move(layout)), data(size_t(elements())) {}
  int64_t elements() const { return elementCount(shape); }
  TensorView view() { return {plan::F32, shape, layout, data.data()}; }

  float &at(int64_t a, int64_t b, int64_t pixel) {
    const int64_t pixels = elements() / (shape[0] * shape[1]);
    int64_t blockA = 1, blockB = 1;
    for (const auto &[dim, size] : layout.inner)
      (dim == 0 ? blockA : blockB) = size;
    // Outer dimensions first, then the blocks: of b, and of a.
    int64_t place = (a / blockA * (shape[1] / blockB) + b / blockB) * pixels + pixel;
    place = (place * blockB + b % blockB) * blockA + a % blockA;
    return data[size_t(place)];
  }
};

void fill(Tensor &t, uint32_t seed) {
  std::mt19937 random(seed);
  for (float &v : t.data)
    v = std::ldexp(float(int(random() % 20001) - 10000), int(random() % 7) - 16);
}

void setInts(plan::Kernel &kernel, const char *name, const Shape &values) {
  plan::Attribute *attribute = kernel.add_attributes();
  attribute->set_name(name);
  for (int64_t v : values)
    attribute->mutable_ints()->add_values(v);
}

struct Sizes {
  int64_t n, c, f, height, width, stride, block; // block: 1 is row-major
};

/// Attributes of a convolution of points.
void setConv(plan::Kernel &kernel, const std::string &name, const Sizes &s) {
  kernel.set_name(name);
  setInts(kernel, "dilations", {1, 1});
  plan::Attribute *groups = kernel.add_attributes();
  groups->set_name("groups");
  groups->set_i(1);
  if (name == "conv_input_grad")
    setInts(kernel, "input_sizes", {s.height, s.width});
  if (name == "conv_weight_grad")
    setInts(kernel, "kernel_sizes", {1, 1});
  setInts(kernel, "pads", {0, 0, 0, 0});
  setInts(kernel, "strides", {s.stride, s.stride});
}

const std::vector<Sizes> kSizes = {{2, 3, 5, 4, 5, 1, 1},    {2, 32, 48, 4, 5, 1, 16},   {3, 32, 16, 5, 7, 2, 16},
                                   {1, 16, 48, 6, 6, 3, 8},  {2, 40, 24, 3, 3, 1, 8},    {1, 640, 32, 6, 7, 1, 16},
                                   {2, 17, 33, 5, 5, 2, 1},  {40, 32, 416, 5, 5, 1, 16}, {3, 192, 160, 5, 5, 1, 16},
                                   {2, 144, 136, 3, 5, 1, 8}};

} // namespace

TEST_CASE("an ordered convolution of points has the bits of its definition, forward and backward", "[bits]") {
  for (const Sizes &s : kSizes)
    for (bool gradient : {false, true}) {
      const int64_t height = (s.height - 1) / s.stride + 1, width = (s.width - 1) / s.stride + 1;
      const Layout images = s.block == 1 ? Layout() : Layout{{{1, int(s.block)}}};
      const Layout both = s.block == 1 ? Layout() : Layout{{{1, int(s.block)}, {0, int(s.block)}}};
      Tensor x({s.n, s.c, s.height, s.width}, images), w({s.f, s.c, 1, 1}, both), y({s.n, s.f, height, width}, images);
      fill(x, 1);
      fill(w, 2);
      fill(y, 3);
      plan::Kernel kernel;
      setConv(kernel, gradient ? "conv_input_grad" : "conv", s);
      KernelCall call;
      call.kernel = &kernel;
      call.exact = true;
      call.inputs = {gradient ? y.view() : x.view(), w.view()};
      call.outputs = {gradient ? x.view() : y.view()};
      REQUIRE(convGeometry(call));

      Tensor &result = gradient ? x : y;
      Tensor wanted(result.shape, result.layout);
      for (int64_t n = 0; n < s.n; ++n)
        for (int64_t i = 0; i < height; ++i)
          for (int64_t j = 0; j < width; ++j)
            for (int64_t column = 0; column < result.shape[1]; ++column) {
              const int64_t small = i * width + j, large = i * s.stride * s.width + j * s.stride;
              float sum = 0;
              for (int64_t term = 0; term < (gradient ? s.f : s.c); ++term)
                sum = gradient ? std::fma(y.at(n, term, small), w.at(term, column, 0), sum)
                               : std::fma(x.at(n, term, large), w.at(column, term, 0), sum);
              wanted.at(n, column, gradient ? large : small) = sum;
            }
      for (const ProductOps *const *ops = allProductOps(); *ops; ++ops)
        for (int threads : {1, 3}) {
          call.threads = threads;
          const std::unique_ptr<BoundKernel> bound = bindOrderedConv(call, **ops);
          REQUIRE(bound);
          INFO(kernel.name() << ", " << bound->describe() << ", " << threads << " threads, " << str(x.shape) << " and "
                             << str(w.shape) << ", stride " << s.stride << ", blocks of " << s.block);
          std::fill(result.data.begin(), result.data.end(), NAN);
          std::vector<std::byte> memory(bound->scratchBytes() + 64);
          REQUIRE(bound->run(memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64)));
          CHECK(result.data == wanted.data);
        }
      fill(result, 4);
    }
}

TEST_CASE("an ordered gradient of the weights of points has the bits of its definition", "[bits]") {
  for (const Sizes &s : kSizes)
    for (bool blocked : {false, true}) // the filters; images as the sizes say
      for (bool plainX : {false, true}) {
        if (s.block == 1 && (blocked || plainX))
          continue;
        const int64_t height = (s.height - 1) / s.stride + 1, width = (s.width - 1) / s.stride + 1;
        const Layout images = s.block == 1 ? Layout() : Layout{{{1, int(s.block)}}};
        const Layout both = blocked ? Layout{{{1, int(s.block)}, {0, int(s.block)}}} : Layout();
        Tensor x({s.n, s.c, s.height, s.width}, plainX ? Layout() : images), dy({s.n, s.f, height, width}, images);
        Tensor dw({s.f, s.c, 1, 1}, both), wanted(dw.shape, dw.layout);
        fill(x, 1);
        fill(dy, 2);
        for (int64_t f = 0; f < s.f; ++f)
          for (int64_t c = 0; c < s.c; ++c)
            for (int64_t n = 0; n < s.n; ++n)
              for (int64_t i = 0; i < height; ++i)
                for (int64_t j = 0; j < width; ++j)
                  wanted.at(f, c, 0) = std::fma(x.at(n, c, i * s.stride * s.width + j * s.stride),
                                                dy.at(n, f, i * width + j), wanted.at(f, c, 0));
        plan::Kernel kernel;
        setConv(kernel, "conv_weight_grad", s);
        KernelCall call;
        call.kernel = &kernel;
        call.exact = true;
        call.inputs = {x.view(), dy.view()};
        call.outputs = {dw.view()};
        REQUIRE(convGeometry(call));
        for (const ProductOps *const *ops = allProductOps(); *ops; ++ops)
          for (int threads : {1, 3}) {
            call.threads = threads;
            const std::unique_ptr<BoundKernel> bound = bindOrderedWeightGrad(call, **ops);
            REQUIRE(bound);
            INFO(bound->describe() << ", " << threads << " threads, " << str(x.shape) << " and " << str(dy.shape)
                                   << ", stride " << s.stride << ", blocks of " << s.block << ", filters "
                                   << (blocked ? "in blocks" : "row-major") << (plainX ? ", x row-major" : ""));
            std::fill(dw.data.begin(), dw.data.end(), NAN);
            std::vector<std::byte> memory(bound->scratchBytes() + 64);
            REQUIRE(bound->run(memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64)));
            CHECK(dw.data == wanted.data);
          }
      }
}

TEST_CASE("an ordered convolution is one of points") {
  plan::Kernel kernel;
  kernel.set_name("conv");
  setInts(kernel, "dilations", {1, 1});
  plan::Attribute *groups = kernel.add_attributes();
  groups->set_name("groups");
  groups->set_i(1);
  setInts(kernel, "pads", {1, 1, 1, 1});
  setInts(kernel, "strides", {1, 1});
  KernelCall call;
  call.kernel = &kernel;
  for (int64_t extent : {1, 3}) { // padded points, and windows
    Tensor x({1, 16, 4, 4}, {}), w({16, 16, extent, extent}, {}), y({1, 16, 7 - extent, 7 - extent}, {});
    call.inputs = {x.view(), w.view()};
    call.outputs = {y.view()};
    REQUIRE(convGeometry(call));
    if (productOps())
      CHECK_FALSE(bindOrderedConv(call, *productOps()));
  }
}
