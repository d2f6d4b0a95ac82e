// matmul, conv and its gradients. Integer cases are exact: no sum exceeds 2^24. Real cases: F32 sums of up
// to 2,000 products in [-1, 1] differ from F64 by less than 1e-5 of the largest result.
#include "test/conformance/backend/Suite.h"

#include <catch2/catch.hpp>
#include <thread>

using namespace tessera;
using namespace tessera::rt;
using namespace tessera::rt::test;

namespace {

constexpr double kTolerance = 1e-5;

struct ConvShape {
  int64_t n, groups, c, f; // c, f per group
  Shape in, kernel, strides, pads, dilations;

  Shape out() const {
    Shape y;
    for (size_t d = 0; d < in.size(); ++d)
      y.push_back((in[d] + pads[d] + pads[in.size() + d] - dilations[d] * (kernel[d] - 1) - 1) / strides[d] + 1);
    return y;
  }
  bool possible() const {
    for (size_t d = 0; d < in.size(); ++d)
      if (in[d] + pads[d] + pads[in.size() + d] < dilations[d] * (kernel[d] - 1) + 1)
        return false;
    return true;
  }
};

Shape with(int64_t a, int64_t b, const Shape &rest) {
  Shape s = {a, b};
  s.insert(s.end(), rest.begin(), rest.end());
  return s;
}

/// Operands of 16 bits give F32, or what `result` says.
void checkConv(Random &random, const ConvShape &s, double tolerance, plan::DType type = plan::F32,
               plan::DType result = plan::F32) {
  Shape xs = with(s.n, s.groups * s.c, s.in), ws = with(s.groups * s.f, s.c, s.kernel);
  Shape ys = with(s.n, s.groups * s.f, s.out());
  Attributes a = {{"strides", s.strides}, {"pads", s.pads}, {"dilations", s.dilations}, {"groups", s.groups}};
  if (type != result)
    a["wide"] = int64_t(1);
  Attributes in = a, weight = a;
  in["input_sizes"] = s.in;
  weight["kernel_sizes"] = s.kernel;
  std::string what = "x " + str(xs) + " w " + str(ws) + " strides " + str(s.strides) + " pads " + str(s.pads) +
                     " dilations " + str(s.dilations) + " groups " + std::to_string(s.groups);
  for (const char *name : {"conv", "conv_input_grad", "conv_weight_grad"}) {
    Case c;
    c.tolerance = tolerance;
    c.what = std::string(name) + " of " + dtypeName(type) + " " + what;
    if (name == std::string("conv")) {
      uint32_t x = c.input(random, type, xs), w = c.input(random, type, ws);
      c.plan.kernel(name, {x, w}, {c.output(result, ys)}, a);
    } else if (name == std::string("conv_input_grad")) {
      uint32_t dy = c.input(random, type, ys), w = c.input(random, type, ws);
      c.plan.kernel(name, {dy, w}, {c.output(result, xs)}, in);
    } else {
      uint32_t x = c.input(random, type, xs), dy = c.input(random, type, ys);
      c.plan.kernel(name, {x, dy}, {c.output(result, ws)}, weight);
    }
    check(c);
  }
}

} // namespace

TEST_CASE("convolutions of random shapes", "[conformance]") {
  Random random(1);
  for (int i = 0; i < 150; ++i) {
    ConvShape s;
    size_t spatial = random.pick<size_t>({1, 2, 2, 2, 2, 3});
    s.n = random.integer(1, 3);
    s.groups = random.pick<int64_t>({1, 1, 1, 2, 16});
    s.c = s.groups == 16 ? random.pick<int64_t>({1, 1, 2}) : random.pick<int64_t>({1, 3, 5, 16, 32, 20});
    s.f = s.groups == 16 ? random.pick<int64_t>({1, 1, 2}) : random.pick<int64_t>({1, 2, 7, 16, 32, 48});
    for (size_t d = 0; d < spatial; ++d) {
      s.in.push_back(random.integer(1, spatial == 3 ? 6 : 12));
      s.kernel.push_back(random.pick<int64_t>({1, 1, 2, 3, 3, 5}));
      s.strides.push_back(random.pick<int64_t>({1, 1, 2, 3}));
      s.dilations.push_back(random.pick<int64_t>({1, 1, 1, 2}));
    }
    bool wide = random.integer(0, 9) == 0;
    for (size_t d = 0; d < 2 * spatial; ++d)
      s.pads.push_back(random.integer(0, wide ? 6 : s.kernel[d % spatial] / 2));
    if (s.possible()) {
      double tolerance = random.coin() ? 0 : kTolerance;
      const auto narrow = random.pick<plan::DType>({plan::F32, plan::F32, plan::BF16, plan::F16});
      checkConv(random, s, tolerance, tolerance == 0 ? narrow : plan::F32);
    }
  }
}

