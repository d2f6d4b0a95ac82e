// What an operator becomes in a loop, and what its rule says about that.
#include "dialects/graph/Fusion.h"

#include "dialects/dist/DistDialect.h"
#include "dialects/dist/DistInterfaces.h"
#include "dialects/graph/Graph.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include <catch2/catch.hpp>

#include <set>

using namespace mlir;
using namespace tessera;
using graph::LoopPart;

TEST_CASE("what has a part in a loop streams or ends one by its rule") {
  MLIRContext context;
  context.loadDialect<func::FuncDialect, graph::GraphDialect, dist::DistDialect>();
  context.allowUnregisteredDialects(); // test.low, test.high
  OwningOpRef<ModuleOp> cases = parseSourceFile<ModuleOp>(TESSERA_OPERATORS, ParserConfig(&context));
  REQUIRE(cases);
  std::set<std::string> promised, parts;
  cases->walk([&](dist::ShardingRuleOpInterface op) {
    dist::ShardingRule rule = llvm::cantFail(op.getShardingRule());
    INFO(op->getName().getStringRef().str() << ": " << rule.str());
    std::string name = op->getName().stripDialect().str();
    LoopPart part = graph::loopPart(op);
    if (part == LoopPart::None) {
      if (graph::streams(rule))
        promised.insert(name);
      return;
    }
    CHECK(graph::mayEndLoop(rule));
    CHECK(graph::streams(rule) == (part != LoopPart::Reduction));
  });
  // Fusion holds none of these, though every point of their results depends on one point of each operand by their rule:
  // they have kernels of their own, or, as a reshape, none at all.
  CHECK(promised ==
        std::set<std::string>{"argmax", "concat", "constant", "pad", "reshape", "slice", "topk", "transpose"});
}
