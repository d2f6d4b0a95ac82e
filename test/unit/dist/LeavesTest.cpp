// Leaves: which factor of a rule has them, what may no longer be cut, and in which order ranks add.
#include "dialects/dist/leaves/LeafRule.h"

#include "llvm/ADT/STLExtras.h"

#include <catch2/catch.hpp>

using namespace tessera::dist;
using llvm::cantFail;

namespace {

ShardingRule withLeaves(llvm::StringRef text, std::vector<Shape> in, std::vector<Shape> out, int64_t most) {
  ShardingRule rule = cantFail(ShardingRule::parse(text, in, out));
  giveLeaves(rule, most);
  return rule;
}

bool mayCut(const ShardingRule &rule, llvm::StringRef factor, int64_t shards, std::vector<Shape> in,
            std::vector<Shape> out) {
  return canShard(rule, rule.findFactor(factor), shards, in, out);
}

} // namespace

TEST_CASE("the summed factor counts leaves") {
  const std::vector<Shape> in = {{6, 12}, {12, 10}}, out = {{6, 10}};
  const ShardingRule rule = withLeaves("m k, k n -> m n | sum k | linear 0 1", in, out, 8);
  CHECK(rule.str() == "m (k k.leaf), (k k.leaf) n -> m n | sum k | whole k.leaf {m=6, k=4, n=10, k.leaf=3}");
  CHECK(leafFactor(rule) == rule.findFactor("k"));
  CHECK(mayCut(rule, "k", 2, in, out));
  CHECK(mayCut(rule, "k", 4, in, out));
  for (int64_t shards : {3, 6, 8, 12})
    CHECK_FALSE(mayCut(rule, "k", shards, in, out));
  CHECK(mayCut(rule, "m", 4, in, out)); // padded, as before

  // Two ranks hold two leaves each, and their results are partial.
  const Mesh mesh = cantFail(Mesh::parse("data=2"));
  Strategy strategy;
  strategy.factors.resize(rule.factors.size());
  strategy.factors[size_t(leafFactor(rule))] = Cut(AxisList{0});
  CHECK_FALSE(bool(verifyStrategy(rule, strategy, mesh, in, out)));
  CHECK(operandSharding(mesh, rule, strategy, 0).str(mesh) == "[-, data]");
  CHECK(naturalResult(mesh, rule, strategy, 0).str(mesh) == "[-, -] sum(data)");
}

TEST_CASE("a factor that has no even part is whole") {
  const std::vector<Shape> in = {{6, 7}, {7, 10}}, out = {{6, 10}};
  const ShardingRule rule = withLeaves("m k, k n -> m n | sum k | linear 0 1", in, out, 8);
  CHECK(leafFactor(rule) < 0);
  CHECK_FALSE(mayCut(rule, "k", 7, in, out));
  CHECK(rule.linear.empty());
}

TEST_CASE("one summed factor has leaves, the first that can") {
  const std::vector<Shape> in = {{8, 4, 16}}, out = {{4}};
  ShardingRule rule = withLeaves("n c h -> c | sum n h", in, out, 4);
  CHECK(rule.findFactor("n.leaf") >= 0);
  CHECK(mayCut(rule, "n", 4, in, out));
  CHECK_FALSE(mayCut(rule, "h", 2, in, out));
  // Odd, or behind another factor of its dimension.
  rule = withLeaves("n c h -> c | sum n h", {{3, 4, 16}}, {{4}}, 4);
  CHECK(rule.findFactor("h.leaf") >= 0);
  rule = cantFail(ShardingRule::parse("(g c) -> g | sum c", {{12}}, {{3}}));
  giveLeaves(rule, 4);
  CHECK(leafFactor(rule) < 0);
}

TEST_CASE("output channels stay together in blocks") {
  const llvm::StringRef conv = "n c h, f c r -> n f h | sum c | whole r | window h:r";
  const std::vector<Shape> in = {{4, 8, 12}, {32, 8, 1}}, out = {{4, 32, 12}};
  const ShardingRule rule = withLeaves(conv, in, out, 8);
  CHECK(mayCut(rule, "f", 2, in, out));
  CHECK_FALSE(mayCut(rule, "f", 4, in, out));
  CHECK(mayCut(rule, "n", 4, in, out));
  // The channels that are summed are whole: their leaves would cost more than cutting them could gain.
  CHECK(leafFactor(rule) < 0);
  CHECK_FALSE(mayCut(rule, "c", 2, in, out));
  CHECK_FALSE(mayCut(withLeaves(conv, {{4, 8, 12}, {6, 8, 1}}, {{4, 6, 12}}, 8), "f", 2, {{4, 8, 12}, {6, 8, 1}},
                     {{4, 6, 12}}));
}

TEST_CASE("a gradient of weights keeps both kinds of channels together in blocks") {
  const std::vector<Shape> in = {{4, 32, 12}, {4, 5, 12}}, out = {{5, 32, 1}};
  const ShardingRule rule = withLeaves("n c h, n f h -> f c r | sum n h | whole r | window h:r", in, out, 8);
  CHECK(mayCut(rule, "n", 4, in, out));
  CHECK(rule.findFactor("n.leaf") >= 0);
  CHECK(mayCut(rule, "c", 2, in, out));
  CHECK_FALSE(mayCut(rule, "c", 4, in, out));
  CHECK_FALSE(mayCut(rule, "f", 5, in, out));
}

