#include "strategies/space/Propagate.h"

#include "dialects/dist/leaves/LeafRule.h"

#include <catch2/catch.hpp>

using namespace tessera::strategies;
namespace dist = tessera::dist;

static OperatorClass classOf(const char *text, std::vector<Shape> in, std::vector<Shape> out) {
  OperatorClass cls;
  cls.operandShapes.assign(in.begin(), in.end());
  cls.resultShapes.assign(out.begin(), out.end());
  cls.operandBytes.assign(in.size(), 4);
  cls.resultBytes.assign(out.size(), 4);
  cls.rule = llvm::cantFail(ShardingRule::parse(text, cls.operandShapes, cls.resultShapes));
  return cls;
}

static const Mesh mesh = llvm::cantFail(Mesh::parse("data=2,model=2"));

static Sharding sharding(llvm::ArrayRef<AxisList> dims) {
  Sharding s;
  s.dims.assign(dims.begin(), dims.end());
  return s;
}

TEST_CASE("operand shardings become factors, and factors the other tensors") {
  OperatorClass cls = classOf("m k, k n -> m n | sum k", {{8, 6}, {6, 4}}, {{8, 4}});
  Sharding a = sharding({{0}, {1}});
  Strategy s = strategyFrom(cls, mesh, {&a, nullptr}, {nullptr});
  CHECK(s.factors == llvm::SmallVector<Cut>{{0}, {1}, {}});
  CHECK(dist::operandSharding(mesh, cls.rule, s, 1) == sharding({{1}, {}}));
  CHECK(dist::naturalResult(mesh, cls.rule, s, 0).partial == AxisList{1});
  reduceNow(mesh, cls.rule, s);
  CHECK(dist::resultSharding(mesh, cls.rule, s, 0) == sharding({{0}, {}}));
}

TEST_CASE("an axis is used once and the earlier tensor wins") {
  OperatorClass cls = classOf("m k, k n -> m n | sum k", {{8, 6}, {6, 4}}, {{8, 4}});
  Sharding a = sharding({{0}, {}}), b = sharding({{}, {0}});
  Strategy s = strategyFrom(cls, mesh, {&a, &b}, {nullptr});
  CHECK(s.factors == llvm::SmallVector<Cut>{{0}, {}, {}});
  s = strategyFrom(cls, mesh, {&a, &b}, {nullptr}, {1, 0});
  CHECK(s.factors == llvm::SmallVector<Cut>{{}, {}, {0}});
}

TEST_CASE("axes run from the major factor of a dimension to the minor one") {
  OperatorClass cls = classOf("(a b) -> a b", {{8}}, {{2, 4}});
  Sharding both = sharding({{0, 1}});
  Strategy s = strategyFrom(cls, mesh, {&both}, {nullptr});
  CHECK(s.factors == llvm::SmallVector<Cut>{{0}, {1}});

  // The minor factor must not be cut unless the major one is cut to single elements.
  OperatorClass wide = classOf("(a b) -> a b", {{12}}, {{6, 2}});
  s = strategyFrom(wide, mesh, {&both}, {nullptr});
  CHECK(s.factors == llvm::SmallVector<Cut>{{0}, {}});
}

TEST_CASE("blocks stay contiguous in every tensor, not only in the one that is known") {
  OperatorClass cls = classOf("n a b -> n (a b)", {{4, 6, 2}}, {{4, 12}});
  Sharding a = sharding({{}, {0}, {1}});
  Strategy s = strategyFrom(cls, mesh, {&a}, {nullptr});
  CHECK(s.factors == llvm::SmallVector<Cut>{{}, {0}, {}});
  CHECK(!dist::verifyStrategy(cls.rule, s, mesh, cls.operandShapes, cls.resultShapes));
}

TEST_CASE("a dimension that cannot be cut stays whole") {
  OperatorClass cls = classOf("b k -> b k | whole k", {{1, 8}}, {{1, 8}});
  Sharding a = sharding({{0}, {1}});
  Strategy s = strategyFrom(cls, mesh, {&a}, {nullptr});
  CHECK(s.factors == llvm::SmallVector<Cut>{{}, {}});
}

TEST_CASE("what has leaves follows in the order of the mesh, as its ranks add") {
  OperatorClass cls = classOf("m k, k n -> m n | sum k", {{8, 16}, {16, 4}}, {{8, 4}});
  const Sharding inOrder = sharding({{}, {0, 1}}), turned = sharding({{}, {1, 0}});
  auto cut = [&](const Sharding &a) {
    Strategy s = strategyFrom(cls, mesh, {&a, nullptr}, {nullptr});
    keepLeafOrder(cls.rule, s);
    return s.factors[cls.rule.findFactor("k")];
  };
  CHECK(cut(turned) == Cut{1, 0});
  dist::giveLeaves(cls.rule, 8);
  CHECK(cut(inOrder) == Cut{0, 1});
  CHECK(cut(turned) == Cut{1});
}
