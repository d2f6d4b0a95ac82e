//===- random_programs_test.cpp - a whole training under random strategies -----------------------===//
//
// The network of network.mlir (and of network_padded.mlir) with loss, gradients and optimizer. Every operator gets a
// random strategy of those its rule allows, every argument and result a random sharding; between any two of them the
// reshards follow. Some steps of training and an evaluation must give what one rank gives. This exercises what tests of
// single operators cannot: reshards between all kinds of neighbours, partial sums that pass through several
// operators, fusion, scheduling, memory that is used again, parameters that are updated in place.
//
//===----------------------------------------------------------------------------------------------===//
#include "dialects/dist/DistDialect.h"
#include "dialects/dist/leaves/Leaves.h"
#include "dialects/graph/Graph.h"
#include "runtime/plan/PlanFile.h"
#include "test/e2e/RandomStrategies.h"

#include "mlir/Parser/Parser.h"

#include <catch2/catch.hpp>

using namespace mlir;
using namespace tessera;
using namespace tessera::test;
using dist::Mesh;

namespace {

struct Harness {
  MLIRContext context;
  OwningOpRef<ModuleOp> training;

  explicit Harness(const std::string &optimizer, const std::string &file = "network.mlir") {
    DialectRegistry registry;
    registry.insert<func::FuncDialect, dist::DistDialect, graph::GraphDialect>();
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    context.disableMultithreading();
    training = parseSourceFile<ModuleOp>(std::string(TESSERA_TEST_DIR) + "/" + file, ParserConfig(&context));
    REQUIRE(training);
    compiler::TrainingOptions options;
    options.optimizer = llvm::cantFail(compiler::parseOptimizer(optimizer));
    prepare(*training, &options);
  }
};

OwningOpRef<ModuleOp> onMesh(const Harness &harness, const Mesh &mesh, unsigned seed) {
  OwningOpRef<ModuleOp> module = cast<ModuleOp>(harness.training.get()->clone());
  annotateRandomly(*module, mesh, seed);
  return module;
}

} // namespace

TEST_CASE("a training gives under random strategies what it gives on one rank") {
  const char *file = GENERATE("network.mlir", "network_padded.mlir");
  for (const char *optimizer : {"sgd:lr=0.05,momentum=0.9,weight_decay=0.01", "adam:lr=0.01"}) {
    Harness harness(optimizer, file);
    OwningOpRef<ModuleOp> single = onMesh(harness, Mesh(), 0);
    Outcome expected = execute(partitioned(*single, /*fuse=*/false), {}).front();
    CHECK(expected.size() > 15);
    CHECK(expected.at("loss 0").front() != expected.at("loss 2").front());
    {
      INFO("one rank, fused");
      OwningOpRef<ModuleOp> fused = onMesh(harness, Mesh(), 0);
      CHECK(difference(expected, execute(partitioned(*fused, true), {}), 1e-10) == "");
    }
    for (const char *text : {"a=2", "a=4", "a=2,b=2"})
      for (unsigned seed = 1; seed <= 6; ++seed) {
        Mesh mesh = llvm::cantFail(Mesh::parse(text));
        INFO(file << ", " << optimizer << " on " << text << ", seed " << seed);
        OwningOpRef<ModuleOp> module = onMesh(harness, mesh, seed);
        std::vector<plan::Plan> plans = partitioned(*module, seed % 3 != 0);
        CHECK(difference(expected, execute(plans, {}), 1e-10) == "");
      }
  }
}

TEST_CASE("a reproducible training gives under random strategies the bits of one rank") {
  const char *file = GENERATE("network.mlir", "network_padded.mlir");
  const int64_t leaves = GENERATE(4, 8);
  Harness harness("adam:lr=0.01", file);
  dist::setLeaves(*harness.training, leaves);
  Outcome expected = execute(partitioned(*onMesh(harness, Mesh(), 0), /*fuse=*/false), {}).front();
  for (const char *text : {"a=1", "a=2", "a=4", "a=2,b=2"})
    for (unsigned seed = 1; seed <= 6; ++seed) {
      INFO(file << " with " << leaves << " leaves on " << text << ", seed " << seed);
      OwningOpRef<ModuleOp> module = onMesh(harness, llvm::cantFail(Mesh::parse(text)), seed);
      std::vector<plan::Plan> plans = partitioned(*module, seed % 3 != 0);
      CHECK(plans.front().leaves() == leaves);
      CHECK(difference(expected, execute(plans, {}), 0) == "");
    }
}

TEST_CASE("the same module gives the same bytes") {
  Harness harness("sgd:lr=0.1");
  Mesh mesh = llvm::cantFail(Mesh::parse("a=2,b=2"));
  auto bytes = [&] {
    OwningOpRef<ModuleOp> module = onMesh(harness, mesh, 3);
    std::string all;
    for (const plan::Plan &plan : partitioned(*module, /*fuse=*/true))
      all += rt::serialize(plan);
    return all;
  };
  CHECK(bytes() == bytes());
}
