#include "dialects/dist/Text.h"

#include <catch2/catch.hpp>

#include <limits>
#include <map>

using namespace tessera::dist;
using llvm::cantFail;
using llvm::toString;

namespace {

Mesh mesh2x2() { return cantFail(Mesh::parse("data=2,model=2")); }

const char *kMatMul = "... m k, ... k n -> ... m n | sum k | linear 0 1";
const char *kConv = "n (g=groups c) hwz.., (g f) c rst.. -> n (g f) hwz.. | sum c | whole rst.. | window hwz..:rst.. "
                    "| linear 0 1";

/// Attributes for rules, "name = numbers".
using Attributes = std::map<std::string, llvm::SmallVector<int64_t>>;
llvm::Expected<ShardingRule> parse(llvm::StringRef text, llvm::ArrayRef<Shape> operands, llvm::ArrayRef<Shape> results,
                                   const Attributes &attributes) {
  return ShardingRule::parse(text, operands, results, [&](llvm::StringRef name) {
    auto it = attributes.find(name.str());
    return it == attributes.end() ? std::nullopt : std::optional(it->second);
  });
}

Strategy strategy(const ShardingRule &rule, llvm::StringRef text) {
  return cantFail(parseStrategy(text, rule, mesh2x2()));
}

} // namespace

TEST_CASE("a rule's factors get their sizes from the shapes") {
  auto rule = cantFail(ShardingRule::parse(kMatMul, {{8, 4, 6}, {6, 10}}, {{8, 4, 10}}));
  CHECK(rule.str() == "b0 m k, k n -> b0 m n | sum k {b0=8, m=4, k=6, n=10}");
  auto conv = cantFail(parse(kConv, {{2, 8, 16, 16}, {12, 4, 3, 3}}, {{2, 12, 8, 8}},
                             {{"groups", {2}}, {"strides", {2, 2}}, {"pads", {1, 0, 1, 2}}}));
  CHECK(conv.factors[conv.findFactor("f")].size == 6);
  CHECK(conv.factors[conv.findFactor("c")].size == 4);
  CHECK(conv.factors[conv.findFactor("h")].size == 8); // the result's extent
  REQUIRE(conv.windows.size() == 2);
  CHECK(conv.windows[0].extent == 16);
  CHECK(conv.windows[0].outer == 8);
  CHECK(conv.windows[1].kernel == 3);
  CHECK(conv.windows[1].stride == 2);
  CHECK(conv.windows[1].dilation == 1);
  CHECK(conv.windows[1].padLo == 0);
  CHECK(conv.windows[1].padHi == 2);
}

TEST_CASE("a run stands for as many dimensions as the shapes have") {
  const char *pool = "n c hwz.. -> n c hwz.. | window(-inf) hwz..:kernel";
  Attributes kernel = {{"kernel", {2}}, {"pads", {1, 0}}};
  auto rule = cantFail(parse(pool, {{2, 3, 8}}, {{2, 3, 4}}, kernel));
  CHECK(rule.str() == "n c h -> n c h {n=2, c=3, h=4}");
  REQUIRE(rule.windows.size() == 1);
  CHECK(rule.windows[0].kernel == 2);
  CHECK(rule.windows[0].padLo == 1);
  CHECK(rule.windows[0].fill == -std::numeric_limits<double>::infinity());
  CHECK_THAT(toString(parse(pool, {{2, 3, 4, 4, 4, 4}}, {{2, 3, 4, 4, 4, 4}}, kernel).takeError()),
             Catch::Contains("column 5: 4 dimensions where 'hwz..' names 3"));
  auto same = cantFail(ShardingRule::parse("d.. -> d.. | stat(sum) d..", {{4, 1}}, {{4, 1}}));
  CHECK(same.str() == "d0 d1 -> d0 d1 | stat(sum) d0 | stat(sum) d1 {d0=4, d1=1}"); // an extent of 1 is a factor, too
}

TEST_CASE("attributes name dimensions") {
  auto text = [](llvm::StringRef rule, llvm::ArrayRef<Shape> in, llvm::ArrayRef<Shape> out, const Attributes &values) {
    return cantFail(parse(rule, in, out, values)).str();
  };
  CHECK(text("d.. -> d..[perm]", {{2, 3, 4}}, {{4, 2, 3}}, {{"perm", {2, 0, 1}}}) ==
        "d0 d1 d2 -> d2 d0 d1 {d0=2, d1=3, d2=4}");
  CHECK(text("d../dim -> d../dim", {{2, 3, 4}}, {{2, 1, 4}}, {{"dim", {1}}}) == "d0 1 d2 -> d0 1 d2 {d0=2, d2=4}");
  const char *sum = "d.. -> {keepdims ? d../dims : d..-dims} | sum d..[dims] | linear 0";
  CHECK(text(sum, {{2, 3, 4}}, {{3}}, {{"dims", {0, 2}}, {"keepdims", {0}}}) ==
        "d0 d1 d2 -> d1 | sum d0 | sum d2 {d0=2, d1=3, d2=4}");
  CHECK(text(sum, {{2, 3}}, {{1, 3}}, {{"dims", {0}}, {"keepdims", {1}}}) == "d0 d1 -> 1 d1 | sum d0 {d0=2, d1=3}");
  CHECK(text(sum, {{2, 3}}, {{}}, {{"dims", {0, 1}}, {"keepdims", {0}}}) ==
        "d0 d1 -> () | sum d0 | sum d1 {d0=2, d1=3}");
}

