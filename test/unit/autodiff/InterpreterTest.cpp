// The tests' interpreter on values that were worked out by hand.
#include "Programs.h"

#include <limits>

using namespace tessera;
using namespace tessera::test;
using namespace mlir;

namespace {
using Values = std::vector<double>;

std::vector<Tensor> evaluate(const std::string &text, std::vector<Tensor> arguments) {
  Program p(text);
  return run(p.func("f"), arguments);
}
} // namespace

TEST_CASE("interpreter: integers, comparisons and NaN") {
  auto r = evaluate(
      R"(func.func @f(%a: tensor<4xi64>, %b: tensor<4xi64>) -> (tensor<4xi64>, tensor<4xi64>, tensor<4xi1>) {
    %d = graph.div %a, %b : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
    %m = graph.mod %a, %b : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
    %l = graph.le %a, %b : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi1>
    return %d, %m, %l : tensor<4xi64>, tensor<4xi64>, tensor<4xi1>
  })",
      {Tensor::of({4}, {7, -7, 7, 3}), Tensor::of({4}, {2, 2, -2, 3})});
  CHECK(r[0].data == Values{3, -3, -3, 1});
  CHECK(r[1].data == Values{1, 1, -1, 0});
  CHECK(r[2].data == Values{0, 1, 0, 1});
  double nan = std::numeric_limits<double>::quiet_NaN();
  r = evaluate(
      R"(func.func @f(%a: tensor<2xf32>, %b: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
    %m = graph.max %a, %b : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %r = graph.relu %a : (tensor<2xf32>) -> tensor<2xf32>
    %q = graph.round %b : (tensor<2xf32>) -> tensor<2xf32>
    return %m, %r, %q : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
  })",
      {Tensor::of({2}, {nan, -1}), Tensor::of({2}, {2.5, 3.5})});
  CHECK(std::isnan(r[0].data[0]));
  CHECK(r[0].data[1] == 3.5);
  CHECK(std::isnan(r[1].data[0]));
  CHECK(r[2].data == Values{2, 4});
}

TEST_CASE("interpreter: gather outside its shard gives zero") {
  auto r = evaluate(
      R"(func.func @f(%t: tensor<2x2xf32>, %i: tensor<3xi64>) -> (tensor<3x2xf32>, tensor<2x2xf32>) {
    %y = graph.gather %t, %i {axis = 0 : i64, start = 2 : i64} : (tensor<2x2xf32>, tensor<3xi64>) -> tensor<3x2xf32>
    %s = graph.scatter_add %i, %y {axis = 0 : i64, size = 2 : i64, start = 2 : i64} : (tensor<3xi64>, tensor<3x2xf32>) -> tensor<2x2xf32>
    return %y, %s : tensor<3x2xf32>, tensor<2x2xf32>
  })",
      {Tensor::of({2, 2}, {1, 2, 3, 4}), Tensor::of({3}, {3, 1, 3})});
  CHECK(r[0].data == Values{3, 4, 0, 0, 3, 4});
  CHECK(r[1].data == Values{0, 0, 6, 8});
}

TEST_CASE("interpreter: convolution, pooling") {
  auto r =
      evaluate(R"(func.func @f(%x: tensor<1x1x3x3xf32>, %w: tensor<1x1x2x2xf32>)
      -> (tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>) {
    %c = graph.conv %x, %w {strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64}
      : (tensor<1x1x3x3xf32>, tensor<1x1x2x2xf32>) -> tensor<1x1x2x2xf32>
    %m = graph.max_pool %x {kernel = array<i64: 2, 2>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}
      : (tensor<1x1x3x3xf32>) -> tensor<1x1x2x2xf32>
    %a = graph.avg_pool %x {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 0, 0>, include_pad = false}
      : (tensor<1x1x3x3xf32>) -> tensor<1x1x2x2xf32>
    return %c, %m, %a : tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>
  })",
               {Tensor::of({1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9}), Tensor::of({1, 1, 2, 2}, {1, 10, 100, 1000})});
  CHECK(r[0].data == Values{1000, 3200, 7040, 9865});
  CHECK(r[1].data == Values{5, 6, 8, 9});
  CHECK(r[2].data == Values{1, 2.5, 5.5, 7});
}

TEST_CASE("interpreter: random numbers are Philox of the global index") {
  // Known answer of Philox 4x32-10 for counter 0, key 0: first word 0x6627e8d5.
  auto r = evaluate(R"(func.func @f(%s: tensor<i64>) -> (tensor<2x3xf32>, tensor<1x2xf32>) {
    %y = graph.random %s {seed = 0 : i64, stream = 0 : i64} : (tensor<i64>) -> tensor<2x3xf32>
    %p = graph.random %s {seed = 0 : i64, stream = 0 : i64, global_shape = array<i64: 2, 3>, offset = array<i64: 1, 1>}
      : (tensor<i64>) -> tensor<1x2xf32>
    return %y, %p : tensor<2x3xf32>, tensor<1x2xf32>
  })",
                    {Tensor::scalar(0)});
  CHECK(r[0].data[0] == double(0x6627e8d5u >> 8) * 0x1p-24);
  CHECK(r[1].data == Values{r[0].data[4], r[0].data[5]});
}

