// The cpu backend's kernels keep their bits when a factor is cut that they do not sum over, and on any number of
// threads. Results on meshes of different shape can only be equal to the bit because of this. No library promises it,
// so a new oneDNN, compiler or instruction set may break it: CMakeLists.txt runs the cases with several of the latter.
// SplitsConvTest.cpp has convolutions.
#include "test/unit/backend/Splits.h"
#include "runtime/backend/Backend.h"
#include "runtime/backend/Half.h"
#include "test/conformance/backend/Loops.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

using namespace tessera;
using namespace tessera::rt;
using namespace tessera::rt::test;

TEST_CASE("products keep their bits under cuts of rows, columns, batch and threads", "[bits]") {
  std::vector<Case> cases;
  for (plan::DType type : {plan::F32, plan::BF16})
    for (auto [ta, tb] : {std::pair{false, false}, {false, true}, {true, false}, {true, true}}) {
      cases.push_back(product(type, 256, 128, 64, ta, tb));
      cases.push_back(product(type, 64, 512, 576, ta, tb));
      cases.push_back(product(type, 8, 40, 1024, ta, tb));
      cases.push_back(product(type, 48, 10, 300, ta, tb));
      cases.push_back(product(type, 32, 64, 96, ta, tb, {8}));
    }
  cases.push_back(product(plan::F64, 48, 40, 300, false, true));
  check(cases);
}

TEST_CASE("a product in leaves is the tree of its leaves' products", "[bits]") {
  for (plan::DType type : {plan::F32, plan::BF16, plan::F16, plan::F64})
    for (auto [ta, tb] : {std::pair{false, false}, {false, true}, {true, false}, {true, true}})
      for (const LeafSizes &s : {LeafSizes{48, 40, 96, 2},
                                 {300, 1100, 128, 4},
                                 {130, 7, 512, 8},
                                 {1, 33, 64, 4},
                                 {32, 64, 96, 4, {3}},
                                 {3, 2, 2, 2, {20}},
                                 {2, 3, 8, 8, {7}},
                                 {5, 2, 16, 8, {20}},
                                 {8, 2, 2, 2, {20}}}) {
        if (s.m * s.n > 100000 && type != plan::F32 && type != plan::BF16)
          continue; // plain loops, which have no tiles
        for (int threads : {1, 2, 3})
          checkLeaves(s, type, ta, tb, {threads});
      }
}

TEST_CASE("softmax, pooling and attention keep their bits under cuts of what they do not sum over", "[bits]") {
  const Attributes line = {{"dim", int64_t(1)}};
  const Operand rows{"mk", {64, 1000}}, few{"mk", {64, 37}};
  std::vector<Case> cases;
  for (const Operand &o : {rows, few}) {
    cases.push_back({"softmax", {o}, {o}, "m", line});
    cases.push_back({"softmax_grad", {o, o}, {o}, "m", line});
  }
  // Where the cut leaves one element behind the line, it is a piece of memory.
  const Operand middle{"mkn", {16, 37, 8}};
  cases.push_back({"softmax", {middle}, {middle}, "mn", line});
  cases.push_back({"softmax_grad", {middle, middle}, {middle}, "mn", line});
  const Attributes window = {
      {"kernel", Shape{3, 3}}, {"strides", Shape{2, 2}}, {"pads", Shape{1, 1, 1, 1}}, {"include_pad", int64_t(1)}};
  cases.push_back({"avg_pool", {{"nchw", {4, 64, 16, 16}}}, {{"ncij", {4, 64, 8, 8}}}, "nc", window});
  const Operand q{"bhmd", {4, 8, 70, 32}}, k{"bhnd", {4, 8, 70, 32}}, v{"bhne", {4, 8, 70, 32}},
      y{"bhme", {4, 8, 70, 32}}, statistics{"bhm", {4, 8, 70}};
  for (int64_t causal : {0, 1}) {
    const Attributes scores = {
        {"scale", 0.2}, {"causal", causal}, {"outside", -1e9}, {"start", int64_t(0)}, {"rows_first", int64_t(0)}};
    cases.push_back({"attention", {q, k, v}, {y}, "bh", scores});
    cases.push_back({"attention", {q, k, v}, {y, statistics}, "bh", scores});
    cases.push_back({"attention_grad", {y, q, k, v}, {q, k, v}, "bh", scores});
    cases.push_back({"attention_grad", {y, q, k, v, y, statistics}, {q, k, v}, "bh", scores});
    Attributes dropout = scores;
    dropout["keep_scale"] = 1.25;
    const Operand keep{"bhmn", {4, 8, 70, 70}};
    cases.push_back({"attention", {q, k, v, keep}, {y, statistics}, "bh", dropout});
    cases.push_back({"attention_grad", {y, q, k, v, y, statistics, keep}, {q, k, v}, "bh", dropout});
  }
  check(cases);
}