TEST_CASE("alternatives are chosen by attributes") {
  const char *product = "... {transpose_a ? k m : m k}, ... {transpose_b ? n k : k n} -> ... m n | sum k";
  CHECK(cantFail(parse(product, {{6, 4}, {6, 10}}, {{4, 10}}, {{"transpose_a", {1}}, {"transpose_b", {0}}})).str() ==
        "k m, k n -> m n | sum k {k=6, m=4, n=10}");
  const char *either = "m k -> m k | {inside or pads=0 ? whole k} | {inside ? linear 0 : whole m}";
  auto rule = [&](const Attributes &values) { return cantFail(parse(either, {{4, 6}}, {{4, 6}}, values)); };
  CHECK(rule({{"inside", {0}}, {"pads", {0, 0}}}).str() == "m k -> m k | whole m | whole k {m=4, k=6}");
  CHECK(rule({{"inside", {0}}, {"pads", {0, 1}}}).str() == "m k -> m k | whole m {m=4, k=6}");
  CHECK(rule({{"inside", {1}}, {"pads", {0, 1}}}).linear.size() == 1);
}

TEST_CASE("an extent of 1 that another operand stretches is not cut") {
  auto rule = cantFail(ShardingRule::parse("..., ... -> ... | linear 0+1", {{4, 6}, {1, 6}}, {{4, 6}}));
  Strategy s = strategy(rule, "b0=data, b1=model");
  CHECK(operandSharding(mesh2x2(), rule, s, 0).str(mesh2x2()) == "[data, model]");
  CHECK(operandSharding(mesh2x2(), rule, s, 1).str(mesh2x2()) == "[-, model]");
}

TEST_CASE("a cut sum factor leaves the result partial") {
  auto rule = cantFail(ShardingRule::parse(kMatMul, {{4, 6}, {6, 10}}, {{4, 10}}));
  Strategy s = strategy(rule, "m=data, k=model");
  CHECK(operandSharding(mesh2x2(), rule, s, 0).str(mesh2x2()) == "[data, model]");
  CHECK(operandSharding(mesh2x2(), rule, s, 1).str(mesh2x2()) == "[model, -]");
  CHECK(naturalResult(mesh2x2(), rule, s, 0).str(mesh2x2()) == "[data, -] sum(model)");
  Strategy passing = strategy(rule, "n=data | partial 0(model)");
  CHECK(operandSharding(mesh2x2(), rule, passing, 0).str(mesh2x2()) == "[-, -] sum(model)");
  CHECK(operandSharding(mesh2x2(), rule, passing, 1).str(mesh2x2()) == "[-, data]");
  CHECK(naturalResult(mesh2x2(), rule, passing, 0).str(mesh2x2()) == "[-, data] sum(model)");
  for (const char *text :
       {"m=data, k=model", "n=data | partial 0(model)", "m=data+model", "k=model -> [-, model]", "-> [-, -]", ""})
    CHECK(strategyText(strategy(rule, text), rule, mesh2x2()) == text);
}

TEST_CASE("a sum factor cuts the results that have it") {
  auto rule =
      cantFail(ShardingRule::parse("m k, m n -> m k, k n | sum m | linear 1", {{4, 6}, {4, 10}}, {{4, 6}, {6, 10}}));
  Strategy s = strategy(rule, "m=data, n=model");
  CHECK(naturalResult(mesh2x2(), rule, s, 0).str(mesh2x2()) == "[data, -]");
  CHECK(naturalResult(mesh2x2(), rule, s, 1).str(mesh2x2()) == "[-, model] sum(data)");
  Strategy passing = strategy(rule, "m=data | partial 0(model)");
  CHECK(naturalResult(mesh2x2(), rule, passing, 0).str(mesh2x2()) == "[data, -] sum(model)");
  CHECK(naturalResult(mesh2x2(), rule, passing, 1).str(mesh2x2()) == "[-, -] sum(data,model)");
}