TEST_CASE("convolutions of residual networks", "[conformance]") {
  Random random(2);
  auto square = [&](int64_t c, int64_t f, int64_t size, int64_t kernel, int64_t stride) {
    int64_t pad = kernel / 2;
    checkConv(random, {2, 1, c, f, {size, size}, {kernel, kernel}, {stride, stride}, {pad, pad, pad, pad}, {1, 1}},
              kTolerance);
  };
  square(3, 64, 16, 3, 1);
  square(64, 64, 8, 3, 1);
  square(64, 256, 8, 1, 1);
  square(256, 64, 8, 1, 1);
  square(128, 128, 8, 3, 2);
  square(64, 128, 9, 1, 2);
  square(512, 32, 4, 1, 1);
  square(3, 64, 21, 7, 2);
}

TEST_CASE("convolutions of images with few channels", "[conformance]") {
  Random random(20);
  // Large enough that a backend may do them in another way than small ones. Results of 16 bits are rounded once.
  constexpr double kHalf = 1.0 / 128;
  checkConv(random, {3, 1, 3, 64, {111, 110}, {7, 7}, {2, 2}, {3, 3, 3, 3}, {1, 1}}, 0, plan::BF16);
  checkConv(random, {2, 1, 1, 304, {113, 70}, {5, 3}, {1, 1}, {0, 2, 3, 1}, {2, 1}}, kHalf, plan::F16, plan::F16);
  checkConv(random, {2, 1, 4, 112, {60, 91}, {4, 4}, {1, 1}, {1, 0, 2, 3}, {1, 3}}, kHalf, plan::BF16, plan::BF16);
  checkConv(random, {2, 1, 2, 105, {14, 25, 31}, {3, 3, 3}, {1, 2, 1}, {2, 1, 0, 1, 1, 4}, {1, 1, 2}}, 0, plan::F16);
}

TEST_CASE("paddings as localisation makes them", "[conformance]") {
  Random random(3);
  // Paddings that are wider than the kernel, negative or on one side.
  checkConv(random, {1, 1, 16, 16, {6, 6}, {3, 3}, {1, 1}, {4, 5, 3, 7}, {1, 1}}, 0);
  checkConv(random, {1, 1, 16, 16, {7, 7}, {3, 3}, {2, 2}, {-1, 0, 0, -2}, {1, 1}}, 0);
  checkConv(random, {2, 1, 4, 4, {7, 7}, {1, 1}, {1, 1}, {2, 2, 2, 2}, {1, 1}}, 0);
  checkConv(random, {2, 1, 16, 32, {4, 8}, {3, 3}, {2, 2}, {0, 1, 1, 0}, {1, 1}}, 0);
}

TEST_CASE("matrix products", "[conformance]") {
  Random random(4);
  for (int i = 0; i < 120; ++i) {
    Case c;
    c.tolerance = random.coin() ? 0 : kTolerance;
    plan::DType type = c.tolerance > 0 || random.coin() ? plan::F32 : plan::I64;
    // Integers of that size are numbers of 16 bits, and their sums F32 numbers.
    bool wide = c.tolerance == 0 && random.integer(0, 2) == 0;
    if (wide)
      type = random.coin() ? plan::BF16 : plan::F16;
    int64_t m = random.pick<int64_t>({1, 2, 17, 32, 65}), n = random.pick<int64_t>({1, 3, 16, 50});
    int64_t k = random.pick<int64_t>({1, 5, 16, 33, 256});
    bool ta = random.coin(), tb = random.coin();
    Shape a, b, y;
    for (int64_t d = random.integer(0, 2); d > 0; --d) {
      int64_t size = random.integer(1, 3);
      bool stretchA = random.integer(0, 3) == 0, stretchB = random.integer(0, 3) == 0;
      a.push_back(stretchA ? 1 : size);
      b.push_back(stretchB ? 1 : size);
      y.push_back(stretchA && stretchB ? 1 : size);
    }
    if (random.integer(0, 3) == 0)
      b.clear();
    if (b.empty())
      y = a;
    for (int64_t d : ta ? Shape{k, m} : Shape{m, k})
      a.push_back(d);
    for (int64_t d : tb ? Shape{n, k} : Shape{k, n})
      b.push_back(d);
    y.push_back(m);
    y.push_back(n);
    c.what = "matmul " + str(a) + (ta ? "^T" : "") + " " + str(b) + (tb ? "^T" : "");
    uint32_t ba = c.input(random, type, a), bb = c.input(random, type, b);
    c.plan.kernel("matmul", {ba, bb}, {c.output(wide ? plan::F32 : type, y)},
                  {{"transpose_a", int64_t(ta)}, {"transpose_b", int64_t(tb)}, {"wide", int64_t(wide)}});
    check(c);
  }
}