TEST_CASE("interpreter: fused operators are their bodies") {
  auto r = evaluate(
      R"(func.func @f(%a: tensor<2x3xf32>, %b: tensor<3xf32>) -> (tensor<2x3xf32>, tensor<2xf32>) {
    %y:2 = graph.fused(%a, %b) : (tensor<2x3xf32>, tensor<3xf32>) -> (tensor<2x3xf32>, tensor<2xf32>) {
    ^bb0(%x: tensor<2x3xf32>, %z: tensor<3xf32>):
      %s = graph.add %x, %z : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
      %r = graph.relu %s : (tensor<2x3xf32>) -> tensor<2x3xf32>
      %t = graph.reduce_sum %r {dims = array<i64: 1>, keepdims = false} : (tensor<2x3xf32>) -> tensor<2xf32>
      graph.yield %r, %t : tensor<2x3xf32>, tensor<2xf32>
    }
    return %y#0, %y#1 : tensor<2x3xf32>, tensor<2xf32>
  })",
      {Tensor::of({2, 3}, {1, -5, 3, -9, 5, 6}), Tensor::of({3}, {1, 1, 1})});
  CHECK(r[0].data == Values{2, 0, 4, 0, 6, 7});
  CHECK(r[1].data == Values{6, 13});
}

TEST_CASE("interpreter: ranks in lockstep") {
  Program p(R"(func.func @f(%x: tensor<2xf32>) -> tensor<2xi64> {
    %i = graph.iota {dim = 0 : i64} : () -> tensor<2xi64>
    return %i : tensor<2xi64>
  })");
  auto attributes = [&](Operation *op, int64_t rank, NamedAttrList &attributes) {
    if (isa<graph::IotaOp>(op))
      attributes.set("start", Builder(&p.context).getI64IntegerAttr(2 * rank));
  };
  std::vector<std::vector<Tensor>> arguments(2, {Tensor::zeros({2})});
  auto r = llvm::cantFail(interpretRanks(p.func("f"), arguments, attributes));
  CHECK(r[0][0].data == Values{0, 1});
  CHECK(r[1][0].data == Values{2, 3});
}

TEST_CASE("interpreter: collectives") {
  auto collective = [](const std::string &kind, const std::string &attributes, const std::string &from,
                       const std::string &to, std::vector<std::vector<double>> blocks) {
    Program p("module attributes {dist.mesh = #dist.mesh<\"a=2,b=2\">} {\nfunc.func @f(%x: tensor<" + from +
              "xf32>) -> tensor<" + to + "xf32> {\n  %y = dist.collective \"" + kind + "\" %x {" + attributes +
              "} : (tensor<" + from + "xf32>) -> tensor<" + to + "xf32>\n  return %y : tensor<" + to + "xf32>\n}\n}");
    std::vector<std::vector<Tensor>> arguments;
    auto type = cast<RankedTensorType>(p.func("f").getArgumentTypes()[0]);
    for (const auto &block : blocks)
      arguments.push_back({Tensor::of(type.getShape(), block)});
    std::vector<Values> results;
    for (auto &r : llvm::cantFail(interpretRanks(p.func("f"), arguments)))
      results.push_back(r[0].data);
    return results;
  };
  using Ranks = std::vector<Values>;
  // Ranks 0 to 3 are (a, b) = 00, 01, 10, 11.
  CHECK(collective("slice", R"(axes = ["a", "b"], dim = 0)", "4", "1",
                   {{1, 2, 3, 4}, {1, 2, 3, 4}, {1, 2, 3, 4}, {1, 2, 3, 4}}) == Ranks{{1}, {2}, {3}, {4}});
  CHECK(collective("all-gather", R"(axes = ["a"], dim = 0)", "1", "2", {{1}, {2}, {3}, {4}}) ==
        Ranks{{1, 3}, {2, 4}, {1, 3}, {2, 4}});
  CHECK(collective("all-reduce", R"(axes = ["b"], reduction = "sum")", "1", "1", {{1}, {2}, {3}, {4}}) ==
        Ranks{{3}, {3}, {7}, {7}});
  CHECK(collective("all-reduce", R"(axes = ["a", "b"], reduction = "max")", "1", "1", {{1}, {2}, {5}, {4}}) ==
        Ranks{{5}, {5}, {5}, {5}});
  CHECK(collective("reduce-scatter", R"(axes = ["b"], dim = 0, reduction = "sum")", "2", "1",
                   {{1, 2}, {3, 4}, {5, 6}, {7, 8}}) == Ranks{{4}, {6}, {12}, {14}});
  // Cut by b along dimension 0 before, along dimension 1 after.
  CHECK(collective("all-to-all", R"(axes = ["b"], dim = 0, split_dim = 1)", "1x2", "2x1",
                   {{1, 2}, {3, 4}, {5, 6}, {7, 8}}) == Ranks{{1, 3}, {2, 4}, {5, 7}, {6, 8}});
  CHECK(collective("permute", R"(axes = ["a", "b"], sources = array<i64: 0, 2, 1, 3>)", "1", "1",
                   {{1}, {2}, {3}, {4}}) == Ranks{{1}, {3}, {2}, {4}});
  CHECK(collective("halo", R"(axes = ["a", "b"], dim = 0, halo_lo = 1 : i64, halo_hi = 2 : i64, fill = -1.0 : f64)",
                   "2", "5", {{1, 2}, {3, 4}, {5, 6}, {7, 8}}) ==
        Ranks{{-1, 1, 2, 3, 4}, {2, 3, 4, 5, 6}, {4, 5, 6, 7, 8}, {6, 7, 8, -1, -1}});
}
