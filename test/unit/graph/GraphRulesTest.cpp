// The sharding rule, the type verifier and the localisation of operators, from their textual form.
#include "dialects/dist/DistDialect.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphKinds.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

#include <catch2/catch.hpp>

using namespace tessera;
using namespace mlir;

namespace {

struct Parsed {
  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  std::string diagnostics;

  /// `op` in a function with the arguments given, "%x: tensor<4xf32>, ...".
  Parsed(StringRef arguments, StringRef op) {
    context.loadDialect<graph::GraphDialect, dist::DistDialect, func::FuncDialect>();
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &d) {
      diagnostics += d.str();
      return success();
    });
    module =
        parseSourceString<ModuleOp>(("func.func @f(" + arguments + ") {\n  " + op + "\n  return\n}").str(), &context);
  }
  Operation *op() { return &(*(*module).getOps<func::FuncOp>().begin()).getBody().front().front(); }
  dist::ShardingRule rule() { return llvm::cantFail(cast<dist::ShardingRuleOpInterface>(op()).getShardingRule()); }
};

std::string ruleOf(StringRef arguments, StringRef op) {
  Parsed p(arguments, op);
  INFO(p.diagnostics);
  REQUIRE(p.module);
  return p.rule().str();
}

std::string reshape(StringRef from, StringRef to) {
  return ruleOf(("%x: tensor<" + from + "xf32>").str(),
                ("graph.reshape %x : (tensor<" + from + "xf32>) -> tensor<" + to + "xf32>").str());
}

} // namespace

TEST_CASE("rules of attention") {
  CHECK(ruleOf("%q: tensor<2x8x4x6xf32>, %k: tensor<2x8x5x6xf32>, %v: tensor<2x8x5x3xf32>, %b: "
               "tensor<2x1x1x5xf32>",
               "graph.attention %q, %k, %v, %b {scale = 1.0 : f64} : (tensor<2x8x4x6xf32>, "
               "tensor<2x8x5x6xf32>, tensor<2x8x5x3xf32>, tensor<2x1x1x5xf32>) -> "
               "tensor<2x8x4x3xf32>") == "b0 h m d, b0 h n d, b0 h n e, b0 1 1 n -> b0 h m e | whole d | whole n "
                                         "{b0=2, h=8, m=4, d=6, n=5, e=3}");
  // A number for each row of each head, heads first in any case.
  CHECK(ruleOf("%q: tensor<2x4x8x6xf32>, %k: tensor<2x5x8x6xf32>, %v: tensor<2x5x8x3xf32>",
               "graph.attention %q, %k, %v {scale = 1.0 : f64, rows_first = true, keeps_statistics} : "
               "(tensor<2x4x8x6xf32>, tensor<2x5x8x6xf32>, tensor<2x5x8x3xf32>) -> (tensor<2x4x8x3xf32>, "
               "tensor<2x8x4xf32>)") == "b0 m h d, b0 n h d, b0 n h e -> b0 m h e, b0 h m | whole d | whole n "
                                        "{b0=2, m=4, h=8, d=6, n=5, e=3}");
  // Queries are grouped, and rows stand before heads.
  CHECK(
      ruleOf("%y: tensor<4x8x3xf32>, %q: tensor<4x8x6xf32>, %k: tensor<5x2x6xf32>, %v: "
             "tensor<5x2x3xf32>, %s: tensor<8x4xf32>, %b: tensor<8x4x1xf32>",
             "graph.attention_grad %y, %q, %k, %v, %y, %s, %b {scale = 1.0 : f64, rows_first = true} : "
             "(tensor<4x8x3xf32>, tensor<4x8x6xf32>, tensor<5x2x6xf32>, tensor<5x2x3xf32>, tensor<4x8x3xf32>, "
             "tensor<8x4xf32>, tensor<8x4x1xf32>) -> (tensor<4x8x6xf32>, tensor<5x2x6xf32>, tensor<5x2x3xf32>)") ==
      "m (u g) e, m (u g) d, n u d, n u e, m (u g) e, (u g) m, (u g) m 1 -> m (u g) d, n u d, n u e | sum m | sum g | "
      "whole e | whole d | whole n {m=4, u=2, g=4, e=3, d=6, n=5}");
  // What dropout keeps is cut as the scores would be, with a bias and without.
  CHECK(ruleOf("%q: tensor<2x4x8x6xf32>, %k: tensor<2x5x8x6xf32>, %b: tensor<5xf32>, %keep: tensor<2x8x4x5xi1>",
               "graph.attention %q, %k, %k, %b, %keep {scale = 1.0 : f64, rows_first = true, keep_scale = 2.0 : f64} : "
               "(tensor<2x4x8x6xf32>, tensor<2x5x8x6xf32>, tensor<2x5x8x6xf32>, tensor<5xf32>, tensor<2x8x4x5xi1>) -> "
               "tensor<2x4x8x6xf32>") == "b0 m h d, b0 n h d, b0 n h e, n, b0 h m n -> b0 m h e | whole d | whole n "
                                         "{b0=2, m=4, h=8, d=6, n=5, e=6}");
  CHECK(ruleOf("%y: tensor<2x8x4x3xf32>, %q: tensor<2x8x4x6xf32>, %k: tensor<2x2x5x6xf32>, %v: tensor<2x2x5x3xf32>, "
               "%s: tensor<2x8x4xf32>, %keep: tensor<2x8x4x5xi1>",
               "graph.attention_grad %y, %q, %k, %v, %y, %s, %keep {scale = 1.0 : f64, keep_scale = 2.0 : f64} : "
               "(tensor<2x8x4x3xf32>, tensor<2x8x4x6xf32>, tensor<2x2x5x6xf32>, tensor<2x2x5x3xf32>, "
               "tensor<2x8x4x3xf32>, tensor<2x8x4xf32>, tensor<2x8x4x5xi1>) -> (tensor<2x8x4x6xf32>, "
               "tensor<2x2x5x6xf32>, tensor<2x2x5x3xf32>)") ==
        "b0 (u g) m e, b0 (u g) m d, b0 u n d, b0 u n e, b0 (u g) m e, b0 (u g) m, b0 (u g) m n -> b0 (u g) m d, "
        "b0 u n d, b0 u n e | sum g | sum m | whole e | whole d | whole n {b0=2, u=2, g=4, m=4, e=3, d=6, n=5}");
}

