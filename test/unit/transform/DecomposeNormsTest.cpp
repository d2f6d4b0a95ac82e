// graph-decompose-norms keeps the values of batch_norm, log_softmax and their gradients.
#include "test/unit/autodiff/Programs.h"

#include "compiler/transform/Passes.h"

#include "mlir/Pass/PassManager.h"

using namespace tessera;
using namespace tessera::test;
using namespace mlir;

static void checkDecomposed(Program &p, const std::vector<Tensor> &arguments) {
  func::FuncOp f = p.func("f");
  const std::vector<Tensor> before = run(f, arguments);
  PassManager manager(&p.context);
  manager.addNestedPass<func::FuncOp>(compiler::createDecomposeNormsPass());
  REQUIRE(succeeded(manager.run(*p.module)));
  f.walk([](Operation *op) {
    const bool isNorm =
        isa<graph::BatchNormOp, graph::BatchNormGradOp, graph::LogSoftmaxOp, graph::LogSoftmaxGradOp>(op);
    CHECK_FALSE(isNorm);
  });
  const std::vector<Tensor> after = run(f, arguments);
  for (size_t i = 0; i < before.size(); ++i)
    CHECK(distance(after[i], before[i]) < 1e-12);
}

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
  checkDecomposed(p, arguments);
}

TEST_CASE("decomposed log_softmax and its gradient compute the same, and stay finite far from zero") {
  const std::string type = "tensor<3x4x5xf64>";
  for (const std::string dim : {"0", "1", "2"}) {
    Program p("func.func @f(%x: " + type + ", %dy: " + type + ") -> (" + type + ", " + type + ") {\n" +
              "  %y = graph.log_softmax %x {dim = " + dim + " : i64, graph.name = \"loss\"} : (" + type + ") -> " +
              type + "\n  %dx = graph.log_softmax_grad %dy, %y {dim = " + dim + " : i64} : (" + type + ", " + type +
              ") -> " + type + "\n  return %y, %dx : " + type + ", " + type + "\n}");
    std::mt19937_64 engine(12);
    checkDecomposed(p, {random({3, 4, 5}, -2000, 2000, engine), random({3, 4, 5}, -1, 1, engine)});
  }
}