TEST_CASE("loops keep their bits under cuts of what they do not sum over", "[bits]") {
  std::vector<Case> cases;
  for (auto [m, k] : {std::pair<int64_t, int64_t>{64, 768}, {1024, 64}, {64, 37}, {16, 5000}}) {
    const Operand all{"mk", {m, k}}, row{"m", {m}}, column{"k", {k}};
    cases.push_back({"gelu", {all}, {all}, "mk"});
    cases.back().build = [](PlanBuilder &p, const std::vector<uint32_t> &in, const std::vector<uint32_t> &out) {
      Loop(p, p.shapeOf(in[0]))
          .in(in[0])
          .constant(0.7071)
          .constant(0.5)
          .op("mul", {0, 1})
          .op("erf", {3})
          .op("mul", {0, 2})
          .op("mul", {4, 5})
          .op("add", {6, 5})
          .out(out[0], 7);
    };
    cases.push_back({"reduce_sum of rows", {all}, {row}, "m"});
    cases.back().build = [](PlanBuilder &p, const std::vector<uint32_t> &in, const std::vector<uint32_t> &out) {
      p.kernel("reduce_sum", in, out, {{"dims", Shape{1}}, {"keepdims", int64_t(0)}});
    };
    cases.push_back({"reduce_sum of columns", {all}, {column}, "k"});
    cases.back().build = [](PlanBuilder &p, const std::vector<uint32_t> &in, const std::vector<uint32_t> &out) {
      p.kernel("reduce_sum", in, out, {{"dims", Shape{0}}, {"keepdims", int64_t(0)}});
    };
    cases.push_back({"normalised rows", {all, all}, {all, row}, "m"});
    cases.back().build = [](PlanBuilder &p, const std::vector<uint32_t> &in, const std::vector<uint32_t> &out) {
      const Shape domain = p.shapeOf(in[0]);
      Loop(p, domain).in(in[0]).in(in[1]).op("mul", {0, 1}).out(out[0], 2).out(out[1], 2, plan::SUM, {domain[0], 1});
    };
  }
  const Operand image{"nchw", {8, 64, 14, 14}}, channel{"c", {64}};
  cases.push_back({"reduce_sum of channels", {image}, {channel}, "c"});
  cases.back().build = [](PlanBuilder &p, const std::vector<uint32_t> &in, const std::vector<uint32_t> &out) {
    p.kernel("reduce_sum", in, out, {{"dims", Shape{0, 2, 3}}, {"keepdims", int64_t(0)}});
  };
  cases.push_back({"mean of images", {image}, {{"nc", {8, 64}}}, "nc"});
  cases.back().build = [](PlanBuilder &p, const std::vector<uint32_t> &in, const std::vector<uint32_t> &out) {
    p.kernel("reduce_sum", in, out, {{"dims", Shape{2, 3}}, {"keepdims", int64_t(0)}});
  };
  check(cases);
}

TEST_CASE("in a reproducible plan a loop has the bits of its parts", "[bits]") {
  const int64_t m = 48, k = 100;
  const std::vector<Values> values = {numbers(m * k, 1, plan::F32), numbers(m * k, 2, plan::F32),
                                      numbers(m * k, 3, plan::F32)};
  auto compute = [&](bool fused) {
    PlanBuilder p;
    p.plan().set_version(3);
    p.plan().set_leaves(8);
    uint32_t in[3], product = p.buffer(plan::F32, {m, k}), sum = p.buffer(plan::F32, {m, k});
    const uint32_t squares = p.buffer(plan::F32, {m, k}), rows = p.buffer(plan::F32, {m});
    std::map<uint32_t, Values> inputs;
    for (size_t i = 0; i < 3; ++i) {
      in[i] = p.buffer(plan::F32, {m, k});
      inputs[in[i]] = values[i];
    }
    if (fused) {
      Loop(p, {m, k}).in(in[0]).in(in[1]).in(in[2]).op("mul", {0, 1}).op("add", {3, 2}).out(sum, 4);
      Loop(p, {m, k}).in(sum).op("mul", {0, 0}).out(rows, 1, plan::SUM, {m, 1});
    } else {
      p.kernel("mul", {in[0], in[1]}, {product});
      p.kernel("add", {product, in[2]}, {sum});
      p.kernel("mul", {sum, sum}, {squares});
      p.kernel("reduce_sum", {squares}, {rows}, {{"dims", Shape{1}}, {"keepdims", int64_t(0)}});
    }
    return p.run("cpu", inputs, {sum, rows});
  };
  const std::vector<Values> together = compute(true), apart = compute(false);
  CHECK(sameBits(together[0], apart[0]));
  CHECK(sameBits(together[1], apart[1]));
}

TEST_CASE("in a reproducible plan a function has one result, whichever engine computes it", "[bits]") {
  // The engine of loops declines a sum of what is the same for all of its terms.
  const int64_t m = 1000, k = 3;
  Values x = numbers(m, 1, plan::F32);
  std::ranges::transform(x, x.begin(), [](double v) { return std::abs(v); });
  for (const char *function : {"exp", "log1p", "tanh", "erf", "sigmoid", "sin"}) {
    auto compute = [&](bool fused, std::vector<std::string> &by) {
      PlanBuilder p;
      p.plan().set_version(3);
      p.plan().set_leaves(8);
      const uint32_t in = p.buffer(plan::F32, {m, 1}), sum = p.buffer(plan::F32, {m, 1});
      if (fused) {
        Loop(p, {m, k}).in(in, {m, 1}).op(function, {0}).out(sum, 1, plan::SUM, {m, 1});
      } else {
        const uint32_t y = p.buffer(plan::F32, {m, 1}), wide = p.buffer(plan::F32, {m, k});
        p.kernel(function, {in}, {y});
        Loop(p, {m, k}).in(y, {m, 1}).constant(0).op("add", {0, 1}).out(wide, 2);
        Loop(p, {m, k}).in(wide).out(sum, 0, plan::SUM, {m, 1});
      }
      return p.run("cpu", {{in, x}}, {sum}, {}, &by)[0];
    };
    std::vector<std::string> together, apart;
    const Values a = compute(true, together), b = compute(false, apart);
    INFO(function << " by " << together[0] << " and by " << apart[0]);
    CHECK(together[0].find("plain loops") != std::string::npos);
    CHECK(sameBits(a, b));
  }
}
