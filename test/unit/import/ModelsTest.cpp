// Imports the exported networks of test/models and compares what comes out with what PyTorch
// counts.
#include "compiler/import/OnnxImport.h"
#include "dialects/graph/Graph.h"

#include "catch2/catch.hpp"

#include <map>

using namespace tessera;
using namespace tessera::compiler;

namespace {

struct Network {
  std::string file;
  bool train;
  int64_t parameters; // elements
  int64_t states;     // elements
  int convolutions, products, batchNorms, dropouts;
  mlir::SmallVector<int64_t> logits;
};

struct Counts {
  std::map<std::string, int> ops, roles;
  std::map<std::string, int64_t> elements;
};

Counts count(mlir::func::FuncOp func) {
  Counts counts;
  for (unsigned i = 0; i < func.getNumArguments(); ++i) {
    auto role = graph::argRole(func, i).str();
    ++counts.roles[role];
    counts.elements[role] += llvm::cast<mlir::RankedTensorType>(func.getArgument(i).getType()).getNumElements();
  }
  func.walk([&](mlir::Operation *op) { ++counts.ops[op->getName().getStringRef().str()]; });
  return counts;
}

// BatchNorm has as many running values as parameters; an export for inference folds its scale into
// the convolution and leaves a bias.
constexpr int64_t bn18 = 2 * 4800, bn50 = 2 * 26560;
constexpr int64_t cifar18 = 11173962, cifar50 = 23520842, full18 = 11689512, full50 = 25557032;

const Network networks[] = {
    {"mlp_train", true, 235146, 0, 0, 3, 0, 0, {4, 10}},
    {"mlp_eval", false, 235146, 0, 0, 3, 0, 0, {4, 10}},
    {"lenet_train", true, 61706, 0, 2, 3, 0, 0, {4, 10}},
    {"lenet_eval", false, 61706, 0, 2, 3, 0, 0, {4, 10}},
    {"lenet_train_op9", true, 61706, 0, 2, 3, 0, 0, {4, 10}},
    {"lenet_eval_op9", false, 61706, 0, 2, 3, 0, 0, {4, 10}},
    {"vgg11_cifar_train", true, 9750922, 0, 8, 3, 0, 2, {4, 10}},
    {"vgg11_cifar_eval", false, 9750922, 0, 8, 3, 0, 0, {4, 10}},
    {"resnet18_cifar_train", true, cifar18, bn18, 20, 1, 20, 0, {4, 10}},
    {"resnet18_cifar_train_op13", true, cifar18, bn18, 20, 1, 20, 0, {4, 10}},
    {"resnet18_cifar_train_op9", true, cifar18, bn18, 20, 1, 20, 0, {4, 10}},
    {"resnet18_cifar_eval", false, cifar18 - bn18 / 2, 0, 20, 1, 0, 0, {4, 10}},
    {"resnet18_cifar_eval_op13", false, cifar18 - bn18 / 2, 0, 20, 1, 0, 0, {4, 10}},
    {"resnet18_cifar_eval_op9", false, cifar18 - bn18 / 2, 0, 20, 1, 0, 0, {4, 10}},
    {"resnet50_cifar_train", true, cifar50, bn50, 53, 1, 53, 0, {4, 10}},
    {"resnet50_cifar_eval", false, cifar50 - bn50 / 2, 0, 53, 1, 0, 0, {4, 10}},
    {"resnet18_224_train", true, full18, bn18, 20, 1, 20, 0, {4, 1000}},
    {"resnet18_224_eval", false, full18 - bn18 / 2, 0, 20, 1, 0, 0, {4, 1000}},
    {"resnet50_224_train", true, full50, bn50, 53, 1, 53, 0, {4, 1000}},
    {"resnet50_224_eval", false, full50 - bn50 / 2, 0, 53, 1, 0, 0, {4, 1000}},
};

} // namespace

TEST_CASE("a network exported without weights is read", "[import]") {
  const Network &network = GENERATE(from_range(std::begin(networks), std::end(networks)));
  INFO(network.file);
  mlir::MLIRContext context;
  ImportOptions options;
  options.dims["batch"] = 4;
  options.training = network.train;
  auto model = importOnnx(context, std::string(TESSERA_TEST_MODELS "/") + network.file + ".onnx", options);
  if (!model)
    FAIL(llvm::toString(model.takeError()));

  auto infer = model->module->lookupSymbol<mlir::func::FuncOp>("infer");
  auto forward = model->module->lookupSymbol<mlir::func::FuncOp>("forward");
  REQUIRE(infer);
  REQUIRE(bool(forward) == network.train);
  for (mlir::func::FuncOp func : {infer, forward}) {
    if (!func)
      continue;
    bool training = func == forward;
    Counts counts = count(func);
    CHECK(counts.roles["input"] == 1);
    CHECK(graph::argName(func, 0) == "image");
    CHECK(counts.elements["parameter"] == network.parameters);
    CHECK(counts.elements["state"] == network.states);
    CHECK(counts.roles["step"] == int(training && network.dropouts > 0));
    CHECK(counts.ops["graph.conv"] == network.convolutions);
    CHECK(counts.ops["graph.matmul"] == network.products);
    CHECK(counts.ops["graph.batch_norm"] == (training ? network.batchNorms : 0));
    CHECK(counts.ops["graph.random"] == (training ? network.dropouts : 0));
    CHECK(int(func.getNumResults()) == (training ? 1 + counts.roles["state"] : 1));
    CHECK(graph::resultName(func, 0) == "logits");
    CHECK(llvm::cast<mlir::RankedTensorType>(func.getResultTypes()[0]).getShape() ==
          llvm::ArrayRef<int64_t>(network.logits));
    // Every update replaces a state of its own.
    std::set<unsigned> updates;
    for (unsigned i = 0; i < func.getNumArguments(); ++i)
      if (auto result = graph::updateOf(func, i)) {
        CHECK(graph::argRole(func, i) == graph::kState);
        CHECK(graph::resultRole(func, *result) == graph::kUpdate);
        CHECK(func.getResultTypes()[*result] == func.getArgument(i).getType());
        updates.insert(*result);
      }
    CHECK(updates.size() == func.getNumResults() - 1);
  }
  // Every parameter and state has a value; names are PyTorch's.
  int64_t elements = 0;
  for (const Weight &weight : model->weights.weights())
    elements += *elementCount(weight.shape);
  CHECK(elements == network.parameters + network.states);
}
