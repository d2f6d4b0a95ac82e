// Collectives that an operator brings along: halos of windows, reductions of statistics, reshards of results.
#include "dialects/dist/OwnCollectives.h"

#include <catch2/catch.hpp>

using namespace tessera::dist;

namespace {

struct Case {
  Mesh mesh;
  std::vector<Shape> operands, results;
  ShardingRule rule;
  WirePlanner planner;

  Case(const char *meshText, const char *text, std::vector<Shape> in, std::vector<Shape> out)
      : mesh(llvm::cantFail(Mesh::parse(meshText))), operands(std::move(in)), results(std::move(out)),
        rule(llvm::cantFail(ShardingRule::parse(text, operands, results))), planner(mesh, defaultCollectiveCost(mesh)) {
  }

  Strategy strategy() const {
    Strategy s;
    s.factors.resize(rule.factors.size());
    return s;
  }
  std::vector<OwnCollective> own(const Strategy &s) {
    std::vector<int64_t> in(operands.size(), 4), out(results.size(), 4);
    return ownCollectives(rule, s, mesh, {operands, results, in, out}, planner);
  }
};

} // namespace

TEST_CASE("every word of a statistic that is cut is one reduction of an extent of 1") {
  Case c("data=2,model=2", "b k -> b k | stat(max, sum) k", {{8, 6}}, {{8, 6}});
  Strategy s = c.strategy();
  CHECK(c.own(s).empty());
  CHECK(statisticReshards(c.rule, s, c.mesh, c.results).empty());
  s.factors = {{0}, {1}}; // b over data, k over model
  auto reshards = statisticReshards(c.rule, s, c.mesh, c.results);
  REQUIRE(reshards.size() == 2);
  CHECK(reshards[0].shape == Shape{8, 1});
  CHECK(reshards[0].from.str(c.mesh) == "[data, -] max(model)");
  CHECK(reshards[1].from.str(c.mesh) == "[data, -] sum(model)");
  CHECK(reshards[1].to.str(c.mesh) == "[data, -]");
  auto own = c.own(s);
  REQUIRE(own.size() == 2);
  for (int i = 0; i < 2; ++i) {
    CHECK(own[i].statistic == i);
    CHECK(own[i].collective.kind == CollectiveKind::AllReduce);
    CHECK(own[i].collective.localIn == Shape{4, 1});
  }
}

TEST_CASE("windows of one operand are exchanged one after the other") {
  // A kernel of 3 by 5 over [8, 12], padded to keep the extents.
  Case c("h=2,w=2", "h w -> h w", {{8, 12}}, {{8, 12}});
  Window window;
  window.padLo = window.padHi = 1;
  window.kernel = 3;
  window.extent = window.outer = 8;
  window.factor = 0;
  c.rule.windows.push_back(window);
  window.padLo = window.padHi = 2;
  window.kernel = 5;
  window.extent = window.outer = 12;
  window.dim = window.factor = 1;
  c.rule.windows.push_back(window);
  Strategy s = c.strategy();
  s.factors = {{}, {1}};
  REQUIRE(haloExchanges(c.rule, s, c.mesh, c.operands).size() == 1);
  s.factors = {{0}, {1}};
  auto halos = haloExchanges(c.rule, s, c.mesh, c.operands);
  REQUIRE(halos.size() == 2);
  CHECK(halos[0].collective.localIn == Shape{4, 6});
  CHECK(halos[0].collective.localOut == Shape{6, 6});
  CHECK(halos[1].collective.localIn == Shape{6, 6}); // with the rows that have just come
  CHECK(halos[1].collective.localOut == Shape{6, 10});
  CHECK(c.own(s)[1].operand == 0);
}

TEST_CASE("a sum that is reduced at once comes last, and one that is handed on brings no collective") {
  Case c("model=2", "m k, k n -> m n | sum k", {{4, 6}, {6, 8}}, {{4, 8}});
  Strategy s = c.strategy();
  s.factors[size_t(c.rule.findFactor("k"))] = {0};
  CHECK(c.own(s).empty());
  s.results = {naturalResult(c.mesh, c.rule, s, 0).withoutPartial()};
  auto own = c.own(s);
  REQUIRE(own.size() == 1);
  CHECK(own[0].result == 0);
  CHECK(own[0].collective.kind == CollectiveKind::AllReduce);
  CHECK(own[0].collective.localIn == Shape{4, 8});
}

TEST_CASE("shardings that differ by axes of size 1 are the same") {
  Mesh mesh = llvm::cantFail(Mesh::parse("one=1,two=2"));
  Sharding a = Sharding::replicated(2), b = a, partial = a;
  b.dims[0] = {0};
  partial.partial = {0};
  partial.reduction = Reduction::Sum;
  CHECK(sameSharding(mesh, a, b));
  CHECK(sameSharding(mesh, a, partial));
  b.dims[0] = {1};
  CHECK(!sameSharding(mesh, a, b));
}
