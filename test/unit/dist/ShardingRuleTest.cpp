#include "dialects/dist/Text.h"

#include <catch2/catch.hpp>

using namespace tessera::dist;
using llvm::cantFail;
using llvm::toString;

namespace {

Mesh mesh2x2() { return cantFail(Mesh::parse("data=2,model=2")); }

const char *kMatMul = "... m k, ... k n -> ... m n | sum k | linear 0 1";
const char *kConv = "n (g c) h w, (g f) c r s -> n (g f) h w | sum c | whole r s | window h:r w:s | linear 0 1";

Strategy strategy(const ShardingRule &rule, llvm::StringRef text) {
  return cantFail(parseStrategy(text, rule, mesh2x2()));
}

} // namespace

TEST_CASE("a rule's factors get their sizes from the shapes") {
  auto rule = cantFail(ShardingRule::parse(kMatMul, {{8, 4, 6}, {6, 10}}, {{8, 4, 10}}));
  CHECK(rule.str() == "b0 m k, k n -> b0 m n | sum k {b0=8, m=4, k=6, n=10}");
  auto conv = cantFail(ShardingRule::parse(kConv, {{2, 8, 16, 16}, {12, 4, 3, 3}}, {{2, 12, 8, 8}}, {{"g", 2}}));
  CHECK(conv.factors[conv.findFactor("f")].size == 6);
  CHECK(conv.factors[conv.findFactor("c")].size == 4);
  CHECK(conv.factors[conv.findFactor("h")].size == 8); // the result's extent
  REQUIRE(conv.windows.size() == 2);
  CHECK(conv.windows[0].extent == 16);
  CHECK(conv.windows[0].outer == 8);
}

TEST_CASE("an extent of 1 that another operand stretches is not cut") {
  auto rule = cantFail(ShardingRule::parse("..., ... -> ... | linear 0+1", {{4, 6}, {1, 6}}, {{4, 6}}));
  Strategy s = strategy(rule, "b0=data, b1=model");
  CHECK(operandSharding(rule, s, 0).str(mesh2x2()) == "[data, model]");
  CHECK(operandSharding(rule, s, 1).str(mesh2x2()) == "[-, model]");
}

TEST_CASE("a cut sum factor leaves the result partial") {
  auto rule = cantFail(ShardingRule::parse(kMatMul, {{4, 6}, {6, 10}}, {{4, 10}}));
  Strategy s = strategy(rule, "m=data, k=model");
  CHECK(operandSharding(rule, s, 0).str(mesh2x2()) == "[data, model]");
  CHECK(operandSharding(rule, s, 1).str(mesh2x2()) == "[model, -]");
  CHECK(naturalResult(rule, s, 0).str(mesh2x2()) == "[data, -] sum(model)");
  Strategy passing = strategy(rule, "n=data | partial 0(model)");
  CHECK(operandSharding(rule, passing, 0).str(mesh2x2()) == "[-, -] sum(model)");
  CHECK(operandSharding(rule, passing, 1).str(mesh2x2()) == "[-, data]");
  CHECK(naturalResult(rule, passing, 0).str(mesh2x2()) == "[-, data] sum(model)");
  for (const char *text :
       {"m=data, k=model", "n=data | partial 0(model)", "m=data+model", "k=model -> [-, model]", "-> [-, -]", ""})
    CHECK(strategyText(strategy(rule, text), rule, mesh2x2()) == text);
}

TEST_CASE("a sum factor cuts the results that have it") {
  auto rule =
      cantFail(ShardingRule::parse("m k, m n -> m k, k n | sum m | linear 1", {{4, 6}, {4, 10}}, {{4, 6}, {6, 10}}));
  Strategy s = strategy(rule, "m=data, n=model");
  CHECK(naturalResult(rule, s, 0).str(mesh2x2()) == "[data, -]");
  CHECK(naturalResult(rule, s, 1).str(mesh2x2()) == "[-, model] sum(data)");
  Strategy passing = strategy(rule, "m=data | partial 0(model)");
  CHECK(naturalResult(rule, passing, 0).str(mesh2x2()) == "[data, -] sum(model)");
  CHECK(naturalResult(rule, passing, 1).str(mesh2x2()) == "[-, -] sum(data,model)");
}

TEST_CASE("impossible strategies are refused with the reason") {
  llvm::SmallVector<Shape> in{{4, 6}, {6, 10}}, out{{4, 10}};
  auto rule = cantFail(ShardingRule::parse(kMatMul, in, out));
  auto error = [&](llvm::StringRef text) {
    return toString(verifyStrategy(rule, strategy(rule, text), mesh2x2(), in, out));
  };
  CHECK(error("m=data, k=model") == "");
  CHECK_THAT(error("m=data, n=data"), Catch::Contains("used twice"));
  llvm::SmallVector<Shape> small{{4, 6}, {6, 3}}, smallOut{{4, 3}};
  auto few = cantFail(ShardingRule::parse(kMatMul, small, smallOut));
  CHECK_THAT(toString(verifyStrategy(few, strategy(few, "n=data+model"), mesh2x2(), small, smallOut)),
             Catch::Contains("'n' of extent 3 cannot be cut in 4"));
  CHECK_THAT(error("m=data -> [-, -] sum(data)"), Catch::Contains("cannot be partial over 'data'"));
  auto bad = parseStrategy("q=data", rule, mesh2x2());
  CHECK_THAT(toString(bad.takeError()), Catch::Contains("no factor 'q'"));
}

