// The reference's elementwise kernels, reductions and fused expressions against values by hand.
#include "runtime/backend/Half.h"
#include "runtime/backend/Philox.h"
#include "test/conformance/backend/PlanBuilder.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

using namespace tessera;
using namespace tessera::rt;
using namespace tessera::rt::test;

namespace {

/// Runs one kernel, on the reference backend unless another one is named. All operands have one type.
Values one(const std::string &name, plan::DType in, plan::DType out,
           const std::vector<std::pair<Shape, Values>> &operands, const Shape &result,
           const Attributes &attributes = {}, const std::string &backend = "reference") {
  PlanBuilder p;
  std::vector<uint32_t> ids;
  std::map<uint32_t, Values> values;
  for (const auto &[shape, v] : operands) {
    ids.push_back(p.buffer(in, shape));
    values[ids.back()] = v;
  }
  uint32_t y = p.buffer(out, result);
  p.kernel(name, ids, {y}, attributes);
  return p.run(backend, values, {y})[0];
}

const double Inf = std::numeric_limits<double>::infinity();
const double NaN = std::numeric_limits<double>::quiet_NaN();

} // namespace

TEST_CASE("binary operators broadcast by NumPy's rule") {
  CHECK(one("add", plan::F32, plan::F32, {{{2, 3}, {0, 1, 2, 3, 4, 5}}, {{3}, {10, 20, 30}}}, {2, 3}) ==
        Values{10, 21, 32, 13, 24, 35});
  CHECK(one("sub", plan::F64, plan::F64, {{{2, 1}, {1, 2}}, {{1, 2}, {10, 20}}}, {2, 2}) == Values{-9, -19, -8, -18});
  CHECK(one("mul", plan::I64, plan::I64, {{{}, {3}}, {{2}, {5, 7}}}, {2}) == Values{15, 21});
}

TEST_CASE("integer division truncates, mod has the divisor's sign, zero divisors do not trap") {
  CHECK(one("div", plan::I32, plan::I32, {{{4}, {7, -7, 7, 1}}, {{4}, {2, 2, -2, 0}}}, {4}) == Values{3, -3, -3, 0});
  CHECK(one("mod", plan::I64, plan::I64, {{{4}, {7, -7, 7, -7}}, {{4}, {3, 3, -3, -3}}}, {4}) == Values{1, 2, -2, -1});
  CHECK(one("mod", plan::F32, plan::F32, {{{2}, {-7.5, 7.5}}, {{2}, {2, -2}}}, {2}) == Values{0.5, -0.5});
  CHECK(one("mod", plan::I8, plan::I8, {{{1}, {-128}}, {{1}, {-1}}}, {1}) == Values{0});
}

TEST_CASE("NaN wins in max, min and relu") {
  for (const char *name : {"max", "min"}) {
    Values y = one(name, plan::F32, plan::F32, {{{3}, {NaN, 1, 2}}, {{3}, {1, NaN, 3}}}, {3});
    CHECK(std::isnan(y[0]));
    CHECK(std::isnan(y[1]));
    CHECK(y[2] == (std::string(name) == "max" ? 3 : 2));
  }
  CHECK(std::isnan(one("relu", plan::F32, plan::F32, {{{1}, {NaN}}}, {1})[0]));
}

TEST_CASE("expm1 and log1p are exact near 0") {
  for (const char *backend : {"reference", "cpu"})
    for (const char *name : {"expm1", "log1p"}) {
      INFO(name << " on " << backend);
      Values y = one(name, plan::F32, plan::F32, {{{3}, {1e-10, -1e-10, 0}}}, {3}, {}, backend);
      CHECK(y[0] == Approx(1e-10).epsilon(1e-6));
      CHECK(y[1] == Approx(-1e-10).epsilon(1e-6));
      CHECK(y[2] == 0);
    }
}

TEST_CASE("round takes ties to even") {
  CHECK(one("round", plan::F32, plan::F32, {{{5}, {0.5, 1.5, 2.5, -0.5, -1.5}}}, {5}) == Values{0, 2, 2, -0.0, -2});
}

TEST_CASE("cast truncates to integers and tests against zero for bool") {
  CHECK(one("cast", plan::F32, plan::I32, {{{4}, {1.9, -1.9, 0.5, -0.5}}}, {4}) == Values{1, -1, 0, 0});
  CHECK(one("cast", plan::F32, plan::BOOL, {{{3}, {0.5, 0, -2}}}, {3}) == Values{1, 0, 1});
  CHECK(one("cast", plan::I64, plan::U8, {{{2}, {257, -1}}}, {2}) == Values{1, 255});
  CHECK(one("cast", plan::F32, plan::I64, {{{2}, {NaN, -Inf}}}, {2})[0] == 0);
  CHECK(one("cast", plan::F16, plan::F32, {{{2}, {1.5, 65504}}}, {2}) == Values{1.5, 65504});
}

