#include "TrainingPrograms.h"

#include "compiler/import/OnnxImport.h"
#include "compiler/training/Passes.h"
#include "compiler/transform/Passes.h"
#include "dialects/dist/DistDialect.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphKinds.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <catch2/catch.hpp>

using namespace mlir;

namespace tessera::strategies {

MLIRContext &context() {
  static MLIRContext context;
  context.loadDialect<func::FuncDialect, graph::GraphDialect, dist::DistDialect>();
  context.allowUnregisteredDialects(); // test.low, test.high
  context.disableMultithreading();
  return context;
}

OwningOpRef<ModuleOp> trainingOf(const std::string &file, int64_t batch, int64_t micros) {
  compiler::ImportOptions import;
  import.training = true;
  if (batch > 0) // the file leaves it open
    import.dims["batch"] = batch;
  auto model = compiler::importOnnx(context(), TESSERA_MODELS "/" + file, import);
  if (!model)
    FAIL(llvm::toString(model.takeError()));
  PassManager manager(&context());
  manager.addPass(compiler::createBuildTrainingPass({.optimizer = "adamw:lr=0.001", .accumulate = micros}));
  manager.addNestedPass<func::FuncOp>(compiler::createDecomposeNormsPass());
  manager.addNestedPass<func::FuncOp>(compiler::createSimplifyPass());
  REQUIRE(succeeded(manager.run(*model->module)));
  for (func::FuncOp func : llvm::make_early_inc_range(model->module->getOps<func::FuncOp>()))
    if (func.getName() != "train")
      func.erase();
  return std::move(model->module);
}

OwningOpRef<ModuleOp> withExpiringCopies(int micros) {
  const std::string parts = "parts = " + std::to_string(micros) + " : i64", whole = std::to_string(16 * micros);
  std::string x = "%x", sum = "%g", rows, adds;
  if (micros > 1) {
    x = "%r";
    sum = "%s";
    rows = "  %r = graph.micro_rows %x {" + parts + "} : (tensor<" + whole + "x8xf32>) -> tensor<16x8xf32>\n";
    adds = "  %s = graph.accumulate %g {" + parts + "} : (tensor<8x8xf32>) -> tensor<8x8xf32>\n";
  }
  const std::string text =
      "func.func @train(%x: tensor<" + whole +
      "x8xf32> {graph.role = \"input\", graph.name = \"x\"}, %w: tensor<8x8xf32> {graph.role = \"parameter\", "
      "graph.name = "
      "\"w\", graph.update = 0 : i64}) -> (tensor<8x8xf32> {graph.role = \"update\", graph.name = \"w\"}) {\n" +
      rows + "  %m = graph.matmul " + x +
      ", %w {graph.name = \"fc\"} : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>\n"
      "  %e = graph.matmul %m, %w {transpose_b = true, graph.grad_of = \"fc\", graph.name = \"fc.grad_a\"} : "
      "(tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>\n"
      "  %g = graph.matmul " +
      x +
      ", %e {transpose_a = true, graph.grad_of = \"fc\", graph.name = \"fc.grad_b\"} : (tensor<16x8xf32>, "
      "tensor<16x8xf32>) -> tensor<8x8xf32>\n" +
      adds + "  %v = graph.sub %w, " + sum +
      " {graph.name = \"update\"} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>\n"
      "  return %v : tensor<8x8xf32>\n}";
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, ParserConfig(&context()));
  REQUIRE(module);
  expireCopies(*module, /*activations=*/false);
  return module;
}

void expireCopies(ModuleOp module, bool activations) {
  PassManager manager(&context());
  manager.addNestedPass<func::FuncOp>(compiler::createExpireCopiesPass({.activations = activations}));
  REQUIRE(succeeded(manager.run(module)));
  REQUIRE(llvm::any_of((*module.getOps<func::FuncOp>().begin()).getOps(),
                       [](Operation &op) { return graph::mayKeepCopy(&op); }));
}

} // namespace tessera::strategies
