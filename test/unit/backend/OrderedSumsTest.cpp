// The sums of a reproducible plan have an order (ExpressionCode.h, kPartialSums). The reference backend's loops show
// it; the cpu backend must give the same bits in every layout, on any number of threads, and whatever else a loop
// computes.
#include "runtime/backend/ExpressionCode.h"
#include "test/conformance/backend/Loops.h"
#include "test/conformance/backend/PlanBuilder.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <random>

using namespace tessera;
using namespace tessera::rt;
using namespace tessera::rt::test;

namespace {

/// Numbers of many magnitudes, so that another order of adding shows in the last bits.
Values numbers(int64_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  Values values(static_cast<size_t>(n));
  for (double &v : values)
    v = double(float(std::ldexp(double(random() >> 11) * 0x1p-53 - 0.5, int(random() % 40) - 20)));
  return values;
}

bool sameBits(const Values &a, const Values &b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

void makeReproducible(PlanBuilder &p) {
  p.plan().set_version(3);
  p.plan().set_leaves(8);
}

Shape without(const Shape &shape, const Shape &dims) {
  Shape rest;
  for (size_t d = 0; d < shape.size(); ++d)
    if (std::find(dims.begin(), dims.end(), int64_t(d)) == dims.end())
      rest.push_back(shape[d]);
  return rest;
}

/// The same shape with 1 for what is summed.
Shape viewOf(Shape shape, const Shape &dims) {
  for (int64_t d : dims)
    shape[size_t(d)] = 1;
  return shape;
}

/// A pooling whose result nobody reads asks for the layout of convolutions.
void askForBlocks(PlanBuilder &p, uint32_t image, const Shape &shape) {
  p.kernel(
      "max_pool", {image}, {p.buffer(plan::F32, shape)},
      {{"kernel", Shape{1, 1}}, {"strides", Shape{1, 1}}, {"pads", Shape{0, 0, 0, 0}}, {"dilations", Shape{1, 1}}});
}

struct Sum {
  Shape shape, dims;
};

const std::vector<Sum> kSums = {{{64, 768}, {1}},
                                {{64, 768}, {0}},
                                {{64, 37}, {1}},
                                {{64, 37}, {0}},
                                {{1000, 5}, {0}},
                                {{3, 5000}, {1}},
                                {{200, 300}, {0, 1}},
                                {{70000}, {0}},
                                {{200, 16}, {0}},
                                {{200, 8}, {0}},
                                {{200, 4}, {0}},
                                {{4, 7, 9, 24}, {1, 3}},
                                {{6, 5, 7, 8}, {0, 2}},
                                {{8, 64, 14, 14}, {0, 2, 3}},
                                {{8, 64, 7, 7}, {2, 3}},
                                {{8, 64, 7, 7}, {1}},
                                {{8, 64, 7, 7}, {0}},
                                {{8, 3, 32, 32}, {0, 2, 3}},
                                {{8, 64, 7, 7}, {0, 1, 2, 3}}};

} // namespace

TEST_CASE("sums of a reproducible plan have the bits of the order that is written down", "[bits]") {
  for (const Sum &sum : kSums) {
    const Values x = numbers(elementCount(sum.shape), 1);
    Values expected(size_t(elementCount(viewOf(sum.shape, sum.dims))));
    std::vector<std::array<float, kPartialSums>> partial(expected.size(), {0, 0, 0, 0});
    const auto endBlock = [&](size_t result) {
      auto &p = partial[result];
      expected[result] += double((p[0] + p[1]) + (p[2] + p[3]));
      p.fill(0);
    };
    const Shape own = rowMajorStrides(sum.shape), terms = termStrides(sum.shape, viewOf(sum.shape, sum.dims)),
                results = broadcastStrides(viewOf(sum.shape, sum.dims), sum.shape.size());
    for (size_t i = 0; i < x.size(); ++i) { // row-major: the terms of a result ascend
      int64_t result = 0, term = 0;
      for (size_t d = 0; d < own.size(); ++d) {
        const int64_t index = int64_t(i) / own[d] % sum.shape[d];
        result += index * results[d];
        term += index * terms[d];
      }
      partial[size_t(result)][size_t(term % kPartialSums)] += float(x[i]);
      if (term % kTermsOfBlock == kTermsOfBlock - 1)
        endBlock(size_t(result));
    }
    for (size_t r = 0; r < expected.size(); ++r) {
      endBlock(r);
      expected[r] = double(float(expected[r]));
    }
    for (const char *backend : {"reference", "cpu"})
      for (int threads : {1, 2, 4}) {
        PlanBuilder p;
        makeReproducible(p);
        const uint32_t in = p.buffer(plan::F32, sum.shape), out = p.buffer(plan::F32, without(sum.shape, sum.dims));
        p.kernel("reduce_sum", {in}, {out}, {{"dims", sum.dims}, {"keepdims", int64_t(0)}});
        LoadOptions options;
        options.threads = threads;
        std::vector<std::string> by;
        const Values result = p.run(backend, {{in, x}}, {out}, options, &by)[0];
        INFO(by[0] << " on " << threads << " threads: " << str(sum.shape) << " over " << str(sum.dims));
        CHECK(sameBits(result, expected));
        if (std::string(backend) == "cpu") // else it would be slow
          CHECK(by[0].find("fused") != std::string::npos);
      }
  }
}

TEST_CASE("sums of a reproducible plan keep their bits in the layout of convolutions", "[bits]") {
  for (const Sum &sum : kSums) {
    if (sum.shape.size() != 4)
      continue;
    const Values x = numbers(elementCount(sum.shape), 1);
    auto compute = [&](bool blocked, int threads) {
      PlanBuilder p;
      makeReproducible(p);
      const uint32_t in = p.buffer(plan::F32, sum.shape), out = p.buffer(plan::F32, without(sum.shape, sum.dims));
      p.kernel("reduce_sum", {in}, {out}, {{"dims", sum.dims}, {"keepdims", int64_t(0)}});
      if (blocked)
        askForBlocks(p, in, sum.shape);
      LoadOptions options;
      options.threads = threads;
      return p.run("cpu", {{in, x}}, {out}, options)[0];
    };
    const Values plain = compute(false, 1);
    for (int threads : {1, 2, 4}) {
      INFO(str(sum.shape) << " over " << str(sum.dims) << " on " << threads << " threads");
      CHECK(sameBits(compute(true, threads), plain));
    }
  }
}

TEST_CASE("leaves of a sum that a loop adds in one pass have the bits of sums of their own", "[bits]") {
  for (const Sum &sum : kSums)
    for (int64_t dim : sum.dims)
      for (int64_t leaves : {2, 4, 8}) {
        const int64_t extent = sum.shape[size_t(dim)];
        if (extent % leaves != 0)
          continue;
        INFO(str(sum.shape) << " over " << str(sum.dims) << ", " << leaves << " leaves of " << dim);
        const Values x = numbers(elementCount(sum.shape), 1);
        // The dimension in two, of which the first is kept.
        Shape leaf = sum.shape;
        leaf[size_t(dim)] /= leaves;
        Shape domain = leaf, view = viewOf(leaf, sum.dims);
        domain.insert(domain.begin() + dim, leaves);
        view.insert(view.begin() + dim, leaves);

        // Each leaf by a sum of its own. `rows` are in front of the dimension.
        const int64_t row = rowMajorStrides(sum.shape)[size_t(dim)] * extent, rows = elementCount(sum.shape) / row;
        std::vector<Values> each;
        for (int64_t l = 0; l < leaves; ++l) {
          Values part;
          for (int64_t r = 0; r < rows; ++r)
            part.insert(part.end(), x.begin() + (r * leaves + l) * (row / leaves),
                        x.begin() + (r * leaves + l + 1) * (row / leaves));
          PlanBuilder p;
          makeReproducible(p);
          const uint32_t in = p.buffer(plan::F32, leaf), out = p.buffer(plan::F32, without(leaf, sum.dims));
          p.kernel("reduce_sum", {in}, {out}, {{"dims", sum.dims}, {"keepdims", int64_t(0)}});
          each.push_back(p.run("reference", {{in, part}}, {out})[0]);
        }
        const int64_t before = elementCount(Shape(view.begin(), view.begin() + dim)); // what is kept of the rows
        const int64_t behind = int64_t(each[0].size()) / before;
        Values expected;
        for (int64_t b = 0; b < before; ++b)
          for (const Values &one : each)
            expected.insert(expected.end(), one.begin() + b * behind, one.begin() + (b + 1) * behind);
        Values doubled = x;
        for (double &v : doubled)
          v = double(float(v) + float(v));

        auto check = [&](const char *backend, bool blocked, int threads) {
          PlanBuilder p;
          makeReproducible(p);
          const uint32_t in = p.buffer(plan::F32, sum.shape), twice = p.buffer(plan::F32, sum.shape);
          const uint32_t sums = p.buffer(plan::F32, view);
          Loop(p, domain).in(in).op("add", {0, 0}).out(twice, 1).out(sums, 0, plan::SUM, view);
          if (blocked)
            askForBlocks(p, twice, sum.shape);
          LoadOptions options;
          options.threads = threads;
          std::vector<std::string> by;
          const std::vector<Values> results = p.run(backend, {{in, x}}, {sums, twice}, options, &by);
          INFO(by[0] << " on " << threads << " threads, " << (blocked ? "blocked" : "plain"));
          CHECK(sameBits(results[0], expected));
          CHECK(sameBits(results[1], doubled));
          if (std::string(backend) == "cpu") // else it would be slow
            CHECK(by[0].find("fused") != std::string::npos);
        };
        check("reference", false, 1);
        for (int threads : {1, 2, 4}) {
          check("cpu", false, threads);
          if (sum.shape.size() == 4)
            check("cpu", true, threads);
        }
      }
}

TEST_CASE("leaves that lie side by side are summed along one row", "[bits]") {
  constexpr int64_t kRows = 12, kLeaves = 4;
  for (int64_t length : {96, 30, 1024}) { // a row of the last one is more than a tile
    const Shape domain{kRows, kLeaves, length}, perRow{kRows, 1, 1}, perLeaf{kRows, kLeaves, 1};
    const Values x = numbers(elementCount(domain), 1), shift = numbers(kRows, 2);
    auto compute = [&](const char *backend, int threads) {
      PlanBuilder p;
      makeReproducible(p);
      const uint32_t in = p.buffer(plan::F32, domain), by = p.buffer(plan::F32, perRow);
      const uint32_t moved = p.buffer(plan::F32, domain), all = p.buffer(plan::F32, perRow),
                     columns = p.buffer(plan::F32, {1, kLeaves, length});
      const uint32_t sums = p.buffer(plan::F32, perLeaf), squares = p.buffer(plan::F32, perLeaf);
      Loop(p, domain)
          .in(in)
          .in(by, perRow)
          .op("sub", {0, 1})
          .op("neg", {2})
          .op("max", {2, 3})
          .op("mul", {4, 0})
          .op("mul", {2, 2})
          .out(moved, 5)
          .out(sums, 4, plan::SUM, perLeaf)
          .out(squares, 6, plan::SUM, perLeaf)
          .out(all, 2, plan::SUM, perRow)
          .out(columns, 3, plan::SUM, {1, kLeaves, length});
      LoadOptions options;
      options.threads = threads;
      std::vector<std::string> kernels;
      std::vector<Values> results =
          p.run(backend, {{in, x}, {by, shift}}, {moved, sums, squares, all, columns}, options, &kernels);
      if (std::string(backend) == "cpu")
        CHECK(kernels[0].find("12x" + std::to_string(kLeaves * length) + "x1") != std::string::npos);
      return results;
    };
    const std::vector<Values> expected = compute("reference", 1);
    for (int threads : {1, 2}) {
      const std::vector<Values> result = compute("cpu", threads);
      INFO("leaves of " << length << " on " << threads << " threads");
      for (size_t r = 0; r < expected.size(); ++r)
        CHECK(sameBits(result[r], expected[r]));
    }
  }
}

TEST_CASE("in a reproducible plan a loop with several sums has the bits of its parts", "[bits]") {
  const Shape shape{16, 64, 7, 7}, channels{1, 64, 1, 1}, images{16, 1, 1, 1}, pixels{1, 64, 7, 7};
  const Values x = numbers(elementCount(shape), 1), y = numbers(elementCount(shape), 2);
  auto compute = [&](bool fused, bool blocked, int threads) {
    PlanBuilder p;
    makeReproducible(p);
    const uint32_t a = p.buffer(plan::F32, shape), b = p.buffer(plan::F32, shape), c = p.buffer(plan::F32, shape);
    const uint32_t s = p.buffer(plan::F32, channels), t = p.buffer(plan::F32, channels),
                   u = p.buffer(plan::F32, images), v = p.buffer(plan::F32, pixels);
    if (fused) {
      Loop(p, shape)
          .in(a)
          .in(b)
          .op("mul", {0, 1})
          .op("add", {2, 0})
          .out(c, 3)
          .out(s, 0, plan::SUM, channels)
          .out(t, 3, plan::SUM, channels);
      Loop(p, shape).in(a).in(b).op("mul", {0, 1}).out(u, 2, plan::SUM, images);
      Loop(p, shape).in(a).in(b).op("mul", {0, 1}).out(v, 2, plan::SUM, pixels);
    } else {
      const uint32_t product = p.buffer(plan::F32, shape);
      p.kernel("mul", {a, b}, {product});
      p.kernel("add", {product, a}, {c});
      for (auto [from, to] : {std::pair{a, s}, {c, t}})
        p.kernel("reduce_sum", {from}, {to}, {{"dims", Shape{0, 2, 3}}, {"keepdims", int64_t(1)}});
      p.kernel("reduce_sum", {product}, {u}, {{"dims", Shape{1, 2, 3}}, {"keepdims", int64_t(1)}});
      p.kernel("reduce_sum", {product}, {v}, {{"dims", Shape{0}}, {"keepdims", int64_t(1)}});
    }
    if (blocked)
      askForBlocks(p, c, shape);
    LoadOptions options;
    options.threads = threads;
    return p.run("cpu", {{a, x}, {b, y}}, {c, s, t, u, v}, options);
  };
  const std::vector<Values> apart = compute(false, false, 1);
  for (bool fused : {false, true})
    for (bool blocked : {false, true})
      for (int threads : {1, 3}) {
        const std::vector<Values> result = compute(fused, blocked, threads);
        INFO("fused " << fused << ", blocked " << blocked << ", " << threads << " threads");
        for (size_t r = 0; r < apart.size(); ++r)
          CHECK(sameBits(result[r], apart[r]));
      }
}

TEST_CASE("in a reproducible plan a product is rounded before the sum that one pass makes of it", "[bits]") {
  const Shape shape{37, 50};
  const Values x = numbers(37 * 50, 1), y = numbers(37 * 50, 2), z = numbers(37, 3);
  for (const char *op : {"add", "sub"})
    for (bool productFirst : {false, true})
      for (bool byRow : {false, true}) { // what is added to the product does not change along a row
        INFO(op << (productFirst ? ", the product first" : ", the product last") << (byRow ? ", by row" : ""));
        const Shape other = byRow ? Shape{37, 1} : shape;
        const auto operands = [&](uint32_t product, uint32_t addend) {
          return productFirst ? std::vector{product, addend} : std::vector{addend, product};
        };
        PlanBuilder p;
        makeReproducible(p);
        const uint32_t a = p.buffer(plan::F32, shape), b = p.buffer(plan::F32, shape), c = p.buffer(plan::F32, other);
        const uint32_t product = p.buffer(plan::F32, shape), apart = p.buffer(plan::F32, shape),
                       together = p.buffer(plan::F32, shape);
        p.kernel("mul", {a, b}, {product});
        Loop(p, shape).in(product).in(c, other).op(op, operands(0, 1)).out(apart, 2);
        Loop(p, shape).in(a).in(b).in(c, other).op("mul", {0, 1}).op(op, operands(3, 2)).out(together, 4);
        std::vector<std::string> by;
        const std::vector<Values> result =
            p.run("cpu", {{a, x}, {b, y}, {c, byRow ? z : x}}, {apart, together}, LoadOptions(), &by);
        CHECK(sameBits(result[0], result[1]));
        CHECK(by[2].find("0+1 ops") != std::string::npos);
      }
}

TEST_CASE("in a reproducible plan a 16-bit number that stays in a loop is rounded", "[bits]") {
  const Shape shape{40, 50};
  const Values x = numbers(elementCount(shape), 1);
  for (const char *backend : {"reference", "cpu"})
    for (plan::DType half : {plan::BF16, plan::F16}) {
      PlanBuilder p;
      makeReproducible(p);
      const uint32_t in = p.buffer(plan::F32, shape), rounded = p.buffer(half, shape);
      const uint32_t apart = p.buffer(plan::F32, shape), together = p.buffer(plan::F32, shape);
      p.kernel("cast", {in}, {rounded});
      Loop(p, shape).in(rounded).op("mul", {0, 0}).out(apart, 1);
      Loop(p, shape).in(in).op("cast", {0}, half).op("cast", {1}, plan::F32).op("mul", {2, 2}).out(together, 3);
      const std::vector<Values> result = p.run(backend, {{in, x}}, {apart, together});
      INFO(backend << " in type " << half);
      CHECK(sameBits(result[0], result[1]));
    }
}