TEST_CASE("rules of contractions") {
  CHECK(ruleOf("%a: tensor<8x4x6xf32>, %b: tensor<10x6xf32>",
               "graph.matmul %a, %b {transpose_b = true} : (tensor<8x4x6xf32>, tensor<10x6xf32>) "
               "-> tensor<8x4x10xf32>") == "b0 m k, n k -> b0 m n | sum k {b0=8, m=4, k=6, n=10}");
  CHECK(ruleOf("%x: tensor<2x8x16x16xf32>, %w: tensor<12x8x3x3xf32>",
               "graph.conv %x, %w {strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations "
               "= "
               "array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x8x16x16xf32>, tensor<12x8x3x3xf32>) -> "
               "tensor<2x12x8x8xf32>") == "n (g c) h w, (g f) c r s -> n (g f) h w | sum c | whole r | "
                                          "whole s {n=2, g=1, c=8, h=8, w=8, f=12, "
                                          "r=3, s=3}");
  CHECK(ruleOf("%x: tensor<2x8x16xf32>, %dy: tensor<2x12x16xf32>",
               "graph.conv_weight_grad %x, %dy {kernel_sizes = array<i64: 3>, strides = array<i64: "
               "1>, pads = "
               "array<i64: 1, 1>, dilations = array<i64: 1>, groups = 1 : i64} : (tensor<2x8x16xf32>, "
               "tensor<2x12x16xf32>) -> tensor<12x8x3xf32>") ==
        "n (g c) h, n (g f) h -> (g f) c r | sum n | sum h | whole r {n=2, g=1, c=8, h=16, f=12, "
        "r=3}");
}

TEST_CASE("a reshape keeps the factors that stay contiguous") {
  CHECK(reshape("6x4", "24") == "r0 r1 -> (r0 r1) {r0=6, r1=4}");
  CHECK(reshape("8x64x4x4", "8x1024") == "r0 r1 r2 r3 -> r0 (r1 r2 r3) {r0=8, r1=64, r2=4, r3=4}");
  CHECK(reshape("4x32x96", "4x32x8x12") == "r0 r1 (r2 r3) -> r0 r1 r2 r3 {r0=4, r1=32, r2=8, r3=12}");
  CHECK(reshape("16", "1x16x1x1") == "r0 -> 1 r0 1 1 {r0=16}");
  CHECK(reshape("2x3", "3x2") == "1 1 -> 1 1 {}");
  CHECK(reshape("2x3x5", "3x2x5") == "1 1 r0 -> 1 1 r0 {r0=5}");
  CHECK(reshape("6x4", "3x8") == "(r0 r1) r2 -> r0 (r1 r2) {r0=3, r1=2, r2=4}");
}

TEST_CASE("gather sums over the vocabulary, its adjoint over the indices") {
  CHECK(ruleOf("%t: tensor<100x16xf32>, %i: tensor<4x8xi64>",
               "graph.gather %t, %i {axis = 0 : i64} : (tensor<100x16xf32>, tensor<4x8xi64>) -> "
               "tensor<4x8x16xf32>") == "v c0, i0 i1 -> i0 i1 c0 | sum v {v=100, i0=4, i1=8, c0=16}");
  CHECK(ruleOf("%i: tensor<4x8xi64>, %u: tensor<4x8x16xf32>",
               "graph.scatter_add %i, %u {axis = 0 : i64, size = 100 : i64} : (tensor<4x8xi64>, "
               "tensor<4x8x16xf32>) -> tensor<100x16xf32>") ==
        "i0 i1, i0 i1 c0 -> v c0 | sum i0 | sum i1 {v=100, i0=4, i1=8, c0=16}");
}

