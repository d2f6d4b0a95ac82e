// Loops of fused steps, the values that stay in them, and the order of execution, on plain data.
#include "dialects/graph/flow/Fusion.h"

#include "dialects/dist/DistDialect.h"
#include "dialects/dist/DistInterfaces.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/flow/Order.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include <catch2/catch.hpp>

#include <set>

using namespace mlir;
using namespace tessera;
using graph::DataFlow;
using graph::LoopPart;

TEST_CASE("a loop takes points, reductions and free operators") {
  MLIRContext context;
  context.loadDialect<func::FuncDialect, graph::GraphDialect, dist::DistDialect>();
  context.allowUnregisteredDialects(); // test.low, test.high
  OwningOpRef<ModuleOp> cases = parseSourceFile<ModuleOp>(TESSERA_OPERATORS, ParserConfig(&context));
  REQUIRE(cases);
  std::set<std::string> reductions, free;
  cases->walk([&](dist::ShardingRuleOpInterface op) {
    std::string name = op->getName().stripDialect().str();
    LoopPart part = graph::loopPart(op);
    if (part == LoopPart::Reduction)
      reductions.insert(name);
    if (part == LoopPart::Free)
      free.insert(name);
    if (part == LoopPart::Points)
      CHECK(graph::isElementwise(op));
  });
  CHECK(reductions == std::set<std::string>{"reduce_max", "reduce_min", "reduce_sum"});
  CHECK(free == std::set<std::string>{"broadcast", "cast", "constant"});
}

namespace {

/// A program of values of `n` floats that are made by steps with one result each.
struct Steps {
  DataFlow flow;

  int value(int64_t n, bool kept = false) { return flow.addValue({n}, 4 * n, kept); }
  int step(LoopPart part, std::vector<int> reads, int64_t n = 8, bool kept = false) {
    int made = value(n, kept);
    flow.addStep(part, reads, {made});
    return made;
  }
};

} // namespace

TEST_CASE("a chain of points and the reduction at its end are one loop, and the chain stays in it") {
  Steps p;
  int x = p.value(8);
  int a = p.step(LoopPart::Points, {x}), b = p.step(LoopPart::Points, {a}), sum = p.step(LoopPart::Reduction, {b}, 1);
  p.flow.results = {sum};
  CHECK(graph::formLoops(p.flow) == std::vector<int>{0, 0, 0});
  graph::LoopedFlow looped(p.flow, graph::formLoops(p.flow));
  REQUIRE(looped.flow.steps.size() == 1);
  CHECK(looped.flow.steps[0].reads == llvm::SmallVector<int, 4>{x});
  CHECK(looped.flow.steps[0].makes == llvm::SmallVector<int, 2>{sum});
  CHECK(looped.inMemory == std::vector<bool>{true, false, false, true});
}

TEST_CASE("a loop ends at a step of another kind and at a reduced value") {
  Steps p;
  int x = p.value(8);
  int a = p.step(LoopPart::Points, {x}), moved = p.step(LoopPart::None, {a});
  int sum = p.step(LoopPart::Reduction, {moved}, 1), spread = p.step(LoopPart::Free, {sum});
  int b = p.step(LoopPart::Points, {moved, spread});
  p.flow.results = {b};
  CHECK(graph::formLoops(p.flow) == std::vector<int>{0, 1, 2, -1, 4});
  graph::LoopedFlow looped(p.flow, graph::formLoops(p.flow));
  CHECK(looped.stepOf == std::vector<int>{0, 1, 2, -1, 3});
  CHECK(!looped.inMemory[spread]);
  CHECK(looped.flow.steps[3].reads == llvm::SmallVector<int, 4>{moved, sum});
}

TEST_CASE("a free operator is computed by itself where something besides loops reads it") {
  Steps p;
  int x = p.value(1);
  int spread = p.step(LoopPart::Free, {x}), b = p.step(LoopPart::None, {spread});
  p.flow.results = {b};
  graph::LoopedFlow looped(p.flow, graph::formLoops(p.flow));
  CHECK(looped.stepOf == std::vector<int>{0, 1});
  CHECK(looped.inMemory[spread]);
}

TEST_CASE("two operators share no loop if a third one must run between them") {
  Steps p;
  int x = p.value(8);
  int a = p.step(LoopPart::Points, {x}), other = p.step(LoopPart::None, {a}), b = p.step(LoopPart::Points, {a, other});
  p.flow.results = {b};
  CHECK(graph::formLoops(p.flow) == std::vector<int>{0, 1, 2});
}

TEST_CASE("a sum does not join the loop of a far sum, which would keep its operands alive") {
  // Two gradients, many other steps and a third gradient, as sums over micro-batches have them.
  auto loops = [](bool sumOfTwo) {
    Steps p;
    int x = p.value(8);
    int first = p.step(LoopPart::None, {x}), second = p.step(LoopPart::None, {x});
    int sum = p.step(LoopPart::Points, sumOfTwo ? std::vector<int>{first, second} : std::vector<int>{first});
    int other = x;
    for (int i = 0; i < 40; ++i)
      other = p.step(LoopPart::None, {other});
    int third = p.step(LoopPart::None, {other}), all = p.step(LoopPart::Points, {sum, third});
    p.flow.results = {all};
    if (!sumOfTwo)
      p.flow.results.push_back(second);
    return graph::formLoops(p.flow)[44] == 2;
  };
  CHECK(!loops(true));
  CHECK(loops(false)); // it holds no more by waiting
}

TEST_CASE("an operator that frees memory runs as soon as it can, and lives and peak follow from the order") {
  Steps p;
  int x = p.value(4), w = p.value(8, true), v = p.value(8, true);
  int dw = p.step(LoopPart::None, {x}), dv = p.step(LoopPart::None, {x});
  int newV = p.step(LoopPart::None, {v, dv}, 8, true), newW = p.step(LoopPart::None, {w, dw}, 8, true);
  p.flow.results = {newW, newV};
  std::vector<int> order = graph::executionOrder(p.flow);
  CHECK(order == std::vector<int>{0, 3, 1, 2});
  CHECK(graph::dependenceOrder(p.flow) == std::vector<int>{0, 1, 2, 3});
  std::vector<graph::Lifetime> lives = graph::lifetimes(p.flow, order);
  CHECK((lives[dw].first == 0 && lives[dw].last == 1));
  CHECK((lives[x].first == 0 && lives[x].last == 2));
  CHECK((lives[newW].first == 1 && lives[newW].last == 4));
  CHECK(graph::peak(p.flow, order).bytes == 16 + 32);
  CHECK(graph::peak(p.flow, graph::dependenceOrder(p.flow)).bytes == 16 + 64);
}

TEST_CASE("a value lives as long as a view of it is read") {
  Steps p;
  int x = p.value(8), view = p.step(LoopPart::None, {x}), other = p.step(LoopPart::None, {view}, 2);
  p.flow.values[view].viewOf = x;
  p.flow.results = {other};
  std::vector<int> order = graph::executionOrder(p.flow);
  std::vector<graph::Lifetime> lives = graph::lifetimes(p.flow, order);
  CHECK((lives[x].first == 0 && lives[x].last == 1));
  CHECK(lives[view].last < lives[view].first);
  CHECK(graph::peak(p.flow, order).bytes == 32 + 8);
}