namespace {

/// The loop behind a product adds a bias and applies relu or gelu by its tanh formula. Its results are the value, and
/// the operand of that function.
void follow(plan::Kernel &fused, const Shape &y, bool bias, const std::string &function, bool keep, plan::DType type) {
  plan::Expression &e = *fused.mutable_expression();
  auto shape = [](auto *to, const Shape &s) {
    for (int64_t d : s)
      to->Add(d);
  };
  shape(e.mutable_domain(), y);
  shape(e.add_input_views()->mutable_shape(), y);
  Shape row(y.size(), 1);
  row.back() = y.back();
  if (bias)
    shape(e.add_input_views()->mutable_shape(), row);
  uint32_t next = bias ? 2 : 1;
  auto add = [&](const char *op, std::vector<uint32_t> operands, double immediate = 0) {
    plan::Instruction &i = *e.add_code();
    i.set_op(op);
    for (uint32_t o : operands)
      i.add_operands(o);
    i.set_type(plan::F32);
    i.set_immediate(immediate);
    return next++;
  };
  uint32_t widened = 1; // the bias in F32
  if (bias && type != plan::F32)
    widened = add("cast", {1});
  uint32_t u = bias ? add("add", {widened, 0}) : 0, v = u;
  if (function == "relu") {
    v = add("relu", {u});
  } else if (function == "gelu") {
    uint32_t cube = add("mul", {add("mul", {u, u}), u});
    uint32_t sum = add("add", {u, add("mul", {cube, add("constant", {}, 0.044715)})});
    uint32_t tanh = add("tanh", {add("mul", {sum, add("constant", {}, 0.7978845608028654)})});
    uint32_t gate = add("add", {tanh, add("constant", {}, 1)});
    v = add("mul", {u, add("mul", {gate, add("constant", {}, 0.5)})});
  }
  if (type != plan::F32) {
    plan::Instruction &cast = *e.add_code();
    cast.set_op("cast");
    cast.add_operands(v);
    cast.set_type(type);
    v = next++;
  }
  for (uint32_t value : keep ? std::vector<uint32_t>{v, u} : std::vector<uint32_t>{v}) {
    plan::Result &r = *e.add_results();
    r.set_value(value);
    shape(r.mutable_shape(), y);
  }
}

} // namespace

TEST_CASE("products and the loops behind them", "[conformance]") {
  Random random(6);
  for (int i = 0; i < 40; ++i) {
    const std::string function = random.pick<std::string>({"", "relu", "gelu"});
    const bool bias = random.coin(), keep = function == "gelu" && random.coin();
    const bool readElsewhere = random.integer(0, 4) == 0, narrow = !keep && random.integer(0, 2) == 0;
    int64_t m = random.integer(1, 20), n = random.pick<int64_t>({3, 8, 16}), k = random.integer(1, 30);
    Shape x = random.coin() ? Shape{m, k} : Shape{2, m, k}, y = x;
    y.back() = n;
    Case c;
    c.tolerance = narrow ? 0x1p-7 : kTolerance; // neighbours in bfloat16: sums near a tie may round either way
    c.what = "matmul " + str(x) + ", " + function + (bias ? ", bias" : "") + (keep ? ", kept" : "") +
             (narrow ? ", bf16" : "");
    const plan::DType in = narrow ? plan::BF16 : plan::F32;
    uint32_t a = c.input(random, in, x), b = c.input(random, in, {k, n});
    uint32_t t = c.plan.buffer(plan::F32, y);
    c.plan.kernel("matmul", {a, b}, {t}, {{"wide", int64_t(narrow)}});
    std::vector<uint32_t> operands = {t}, results = {c.output(in, y)};
    if (bias)
      operands.push_back(c.input(random, in, {n}));
    if (keep)
      results.push_back(c.output(plan::F32, y));
    follow(c.plan.kernel("fused", operands, results), y, bias, function, keep, in);
    if (readElsewhere)
      c.plan.kernel("neg", {t}, {c.output(plan::F32, y)});
    check(c);
  }
}

TEST_CASE("ranks are threads of one process", "[conformance]") {
  Random random(5);
  PlanBuilder p;
  Shape xs = {2, 32, 9, 9}, ws = {32, 32, 3, 3};
  uint32_t x = p.buffer(plan::F32, xs), w = p.buffer(plan::F32, ws), y = p.buffer(plan::F32, xs);
  uint32_t dw = p.buffer(plan::F32, ws), sum = p.buffer(plan::F32, {32});
  Attributes a = {{"strides", Shape{1, 1}}, {"pads", Shape(4, 1)}, {"dilations", Shape{1, 1}}, {"groups", int64_t(1)}};
  p.kernel("conv", {x, w}, {y}, a);
  p.kernel("relu", {y}, {y});
  p.kernel("reduce_sum", {y}, {sum}, {{"dims", Shape{0, 2, 3}}, {"keepdims", int64_t(0)}});
  a["kernel_sizes"] = Shape{3, 3};
  p.kernel("conv_weight_grad", {x, y}, {dw}, a);
  std::map<uint32_t, Values> inputs = {{x, random.reals(elementCount(xs), -1, 1)},
                                       {w, random.reals(elementCount(ws), -1, 1)}};
  LoadOptions options;
  options.threads = 2;
  std::vector<Values> expected = p.run("cpu", inputs, {y, sum, dw}, options);
  std::vector<std::vector<Values>> results(4);
  std::vector<std::thread> ranks;
  for (auto &result : results)
    ranks.emplace_back([&] {
      for (int i = 0; i < 5; ++i)
        result = p.run("cpu", inputs, {y, sum, dw}, options);
    });
  for (std::thread &rank : ranks)
    rank.join();
  for (const auto &result : results)
    CHECK(result == expected); // to the bit
}