TEST_CASE("half precision types round to nearest even and keep special values") {
  CHECK(toFloat(toHalf(1.0f + 0x1p-11f)) == 1.0f);
  CHECK(toFloat(toHalf(1.0f + 3 * 0x1p-11f)) == 1.0f + 0x1p-9f);
  CHECK(toFloat(toHalf(0x1p-24f)) == 0x1p-24f);
  CHECK(toFloat(toHalf(65520.0f)) == INFINITY);
  CHECK(std::isnan(toFloat(toHalf(NAN))));
  CHECK(toFloat(toBfloat16(1.0f + 0x1p-8f)) == 1.0f);
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    Half h{uint16_t(bits)};
    if (!std::isnan(toFloat(h)))
      REQUIRE(toHalf(toFloat(h)).bits == h.bits);
  }
}

TEST_CASE("select, comparisons and logic") {
  CHECK(one("lt", plan::F32, plan::BOOL, {{{3}, {1, 2, NaN}}, {{3}, {2, 2, 1}}}, {3}) == Values{1, 0, 0});
  CHECK(one("le", plan::I64, plan::BOOL, {{{2}, {1, 2}}, {{2}, {2, 2}}}, {2}) == Values{1, 1});
  CHECK(one("xor", plan::BOOL, plan::BOOL, {{{2}, {1, 1}}, {{2}, {1, 0}}}, {2}) == Values{0, 1});
  PlanBuilder p;
  uint32_t c = p.buffer(plan::BOOL, {2}), a = p.buffer(plan::F32, {2}), b = p.buffer(plan::F32, {});
  uint32_t y = p.buffer(plan::F32, {2});
  p.kernel("select", {c, a, b}, {y});
  CHECK(p.run("reference", {{c, {1, 0}}, {a, {5, 6}}, {b, {9}}}, {y})[0] == Values{5, 9});
}

TEST_CASE("reductions follow their definitions") {
  Values x = {1, 5, 3, 4, 2, 6};
  CHECK(one("reduce_sum", plan::F32, plan::F32, {{{2, 3}, x}}, {2}, {{"dims", Shape{1}}, {"keepdims", int64_t(0)}}) ==
        Values{9, 12});
  CHECK(one("reduce_max", plan::F32, plan::F32, {{{2, 3}, x}}, {1, 3},
            {{"dims", Shape{0}}, {"keepdims", int64_t(1)}}) == Values{4, 5, 6});
  CHECK(one("reduce_min", plan::I32, plan::I32, {{{2, 3}, x}}, {}, {{"dims", Shape{0, 1}}, {"keepdims", int64_t(0)}}) ==
        Values{1});
  CHECK(std::isnan(one("reduce_max", plan::F32, plan::F32, {{{3}, {1, NaN, 2}}}, {},
                       {{"dims", Shape{0}}, {"keepdims", int64_t(0)}})[0]));
  CHECK(one("argmax", plan::F32, plan::I64, {{{2, 3}, {1, 5, 5, 7, 2, 6}}}, {2, 1},
            {{"dim", int64_t(1)}, {"keepdims", int64_t(1)}}) == Values{1, 0});
}

TEST_CASE("iota starts at start and runs along dim") {
  CHECK(one("iota", plan::I64, plan::I64, {}, {2, 3}, {{"dim", int64_t(1)}, {"start", int64_t(5)}}) ==
        Values{5, 6, 7, 5, 6, 7});
}

TEST_CASE("Philox matches the published test vectors") {
  CHECK(philox(0, 0, 0) == std::array{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u});
  CHECK(philox(0x299f31d0a4093822u, 0x85a308d3243f6a88u, 0x0370734413198a2eu) ==
        std::array{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u});
}

TEST_CASE("random numbers depend on the global index only") {
  auto box = [](const Shape &shape, const Shape &offset) {
    return one("random", plan::I64, plan::F32, {{{}, {7}}}, shape,
               {{"seed", int64_t(42)}, {"stream", int64_t(3)}, {"global_shape", Shape{4, 6}}, {"offset", offset}});
  };
  Values all = box({4, 6}, {0, 0}), part = box({2, 3}, {1, 2});
  for (size_t i = 0; i < 2; ++i)
    for (size_t j = 0; j < 3; ++j)
      CHECK(part[i * 3 + j] == all[(i + 1) * 6 + j + 2]);
  CHECK(all[9] == uniform(philoxKey(42, 3), 9, 7));
  for (double v : all)
    CHECK((v >= 0 && v < 1));
}