TEST_CASE("an impossible strategy is refused with the reason") {
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

TEST_CASE("of several factors in one dimension the major one may be cut into padded blocks") {
  llvm::SmallVector<Shape> in{{6, 5, 4}}, out{{30, 4}};
  auto rule = cantFail(ShardingRule::parse("a b c -> (a b) c", in, out));
  auto can = [&](const char *name, int64_t shards) { return canShard(rule, rule.findFactor(name), shards, in, out); };
  CHECK(can("a", 2));
  CHECK(can("a", 4));
  CHECK_FALSE(can("b", 2)); // between the elements of a
  CHECK(can("c", 3));
  Mesh m = cantFail(Mesh::parse("x=4,y=2"));
  auto cut = [&](llvm::StringRef text) {
    Strategy s = cantFail(parseStrategy(text, rule, m));
    cantFail(verifyStrategy(rule, s, m, in, out));
    CHECK(strategyText(s, rule, m) == text);
    return operandSharding(m, rule, s, 0).str(m) + " -> " + naturalResult(m, rule, s, 0).str(m);
  };
  CHECK(cut("a=x") == "[x, -, -] -> [x/5, -]"); // two a for each rank, so ten of thirty elements
  CHECK(cut("a=y") == "[y, -, -] -> [y, -]");
  CHECK(cut("a=y/2") == "[y/2, -, -] -> [y/10, -]");
  rule.factors[0].padding = Factor::Padding::Refused;
  CHECK_FALSE(can("a", 4));
}

TEST_CASE("a factor is cut in units") {
  llvm::SmallVector<Shape> in{{4, 12}, {12, 8}}, out{{4, 8}};
  auto rule = cantFail(ShardingRule::parse(kMatMul, in, out));
  Mesh m = cantFail(Mesh::parse("x=2"));
  auto verified = [&](llvm::StringRef text) {
    return toString(verifyStrategy(rule, cantFail(parseStrategy(text, rule, m)), m, in, out));
  };
  CHECK(verified("k=x/4") == "");
  Strategy s = cantFail(parseStrategy("k=x/4", rule, m));
  CHECK(strategyText(s, rule, m) == "k=x/4");
  CHECK(operandSharding(m, rule, s, 1).str(m) == "[x/4, -]");
  CHECK(paddingMasks(rule, s, m).size() == 2); // 8 and 4 of 12 elements: the second block is padded
  CHECK(paddingMasks(rule, cantFail(parseStrategy("k=x", rule, m)), m).empty());
  CHECK_THAT(verified("k=x/6"), Catch::Contains("'k' of extent 12 has the same blocks in units of 1 as in units of 6"));
  CHECK_THAT(verified("k=x/5"), Catch::Contains("'k' of extent 12 cannot be cut in 2 parts of units of 5"));
  CHECK_THAT(verified("k=x/12"), Catch::Contains("cannot be cut in 2 parts of units of 12"));
}

TEST_CASE("a factor that shares its dimension with whole elements is cut evenly") {
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

TEST_CASE("broken rule texts are errors that name the spot") {
  Attributes attributes = {{"dim", {3}}, {"two", {1, 2}}, {"zero", {0}}};
  std::pair<const char *, const char *> broken[] = {
      {"m k", "column 1: no '->'"},
      {"m k -> (m", "column 8: '(' without ')'"},
      {"m k -> m | foo m", "column 12: unknown clause 'foo'"},
      {"m k -> m | sum q", "column 16: unknown factor 'q'"},
      {"m k -> m | stat(mean) k", "column 12: unknown statistic 'mean'"},
      {"m k -> m | linear 0 3", "column 21: '3' is no operand"},
      {"m k -> m n", "column 8: a tensor of rank 1 where the rule has 2 dimensions"},
      {"m k, n -> m", "column 1: it speaks of 2 operands and 1 results; the operator has 1 and 1"},
      {"m & -> m", "column 3: unexpected '& -> m'"},
      {"(g c) n -> n", "column 1: the size of factor 'g' does not follow from the shapes"},
      {"(m=groups k) n -> m", "column 1: the operator has no attribute 'groups'"},
      {"d.. -> e..-zero", "column 8: no tensor tells"},
      {"d.. e.. -> d", "column 5: only one part of a tensor may stand for several dimensions"},
      {"d.. -> d..-dim", "column 8: 'dim' names dimension 3 of 2"},
      {"d.. -> d..[zero", "column 16: expected ']'"},
      {"m k -> m | window k:kernel", "column 19: 'kernel' is neither a factor nor an attribute"},
      {"m k -> m | window(wide) k:m", "column 12: unknown word 'wide' of a window"},
      {"m k -> {zero ? m", "column 8: '{' without '}'"},
      {"m k -> {zero m}", "column 8: alternatives without '?'"},
      {"m k -> m}", "column 9: '}' without '{'"},
      {"m k -> m | {keep ? sum k}", "column 12: the operator has no attribute 'keep'"},
  };
  for (auto [text, why] : broken) {
    INFO(text);
    auto rule = parse(text, {{4, 6}}, {{4}}, attributes);
    REQUIRE_FALSE(bool(rule));
    CHECK_THAT(toString(rule.takeError()), Catch::Contains("sharding rule '") && Catch::Contains(why));
  }
}
