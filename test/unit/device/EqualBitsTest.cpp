// In a reproducible plan the cuda backend's kernels keep their bits when a factor is cut that they do not sum over, and
// whatever else a loop computes.
#include "runtime/backend/Backend.h"
#include "runtime/backend/Half.h"
#include "test/conformance/backend/Loops.h"
#include "test/unit/backend/Splits.h"

#include <algorithm>
#include <catch2/catch.hpp>

using namespace tessera;
using namespace tessera::rt;
using namespace tessera::rt::test;

TEST_CASE("no kernel of a reproducible plan is a library's") {
  const Case ofProducts = product(plan::BF16, 16, 16, 16, false, false);
  std::vector<Case> cases = convolutions(plan::BF16, {3, 8, 8, 4, 3, 1});
  cases.push_back(ofProducts);
  for (const Case &c : cases)
    for (bool reproducible : {false, true}) {
      std::vector<Values> values;
      for (size_t i = 0; i < 2; ++i)
        values.push_back(numbers(elementCount(c.in[i].shape), i + 1, c.type));
      std::vector<std::string> by;
      run(c, c.in, c.out, values, {1, reproducible, "cuda"}, &by);
      INFO(c.kernel << " by " << by[0]);
      CHECK((by[0].find("generated") != std::string::npos) == reproducible);
    }
}

TEST_CASE("products keep their bits on a device under cuts of rows, columns and batch") {
  checkOnDevice({product(plan::F32, 48, 40, 72, false, true), product(plan::F32, 8, 24, 300, true, false),
                 product(plan::BF16, 16, 48, 40, false, false), product(plan::F64, 16, 24, 40, true, true),
                 product(plan::F32, 8, 8, 24, false, false, {8})});
}

TEST_CASE("a product in leaves is the tree of its leaves' products on a device") {
  for (plan::DType type : {plan::F32, plan::BF16, plan::F16, plan::F64})
    for (const LeafSizes &s : {LeafSizes{18, 20, 48, 2}, {5, 7, 64, 8}, {3, 2, 24, 4, {3}}})
      checkLeaves(s, type, type == plan::F32, type == plan::BF16, {1, true, "cuda"});
}

TEST_CASE("convolutions keep their bits on a device under cuts of batch, channels and groups") {
  std::vector<Case> cases;
  for (plan::DType type : {plan::F32, plan::BF16})
    for (const ConvSizes &g : {ConvSizes{4, 3, 8, 8, 3, 2}, {2, 16, 8, 4, 1, 1}, {2, 8, 8, 5, 3, 1, 4}})
      std::ranges::copy(convolutions(type, g), std::back_inserter(cases));
  checkOnDevice(cases);
}

TEST_CASE("the gradient of a convolution's weights is the tree of its leaves on a device") {
  for (plan::DType type : {plan::F32, plan::BF16}) {
    const Case c = convolutions(type, {8, 4, 6, 6, 3, 1})[2];
    auto stored = [&](double x) {
      return type == plan::BF16 ? double(toFloat(toBfloat16(float(x)))) : double(float(x));
    };
    std::vector<Values> values;
    for (size_t i = 0; i < 2; ++i) {
      values.push_back(numbers(elementCount(c.in[i].shape), i + 1, type));
      std::ranges::transform(values.back(), values.back().begin(), stored);
    }
    Case part = c, whole = c;
    whole.attributes["leaves"] = int64_t(4);
    std::vector<Values> sums;
    for (int64_t leaf = 0; leaf < 4; ++leaf) {
      std::vector<Values> mine;
      for (size_t i = 0; i < 2; ++i) {
        mine.push_back(slice(values[i], c.in[i].shape, 0, 4, leaf));
        part.in[i].shape[0] = c.in[i].shape[0] / 4;
      }
      sums.push_back(run(part, part.in, part.out, mine, {1, true, "cuda"})[0]);
    }
    for (size_t e = 0; e < sums[0].size(); ++e)
      sums[0][e] = stored(stored(sums[0][e] + sums[1][e]) + stored(sums[2][e] + sums[3][e]));
    CHECK(sameBits(run(whole, whole.in, whole.out, values, {1, true, "cuda"})[0], sums[0]));
  }
}

TEST_CASE("softmax, pooling, attention and scatter keep their bits on a device") {
  const Attributes line = {{"dim", int64_t(1)}};
  const Operand lines{"mkn", {8, 37, 4}};
  std::vector<Case> cases = {{"softmax", {lines}, {lines}, "mn", line},
                             {"softmax_grad", {lines, lines}, {lines}, "mn", line}};
  const Attributes window = {
      {"kernel", Shape{3, 3}}, {"strides", Shape{2, 2}}, {"pads", Shape{1, 1, 1, 1}}, {"include_pad", int64_t(1)}};
  cases.push_back({"avg_pool", {{"nchw", {2, 8, 8, 8}}}, {{"ncij", {2, 8, 4, 4}}}, "nc", window});
  const Operand q{"bhmd", {2, 4, 20, 8}}, k{"bhnd", {2, 4, 20, 8}}, statistics{"bhm", {2, 4, 20}};
  const Attributes scores = {
      {"scale", 0.2}, {"causal", int64_t(1)}, {"outside", -1e9}, {"start", int64_t(0)}, {"rows_first", int64_t(0)}};
  cases.push_back({"attention", {q, k, k}, {q, statistics}, "bh", scores});
  cases.push_back({"attention_grad", {q, q, k, k, q, statistics}, {q, k, k}, "bh", scores});
  cases.push_back({"attention", {q, k, k}, {q}, "bh", scores, plan::BF16});
  cases.push_back({"attention_grad", {q, q, k, k}, {q, k, k}, "bh", scores, plan::BF16});
  // Ranks with fewer rows than keys take tiles of the same size.
  Attributes all = scores;
  all["causal"] = int64_t(0);
  cases.push_back({"attention",
                   {{"bhmd", {1, 2, 40, 8}}, {"bhnd", {1, 2, 20, 8}}, {"bhnd", {1, 2, 20, 8}}},
                   {{"bhmd", {1, 2, 40, 8}}},
                   "m",
                   all});
  checkOnDevice(cases);
}