TEST_CASE("padding is overwritten where it would be reduced over") {
  llvm::SmallVector<Shape> in{{5, 7}, {7, 10}}, out{{5, 10}};
  auto rule = cantFail(ShardingRule::parse(kMatMul, in, out));
  auto masks = [&](llvm::StringRef text) {
    Strategy s = strategy(rule, text);
    cantFail(verifyStrategy(rule, s, mesh2x2(), in, out));
    std::string list;
    for (const PaddingMask &mask : paddingMasks(rule, s, mesh2x2()))
      list +=
          std::to_string(mask.operand) + "/" + std::to_string(mask.dim) + " " + stringify(mask.reduction).str() + ";";
    return list;
  };
  CHECK(masks("m=data, n=model") == "");
  CHECK(masks("k=model") == "0/1 sum;1/0 sum;");
  rule.factors[rule.findFactor("k")].padding = Factor::Padding::Excluded;
  CHECK(masks("k=model") == "");
  rule.factors[rule.findFactor("k")].padding = Factor::Padding::Refused;
  CHECK_FALSE(canShard(rule, rule.findFactor("k"), 2, in, out));
}

TEST_CASE("several factors in one dimension are cut evenly") {
  llvm::SmallVector<Shape> in{{6, 5, 4}}, out{{30, 4}};
  auto rule = cantFail(ShardingRule::parse("a b c -> (a b) c", in, out));
  auto can = [&](const char *name, int64_t shards) { return canShard(rule, rule.findFactor(name), shards, in, out); };
  CHECK(can("a", 2));
  CHECK_FALSE(can("a", 4));
  CHECK_FALSE(can("b", 2));
  CHECK(can("c", 3));
}

TEST_CASE("a factor beside elements that nothing cuts is cut evenly") {
  // A reshape of [6, 7, 8] to [24, 14]: the first dimension of the result is the factor and four more elements.
  llvm::SmallVector<Shape> in{{6, 7, 8}}, out{{24, 14}};
  ShardingRule rule;
  int f = rule.addFactor("r0", 6);
  rule.operands = {{{f}, {}, {}}};
  rule.results = {{{f}, {}}};
  CHECK(canShard(rule, f, 3, in, out));
  CHECK_FALSE(canShard(rule, f, 5, in, out)); // blocks of 2 rows, but of 5 elements of 24
}

TEST_CASE("an inner factor is cut only where the outer one is cut entirely") {
  llvm::SmallVector<Shape> in{{6, 4}}, out{{24}};
  auto rule = cantFail(ShardingRule::parse("a b -> (a b)", in, out));
  auto ok = [&](llvm::StringRef text) {
    return toString(verifyStrategy(rule, strategy(rule, text), mesh2x2(), in, out)).empty();
  };
  CHECK(ok("a=data"));
  CHECK_FALSE(ok("b=data"));
}

TEST_CASE("the halo of a window follows from kernel, stride, dilation and padding") {
  Window w;
  w.extent = 16, w.outer = 16, w.kernel = 3, w.padLo = 1, w.padHi = 1;
  CHECK(*w.halo(2) == Window::Halo{1, 1});
  w.outer = 8, w.stride = 2;
  CHECK(*w.halo(2) == Window::Halo{1, 0});
  w.kernel = 1, w.padLo = w.padHi = 0;
  CHECK(*w.halo(4) == Window::Halo{0, 0});
  w.outer = 7;
  CHECK_FALSE(w.halo(2)); // 7 does not divide
  Window wide;
  wide.extent = wide.outer = 8, wide.kernel = 7, wide.padLo = wide.padHi = 3;
  CHECK(*wide.halo(2) == Window::Halo{3, 3});
  CHECK_FALSE(wide.halo(4)); // blocks of 2 rows, halo of 3
  Window back;               // adjoint of the 3x3, stride 2 one: dy 8 -> dx 16
  back.extent = 8, back.outer = 16, back.kernel = 3, back.stride = 2, back.padLo = 1, back.transposed = true;
  CHECK(*back.halo(2) == Window::Halo{0, 1});
}

TEST_CASE("broken rule texts are errors") {
  for (const char *text : {"m k", "m k -> (m", "m -> m | foo m", "m -> m | sum q", "m -> m | linear 3", "m k -> m"}) {
    auto rule = ShardingRule::parse(text, {{4}}, {{4}});
    CHECK_FALSE(bool(rule));
    llvm::consumeError(rule.takeError());
  }
}