TEST_CASE("a fused expression with two results, one of them a reduction") {
  // y = relu(x * s + 1) per channel, sum of y over all but the channel.
  PlanBuilder p;
  uint32_t x = p.buffer(plan::F32, {2, 2, 2}), s = p.buffer(plan::F32, {2});
  uint32_t sum = p.buffer(plan::F32, {2});
  plan::Kernel &k = p.kernel("fused", {x, s}, {x, sum}); // in place
  plan::Expression &e = *k.mutable_expression();
  for (int64_t d : {2, 2, 2})
    e.add_domain(d);
  auto view = [](auto *shape, const Shape &v) {
    for (int64_t d : v)
      shape->Add(d);
  };
  view(e.add_input_views()->mutable_shape(), {2, 2, 2});
  view(e.add_input_views()->mutable_shape(), {1, 2, 1});
  auto code = [&](const char *op, std::vector<uint32_t> operands, double immediate = 0) {
    plan::Instruction *i = e.add_code();
    i->set_op(op);
    for (uint32_t o : operands)
      i->add_operands(o);
    i->set_type(plan::F32);
    i->set_immediate(immediate);
  };
  code("mul", {0, 1});
  code("constant", {}, 1);
  code("add", {2, 3});
  code("relu", {4});
  plan::Result *r = e.add_results();
  r->set_value(5);
  view(r->mutable_shape(), {2, 2, 2});
  r = e.add_results();
  r->set_value(5);
  r->set_reduction(plan::SUM);
  view(r->mutable_shape(), {1, 2, 1});
  for (bool widen : {false, true}) {
    LoadOptions options;
    options.widen = widen;
    std::vector<Values> out = p.run("reference", {{x, {1, 2, 3, 4, -5, 6, 7, -8}}, {s, {2, -1}}}, {x, sum}, options);
    CHECK(out[0] == Values{3, 5, 0, 0, 0, 13, 0, 9});
    CHECK(out[1] == Values{21, 9});
  }
}

TEST_CASE("16-bit operands are computed in F32 and rounded once") {
  // 1 + 2^-8 + 2^-8 would stay 1 if sums were rounded to bf16 on the way.
  for (plan::DType type : {plan::BF16, plan::F16}) {
    CHECK(one("matmul", type, type, {{{1, 3}, {1, 0.00390625, 0.00390625}}, {{3, 1}, {1, 1, 1}}}, {1, 1}) ==
          Values{1.0078125});
    CHECK(one("conv", type, type, {{{1, 1, 3}, {1, 2, 3}}, {{1, 1, 2}, {1, 10}}}, {1, 1, 2},
              {{"strides", Shape{1}}, {"pads", Shape{0, 0}}, {"dilations", Shape{1}}, {"groups", int64_t(1)}}) ==
          Values{21, 32});
    CHECK(one("softmax", type, type, {{{2}, {3, 3}}}, {2}, {{"dim", int64_t(0)}}) == Values{0.5, 0.5});
    CHECK(one("argmax", type, plan::I64, {{{3}, {1, 5, 2}}}, {}, {{"dim", int64_t(0)}, {"keepdims", int64_t(0)}}) ==
          Values{1});
  }
}

TEST_CASE("wide products of 16-bit operands hand their sums on in F32") {
  // 1 + 2^-12 has no 16-bit form. The case runs in F32 and with F64 in its place.
  const Attributes wide = {{"wide", int64_t(1)}};
  for (plan::DType type : {plan::BF16, plan::F16}) {
    CHECK(one("matmul", type, plan::F32, {{{1, 2}, {1, 0x1p-6}}, {{2, 1}, {1, 0x1p-6}}}, {1, 1}, wide) ==
          Values{1 + 0x1p-12});
    for (bool widen : {false, true}) {
      PlanBuilder p;
      uint32_t a = p.buffer(type, {1, 2}), b = p.buffer(type, {2, 1}), y = p.buffer(plan::F32, {1, 1});
      p.kernel("matmul", {a, b}, {y}, wide);
      LoadOptions options;
      options.widen = widen;
      CHECK(p.run("reference", {{a, {1, 0x1p-6}}, {b, {1, 0x1p-6}}}, {y}, options)[0] == Values{1 + 0x1p-12});
    }
  }
  PlanBuilder p;
  uint32_t a = p.buffer(plan::BF16, {1, 1}), y = p.buffer(plan::F32, {1, 1});
  p.kernel("matmul", {a, a}, {y});
  CHECK(p.refusal("reference").find("matmul of bf16 cannot give f32") != std::string::npos);
}

TEST_CASE("topk orders by value, then by index") {
  auto order = [&](const Values &x, int64_t k, bool smallest) {
    return one("topk", plan::F32, plan::I64, {{{int64_t(x.size())}, x}}, {k},
               {{"dim", int64_t(0)}, {"k", k}, {"smallest", int64_t(smallest)}});
  };
  CHECK(order({3, 7, 3, 9, 7}, 4, false) == Values{3, 1, 4, 0});
  CHECK(order({3, 7, 3, 9, 7}, 4, true) == Values{0, 2, 1, 4});
  CHECK(order({1, NaN, 2}, 3, false) == Values{1, 2, 0});
  // Along an outer dimension.
  CHECK(one("topk", plan::I64, plan::I64, {{{3, 2}, {1, 6, 5, 2, 3, 4}}}, {2, 2},
            {{"dim", int64_t(0)}, {"k", int64_t(2)}, {"smallest", int64_t(0)}}) == Values{1, 0, 2, 2});
}