TEST_CASE("loops keep their bits on a device under cuts of what they do not sum over") {
  std::vector<Case> cases;
  for (auto [m, k] : {std::pair<int64_t, int64_t>{8, 700}, {520, 8}, {16, 37}})
    for (plan::DType type : {plan::F32, plan::BF16}) {
      const Operand all{"mk", {m, k}}, row{"m", {m}}, column{"k", {k}};
      auto sum = [&](const Operand &out, const char *cut, auto build) {
        cases.push_back({"reduce_sum", {all}, {out}, cut, {}, type, build});
      };
      sum(row, "m", [](PlanBuilder &p, const std::vector<uint32_t> &in, const std::vector<uint32_t> &out) {
        p.kernel("reduce_sum", in, out, {{"dims", Shape{1}}, {"keepdims", int64_t(0)}});
      });
      sum(column, "k", [](PlanBuilder &p, const std::vector<uint32_t> &in, const std::vector<uint32_t> &out) {
        p.kernel("reduce_sum", in, out, {{"dims", Shape{0}}, {"keepdims", int64_t(0)}});
      });
      cases.push_back({"normalised rows", {all, all}, {all, row}, "m", {}, type});
      cases.back().build = [](PlanBuilder &p, const std::vector<uint32_t> &in, const std::vector<uint32_t> &out) {
        const Shape domain = p.shapeOf(in[0]);
        Loop(p, domain).in(in[0]).in(in[1]).op("mul", {0, 1}).out(out[0], 2).out(out[1], 2, plan::SUM, {domain[0], 1});
      };
    }
  checkOnDevice(cases);
}

TEST_CASE("in a reproducible plan a loop has the bits of its parts on a device") {
  const int64_t m = 24, k = 300;
  for (plan::DType type : {plan::F32, plan::BF16}) {
    auto compute = [&](bool fused, const std::string &backend) {
      PlanBuilder p;
      p.plan().set_version(3);
      p.plan().set_leaves(8);
      uint32_t in[3], product = p.buffer(type, {m, k}), sum = p.buffer(type, {m, k});
      const uint32_t squares = p.buffer(type, {m, k}), rows = p.buffer(type, {m}), all = p.buffer(type, {1, 1});
      std::map<uint32_t, Values> inputs;
      for (size_t i = 0; i < 3; ++i) {
        in[i] = p.buffer(type, {m, k});
        inputs[in[i]] = numbers(m * k, i + 1, type);
      }
      if (fused) {
        Loop(p, {m, k}, type).in(in[0]).in(in[1]).in(in[2]).op("mul", {0, 1}).op("add", {3, 2}).out(sum, 4);
        Loop(p, {m, k}, type).in(sum).op("mul", {0, 0}).out(rows, 1, plan::SUM, {m, 1}).out(all, 1, plan::SUM, {1, 1});
      } else {
        p.kernel("mul", {in[0], in[1]}, {product});
        p.kernel("add", {product, in[2]}, {sum});
        p.kernel("mul", {sum, sum}, {squares});
        p.kernel("reduce_sum", {squares}, {rows}, {{"dims", Shape{1}}, {"keepdims", int64_t(0)}});
        p.kernel("reduce_sum", {squares}, {all}, {{"dims", Shape{0, 1}}, {"keepdims", int64_t(1)}});
      }
      return p.run(backend, inputs, {sum, rows, all});
    };
    const std::vector<Values> together = compute(true, "cuda"), apart = compute(false, "cuda");
    for (size_t i = 0; i < 3; ++i)
      CHECK(sameBits(together[i], apart[i]));
    // The order is that of all backends.
    const std::vector<Values> reference = compute(true, "reference");
    for (size_t i = 0; i < 3; ++i)
      CHECK(sameBits(together[i], reference[i]));
  }
}

TEST_CASE("the sums of scattered rows do not depend on which other rows there are on a device") {
  const int64_t rows = 12, indices = 400, columns = 3;
  const Values updates = numbers(indices * columns, 1, plan::F32);
  auto compute = [&](int64_t first, int64_t count) {
    PlanBuilder p;
    p.plan().set_version(3);
    p.plan().set_leaves(8);
    const uint32_t where = p.buffer(plan::I64, {indices}), x = p.buffer(plan::F32, {indices, columns}),
                   y = p.buffer(plan::F32, {count, columns});
    Values at;
    for (int64_t i = 0; i < indices; ++i)
      at.push_back(double(i * i % 7 * (i % 2 + 1) % rows));
    p.kernel("scatter_add", {where, x}, {y}, {{"axis", int64_t(0)}, {"size", count}, {"start", first}});
    return p.run("cuda", {{where, at}, {x, updates}}, {y})[0];
  };
  const Values whole = compute(0, rows);
  for (int64_t part = 0; part < 4; ++part)
    CHECK(sameBits(compute(part * 3, 3), slice(whole, {rows, columns}, 0, 4, part)));
}