TEST_CASE("groups of channels stay together in pairs") {
  const llvm::StringRef conv = "n (g c) h, (g f) c r -> n (g f) h | sum c | whole r | window h:r";
  auto groups = [&](int64_t count, llvm::StringRef text) {
    return cantFail(ShardingRule::parse(text, {{4, 4 * count, 12}, {4 * count, 4, 1}}, {{4, 4 * count, 12}},
                                        [&](llvm::StringRef) { return llvm::SmallVector<int64_t>{count}; }));
  };
  const std::string text = std::string(conv).replace(conv.find("(g c)"), 5, "(g=groups c)");
  for (auto [count, shards, may] :
       {std::tuple{4, 2, true}, {4, 4, false}, {8, 4, true}, {6, 3, true}, {2, 2, false}, {3, 3, false}}) {
    ShardingRule rule = groups(count, text);
    giveLeaves(rule, 8);
    INFO(count << " groups in " << shards << ": " << rule.str());
    CHECK(mayCut(rule, "g", shards, {{4, 4 * count, 12}, {4 * count, 4, 1}}, {{4, 4 * count, 12}}) == may);
  }
}

TEST_CASE("statistics are whole, maxima are as before") {
  const std::vector<Shape> in = {{8, 4}};
  const ShardingRule softmax = withLeaves("m k -> m k | stat(max, sum) k", in, in, 4);
  CHECK_FALSE(mayCut(softmax, "k", 2, in, in));
  CHECK(mayCut(softmax, "m", 2, in, in));
  const std::vector<Shape> out = {{8}};
  CHECK(mayCut(withLeaves("m k -> m | max k", in, out, 4), "k", 2, in, out));
}

TEST_CASE("several axes cut leaves in the order of the mesh") {
  const std::vector<Shape> in = {{6, 16}, {16, 10}}, out = {{6, 10}};
  const ShardingRule rule = withLeaves("m k, k n -> m n | sum k | linear 0 1", in, out, 4);
  const Mesh mesh = cantFail(Mesh::parse("a=2,b=2"));
  Strategy strategy;
  strategy.factors.resize(rule.factors.size());
  Cut &cut = strategy.factors[size_t(leafFactor(rule))];
  cut = Cut(AxisList{0, 1});
  CHECK_FALSE(bool(verifyStrategy(rule, strategy, mesh, in, out)));
  cut = Cut(AxisList{1, 0});
  CHECK(llvm::toString(verifyStrategy(rule, strategy, mesh, in, out)) ==
        "factor 'k' has leaves and cannot be cut by 'b' before 'a': a reproducible plan adds in the order of the mesh");
  const Mesh eight = cantFail(Mesh::parse("a=8"));
  cut = Cut(AxisList{0});
  CHECK(llvm::toString(verifyStrategy(rule, strategy, eight, in, out)) ==
        "factor 'k' has 4 leaves and cannot be cut in 8 parts: a reproducible plan gives every rank as many leaves");
}

TEST_CASE("a rank's leaves are ranks along one more axis") {
  const std::vector<Shape> in = {{6, 16}, {16, 10}}, out = {{6, 10}};
  const ShardingRule rule = withLeaves("m k, k n -> m n | sum k", in, out, 8);
  const Mesh mesh = cantFail(Mesh::parse("a=2,b=2"));
  Strategy strategy;
  strategy.factors.resize(rule.factors.size());
  strategy.factors[size_t(leafFactor(rule))] = Cut(AxisList{1});
  const std::optional<LeafCut> cut = leafCut(rule, strategy, mesh);
  REQUIRE(cut);
  CHECK(cut->count == 4);
  CHECK(cut->mesh.str() == "a=2,b=2,(leaves)=4");
  CHECK(cut->rank(3, 2) == 14);
  const Sharding x = operandSharding(cut->mesh, rule, cut->strategy, 0);
  CHECK(cut->dim(x) == 1);
  CHECK(x.localShape(cut->mesh, in[0]) == Shape{6, 2});
  CHECK(x.offset(cut->mesh, in[0], 14)[1] == 12); // the third leaf of the second half
  CHECK(cut->dim(naturalResult(cut->mesh, rule, cut->strategy, 0)) < 0);
  // All leaves are cut by the mesh: each rank computes one, at once.
  CHECK_FALSE(leafCut(withLeaves("m k, k n -> m n | sum k", in, out, 2), strategy, mesh));
}

TEST_CASE("reshards add along minor axes first, and never one term after the other") {
  const Mesh mesh = cantFail(Mesh::parse("a=2,b=4,c=2"));
  const Shape shape = {16, 16};
  // A cost that would prefer every other way.
  const CollectiveCost cost = inLeafOrder([](const Collective &c, int64_t) {
    return c.kind == CollectiveKind::Exchange || c.kind == CollectiveKind::Fold ? 0.0 : c.axes.front() == 0 ? 1 : 100;
  });
  Sharding from = Sharding::replicated(2);
  from.partial = {0, 1, 2};
  from.reduction = Reduction::Sum;
  auto cutBy = [](Cut rows, Cut columns) {
    Sharding to;
    to.dims = {std::move(rows), std::move(columns)};
    return to;
  };
  for (const Sharding &to : {cutBy({}, {}), cutBy({0}, {}), cutBy({2}, {0}), cutBy({2, 0}, {}), cutBy({1}, {2, 0}),
                             cutBy({0, 1, 2}, {}), cutBy({2, 1, 0}, {})}) {
    INFO(to.str(mesh));
    int least = mesh.numAxes(); // of the axes that are added
    for (const Collective &c : planReshard(mesh, shape, 4, from, to, cost)) {
      CHECK(c.kind != CollectiveKind::Fold);
      if (c.reduction != Reduction::Sum)
        continue;
      CHECK(llvm::is_sorted(c.axes));
      CHECK(c.axes.back() == least - 1);
      least = c.axes.front();
    }
    CHECK(least == 0);
  }
}
