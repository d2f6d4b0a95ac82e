// graph-decompose-norms keeps the values of batch_norm and batch_norm_grad.
#include "test/unit/autodiff/Programs.h"

#include "compiler/transform/Passes.h"

#include "mlir/Pass/PassManager.h"

using namespace tessera;
using namespace tessera::test;
using namespace mlir;

TEST_CASE("decomposed batch normalisation computes the same") {
  Program p(R"(
  func.func @f(%x: tensor<4x3x2x5xf64>, %dy: tensor<4x3x2x5xf64>, %s: tensor<3xf64>, %b: tensor<3xf64>)
      -> (tensor<4x3x2x5xf64>, tensor<3xf64>, tensor<3xf64>, tensor<4x3x2x5xf64>, tensor<3xf64>, tensor<3xf64>) {
    %y, %m, %v = graph.batch_norm %x, %s, %b {epsilon = 1.0e-3 : f64, graph.name = "bn"}
      : (tensor<4x3x2x5xf64>, tensor<3xf64>, tensor<3xf64>)
      -> (tensor<4x3x2x5xf64>, tensor<3xf64>, tensor<3xf64>)
    %dx, %ds, %db = graph.batch_norm_grad %dy, %x, %s, %m, %v {epsilon = 1.0e-3 : f64}
      : (tensor<4x3x2x5xf64>, tensor<4x3x2x5xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>)
      -> (tensor<4x3x2x5xf64>, tensor<3xf64>, tensor<3xf64>)
    return %y, %m, %v, %dx, %ds, %db : tensor<4x3x2x5xf64>, tensor<3xf64>, tensor<3xf64>,
      tensor<4x3x2x5xf64>, tensor<3xf64>, tensor<3xf64>
  })");
  std::mt19937_64 engine(11);
  std::vector<Tensor> arguments = {random({4, 3, 2, 5}, -1, 3, engine), random({4, 3, 2, 5}, -1, 1, engine),
                                   random({3}, 0.5, 2, engine), random({3}, -1, 1, engine)};
  func::FuncOp f = p.func("f");
  std::vector<Tensor> before = run(f, arguments);
  PassManager manager(&p.context);
  manager.addNestedPass<func::FuncOp>(compiler::createDecomposeNormsPass());
  REQUIRE(succeeded(manager.run(*p.module)));
  f.walk([](Operation *op) { CHECK_FALSE(isa<graph::BatchNormOp, graph::BatchNormGradOp>(op)); });
  std::vector<Tensor> after = run(f, arguments);
  for (size_t i = 0; i < before.size(); ++i)
    CHECK(distance(after[i], before[i]) < 1e-12);
}