TEST_CASE("rules of elementwise operators, reductions and constants") {
  CHECK(ruleOf("%a: tensor<4x6xf32>, %b: tensor<6xf32>",
               "graph.add %a, %b : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>") ==
        "b0 b1, b1 -> b0 b1 {b0=4, b1=6}");
  CHECK(ruleOf("%a: tensor<4x6xf32>", "graph.reduce_max %a {dims = array<i64: 0>, keepdims = true} : "
                                      "(tensor<4x6xf32>) -> tensor<1x6xf32>") == "d0 d1 -> 1 d1 | max d0 {d0=4, d1=6}");
  CHECK(ruleOf("", "graph.constant dense<1.0> : tensor<4x6xf32>") == "-> b0 b1 {b0=4, b1=6}");
  CHECK(ruleOf("", "graph.constant dense<[1.0, 2.0]> : tensor<2xf32>") == "-> 1 {}");
  CHECK(ruleOf("%s: tensor<i64>", "graph.random %s {seed = 1 : i64, stream = 2 : i64} : "
                                  "(tensor<i64>) -> tensor<4x6xf32>") == "() -> b0 b1 {b0=4, b1=6}");
}

TEST_CASE("overlapping windows stay whole in max_pool_grad") {
  auto pool = [](StringRef kernel, StringRef pads, StringRef out) {
    return ruleOf(("%x: tensor<2x3x8x8xf32>, %dy: tensor<2x3x" + out + "xf32>").str(),
                  ("graph.max_pool_grad %x, %dy {kernel = array<i64: " + kernel +
                   ">, strides = array<i64: 2, 2>, pads = array<i64: " + pads +
                   ">, dilations = array<i64: 1, 1>} : (tensor<2x3x8x8xf32>, tensor<2x3x" + out +
                   "xf32>) -> tensor<2x3x8x8xf32>")
                      .str());
  };
  CHECK(pool("2, 2", "0, 0, 0, 0", "4x4") == "n c h w, n c h w -> n c h w {n=2, c=3, h=8, w=8}");
  CHECK(pool("3, 3", "1, 1, 1, 1", "4x4") == "n c h w, n c h w -> n c h w | whole h | whole w {n=2, c=3, h=8, w=8}");
}

TEST_CASE("wrong types are refused with the reason") {
  auto error = [](StringRef arguments, StringRef op) {
    Parsed p(arguments, op);
    CHECK_FALSE(p.module);
    return p.diagnostics;
  };
  CHECK_THAT(error("%a: tensor<4x6xf32>, %b: tensor<5xf32>",
                   "graph.add %a, %b : (tensor<4x6xf32>, tensor<5xf32>) -> tensor<4x6xf32>"),
             Catch::Contains("broadcast"));
  CHECK_THAT(error("%a: tensor<4x6xf32>, %b: tensor<5x3xf32>",
                   "graph.matmul %a, %b : (tensor<4x6xf32>, tensor<5x3xf32>) -> tensor<4x3xf32>"),
             Catch::Contains("inner extents 6 and 5"));
  CHECK_THAT(error("%x: tensor<4x6xf32>", "graph.reshape %x : (tensor<4x6xf32>) -> tensor<23xf32>"),
             Catch::Contains("number"));
  CHECK_THAT(error("%x: tensor<4x6xf32>", "graph.transpose %x {perm = array<i64: 0, 0>} : (tensor<4x6xf32>) -> "
                                          "tensor<6x4xf32>"),
             Catch::Contains("permutation"));
}

TEST_CASE("convolutions that suit Winograd's algorithm have rates of their own") {
  const auto kind = [](int64_t channels, int64_t images, StringRef window, StringRef how) {
    const std::string c = std::to_string(channels), x = std::to_string(images) + "x" + c + "x28x28xf32",
                      w = c + "x" + c + "x" + window.str() + "xf32";
    Parsed p("%x: tensor<" + x + ">, %w: tensor<" + w + ">",
             ("graph.conv %x, %w {" + how + "} : (tensor<" + x + ">, tensor<" + w + ">) -> tensor<" + x + ">").str());
    INFO(p.diagnostics);
    REQUIRE(p.module);
    const dist::Shape data{images, channels, 28, 28}, weights{channels, channels, window[0] - '0', window[0] - '0'};
    return graph::rateKind(p.op(), {data, weights}, {data});
  };
  const std::string once = "dilations = array<i64: 1, 1>, groups = 1, strides = array<i64: 1, 1>, pads = array<i64: ";
  CHECK(kind(32, 2, "3x3", once + "1, 1, 1, 1>") == "large 3x3");
  CHECK(kind(16, 4, "3x3", once + "1, 1, 1, 1>") == "");
  CHECK(kind(32, 1, "3x3", once + "1, 1, 1, 1>") == "");
  CHECK(kind(32, 2, "1x1", once + "0, 0, 0, 0>") == "");
  CHECK(kind(32, 2, "5x5", once + "2, 2, 2, 2>") == "");
}
