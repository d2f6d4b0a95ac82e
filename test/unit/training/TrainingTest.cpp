// Losses and the programs that buildTraining makes.
#include "test/unit/autodiff/Programs.h"

#include "compiler/training/Training.h"

using namespace tessera;
using namespace tessera::test;
using namespace mlir;

namespace {

/// A model whose output is its parameter (plus 0 * input), so that the parameter's update by SGD
/// with rate 1 is the gradient of the loss by the output.
std::string identityModel(const std::string &shape) {
  std::string type = "tensor<" + shape + "xf64>";
  auto func = [&](const std::string &name) {
    return "func.func @" + name + "(%x: " + type + " {graph.role = \"input\", graph.name = \"x\"}, %p: " + type +
           " {graph.role = \"parameter\", graph.name = \"p\"}) -> (" + type +
           " {graph.role = \"output\", graph.name = \"y\"}) {\n  %y = graph.add %x, %p : (" + type + ", " + type +
           ") -> " + type + "\n  return %y : " + type + "\n}\n";
  };
  return func("forward") + func("infer");
}

struct Outcome {
  double loss;
  Tensor gradient;
  std::vector<double> eval; // loss, correct (if there is), predictions
  dist::Shape targetShape;
};

compiler::TrainingOptions trainingOptions(const std::string &loss) {
  compiler::TrainingOptions options;
  options.loss = llvm::cantFail(compiler::parseLoss(loss));
  options.optimizer = llvm::cantFail(compiler::parseOptimizer("sgd:lr=1"));
  return options;
}

Outcome evaluate(const std::string &shape, const compiler::TrainingOptions &options, const Tensor &y,
                 std::vector<double> target) {
  Program p(identityModel(shape));
  if (llvm::Error error = compiler::buildTraining(*p.module, options))
    FAIL(llvm::toString(std::move(error)));
  p.verify();
  func::FuncOp train = p.func("train"), eval = p.func("eval");
  CHECK_FALSE(p.module->lookupSymbol("forward"));
  CHECK(p.module->lookupSymbol("infer"));
  REQUIRE(graph::argRole(train, 0) == graph::kStep);
  REQUIRE(graph::argRole(train, 2) == graph::kTarget);
  REQUIRE(graph::argRole(eval, 1) == graph::kTarget);
  Outcome outcome;
  outcome.targetShape = dist::Shape(cast<RankedTensorType>(train.getArgumentTypes()[2]).getShape());
  Tensor zeros = Tensor::zeros(y.shape), t = Tensor::of(outcome.targetShape, target);
  auto results = run(train, {Tensor::scalar(0), zeros, t, y});
  outcome.loss = results[0].data[0];
  outcome.gradient = y;
  REQUIRE(graph::updateOf(train, 3) == 1u);
  for (size_t i = 0; i < y.data.size(); ++i)
    outcome.gradient.data[i] -= results[1].data[i];
  auto evaluated = run(eval, {zeros, t, y});
  CHECK(evaluated[0].data == y.data);
  for (size_t i = 1; i < evaluated.size(); ++i)
    outcome.eval.push_back(evaluated[i].data.at(0));
  return outcome;
}

/// The gradient by central differences of the loss that @train reports.
void checkGradient(const std::string &shape, const compiler::TrainingOptions &options, Tensor y,
                   const std::vector<double> &target) {
  Outcome exact = evaluate(shape, options, y, target);
  Tensor numeric = Tensor::zeros(y.shape);
  for (size_t i = 0; i < y.data.size(); ++i) {
    double at = y.data[i];
    y.data[i] = at + 1e-5;
    double above = evaluate(shape, options, y, target).loss;
    y.data[i] = at - 1e-5;
    numeric.data[i] = (above - evaluate(shape, options, y, target).loss) / 2e-5;
    y.data[i] = at;
  }
  CHECK(distance(exact.gradient, numeric) < 1e-6);
}

/// Cross-entropy of logits [rows, classes] as PyTorch defines it.
double crossEntropy(const Tensor &y, int64_t classes, const std::vector<double> &target, double smoothing,
                    double ignore = -1) {
  double sum = 0, count = 0;
  for (size_t n = 0; n < target.size(); ++n) {
    if (target[n] == ignore)
      continue;
    const double *row = y.data.data() + n * size_t(classes);
    double total = 0, all = 0;
    for (int64_t c = 0; c < classes; ++c)
      total += std::exp(row[c]);
    for (int64_t c = 0; c < classes; ++c)
      all -= row[c] - std::log(total);
    sum += (1 - smoothing) * (std::log(total) - row[size_t(target[n])]) + smoothing * all / double(classes);
    count += 1;
  }
  return sum / count;
}

std::string errorOf(const std::string &text, const compiler::TrainingOptions &options) {
  Program p(text);
  llvm::Error error = compiler::buildTraining(*p.module, options);
  REQUIRE(bool(error));
  return llvm::toString(std::move(error));
}

} // namespace

TEST_CASE("cross-entropy follows its definition") {
  std::mt19937_64 engine(5);
  Tensor y = random({4, 3}, -2, 2, engine);
  std::vector<double> target = {2, 0, 1, 0};
  Outcome o = evaluate("4x3", trainingOptions("cross_entropy"), y, target);
  CHECK(o.targetShape == dist::Shape{4});
  CHECK(o.loss == Approx(crossEntropy(y, 3, target, 0)).epsilon(1e-12));
  CHECK(o.eval[0] == Approx(o.loss).epsilon(1e-12));
  double hits = 0;
  for (size_t n = 0; n < 4; ++n) {
    auto row = y.data.begin() + long(3 * n);
    hits += double(std::max_element(row, row + 3) - row) == target[n];
  }
  CHECK(o.eval[1] == hits);
  CHECK(o.eval[2] == 4);
  checkGradient("4x3", trainingOptions("cross_entropy"), y, target);

  Outcome smooth = evaluate("4x3", trainingOptions("cross_entropy:label_smoothing=0.1"), y, target);
  CHECK(smooth.loss == Approx(crossEntropy(y, 3, target, 0.1)).epsilon(1e-12));
  checkGradient("4x3", trainingOptions("cross_entropy:label_smoothing=0.1"), y, target);

  Outcome whole = evaluate("4x3", trainingOptions("cross_entropy:ignore_index=none"), y, target);
  CHECK(whole.loss == Approx(o.loss).epsilon(1e-12));
  CHECK(whole.eval == o.eval);

  // An ignored target lies outside the classes, or is one of them.
  for (double ignore : {-100, 1})
    for (double smoothing : {0.0, 0.2}) {
      std::string text =
          "cross_entropy:ignore_index=" + std::to_string(int(ignore)) + ",label_smoothing=" + std::to_string(smoothing);
      target[1] = ignore;
      Outcome ignored = evaluate("4x3", trainingOptions(text), y, target);
      CHECK(ignored.loss == Approx(crossEntropy(y, 3, target, smoothing, ignore)).epsilon(1e-12));
      CHECK(ignored.eval[2] == double(4 - std::count(target.begin(), target.end(), ignore)));
      checkGradient("4x3", trainingOptions(text), y, target);
    }
}

TEST_CASE("cross-entropy finds the dimension of the classes") {
  std::mt19937_64 engine(5);
  Tensor y = random({2, 3, 4}, -2, 2, engine);
  std::vector<double> last = {0, 1, 2, 3, 0, 1}, second = {0, 1, 2, 2, 1, 0, 0, 1};
  // [n, positions, classes] by default.
  Outcome o = evaluate("2x3x4", trainingOptions("cross_entropy"), y, last);
  CHECK(o.targetShape == dist::Shape{2, 3});
  CHECK(o.loss == Approx(crossEntropy(y, 4, last, 0)).epsilon(1e-12));
  CHECK(o.eval[2] == 6);
  // The option or the targets' shape says [n, classes, positions].
  auto options = trainingOptions("cross_entropy:class_dim=1");
  o = evaluate("2x3x4", options, y, second);
  CHECK(o.targetShape == dist::Shape{2, 4});
  checkGradient("2x3x4", options, y, second);
  options = trainingOptions("cross_entropy");
  options.loss.targetShape = {2, 4};
  CHECK(evaluate("2x3x4", options, y, second).loss == Approx(o.loss).epsilon(1e-12));
  options.loss.targetShape = {2, 3};
  CHECK(evaluate("2x3x4", options, y, last).targetShape == dist::Shape{2, 3});
  // Images: dimension 1.
  Tensor image = random({2, 3, 2, 2}, -2, 2, engine);
  CHECK(evaluate("2x3x2x2", trainingOptions("cross_entropy"), image, second).targetShape == dist::Shape{2, 2, 2});
  options.loss.targetShape = {4, 4};
  CHECK(errorOf(identityModel("2x3x4"), options) ==
        "targets of shape [4, 4] do not fit output 0 of shape [2, 3, 4]: expected its shape "
        "without the "
        "dimension of the classes (the second or the last; class_dim=... names another)");
}

TEST_CASE("the other losses follow their definitions") {
  std::mt19937_64 engine(5);
  Tensor y = random({2, 3}, -2, 2, engine);
  Outcome o = evaluate("2x3", trainingOptions("nll"), y, {2, 0});
  CHECK(o.loss == Approx(-(y.data[2] + y.data[3]) / 2));
  CHECK(o.eval.size() == 3);
  checkGradient("2x3", trainingOptions("nll"), y, {2, 0});

  std::vector<double> t = {1, 2, 3, -1, 0, 1};
  double sum = 0;
  for (size_t i = 0; i < 6; ++i)
    sum += (y.data[i] - t[i]) * (y.data[i] - t[i]);
  o = evaluate("2x3", trainingOptions("mse"), y, t);
  CHECK(o.loss == Approx(sum / 6));
  CHECK(o.eval.size() == 2); // no classes, nothing correct
  checkGradient("2x3", trainingOptions("mse"), y, t);

  Program p(identityModel("1x1"));
  llvm::cantFail(compiler::buildTraining(*p.module, trainingOptions("output")));
  p.verify();
  auto results = run(p.func("train"), {Tensor::scalar(0), Tensor::zeros({1, 1}), Tensor::of({1, 1}, {3})});
  CHECK(results[0].data == std::vector<double>{3});
  CHECK(results[1].data == std::vector<double>{2}); // 3 - lr * 1
}

TEST_CASE("binary cross-entropy with logits") {
  Tensor y = Tensor::of({5}, {-1.5, 0, 0.3, 40, -800});
  std::vector<double> t = {1, 0.25, 0, 1, 1};
  Outcome o = evaluate("5", trainingOptions("bce_with_logits"), y, t);
  double sum =
      std::log1p(std::exp(1.5)) + std::log(2.0) + std::log1p(std::exp(0.3)) + std::log1p(std::exp(-40.0)) + 800;
  CHECK(o.loss == Approx(sum / 5).epsilon(1e-12));
  CHECK(o.gradient.data[1] == Approx((0.5 - 0.25) / 5)); // at 0, where |x| has no slope
  y = Tensor::of({5}, {-1.5, 0.1, 0.3, 4, -8});
  checkGradient("5", trainingOptions("bce_with_logits"), y, t);
}

TEST_CASE("additional losses and running statistics") {
  const char *text = R"(
  func.func @forward(
      %x: tensor<2x2xf64> {graph.role = "input", graph.name = "x"},
      %p: tensor<2x2xf64> {graph.role = "parameter", graph.name = "p"},
      %r: tensor<2xf64> {graph.role = "state", graph.name = "running", graph.update = 2 : i64},
      %step: tensor<i64> {graph.role = "step", graph.name = "step"})
      -> (tensor<2x2xf64> {graph.role = "output", graph.name = "y"},
          tensor<f64> {graph.role = "output", graph.name = "extra"},
          tensor<2xf64> {graph.role = "update", graph.name = "running"}) {
    %y = graph.mul %x, %p : (tensor<2x2xf64>, tensor<2x2xf64>) -> tensor<2x2xf64>
    %s = graph.reduce_sum %p {dims = array<i64: 0, 1>, keepdims = false} : (tensor<2x2xf64>) -> tensor<f64>
    %t = graph.cast %step : (tensor<i64>) -> tensor<f64>
    %e = graph.mul %s, %t : (tensor<f64>, tensor<f64>) -> tensor<f64>
    %one = graph.constant dense<1.0> : tensor<f64>
    %n = graph.add %r, %one : (tensor<2xf64>, tensor<f64>) -> tensor<2xf64>
    return %y, %e, %n : tensor<2x2xf64>, tensor<f64>, tensor<2xf64>
  })";
  auto options = trainingOptions("mse");
  options.optimizer = llvm::cantFail(compiler::parseOptimizer("sgd:lr=1,momentum=0.5"));
  options.auxOutputs = llvm::cantFail(compiler::parseAuxOutputs("1=0.25"));
  Program p(text);
  llvm::cantFail(compiler::buildTraining(*p.module, options));
  p.verify();
  func::FuncOp train = p.func("train");
  REQUIRE(train.getNumArguments() == 6); // step, x, target, p, running, momentum/p
  CHECK(graph::argName(train, 4) == "running");
  CHECK(graph::argName(train, 5) == "momentum/p");
  CHECK(graph::updateOf(train, 3) == 1u);
  CHECK(graph::updateOf(train, 4) == 2u);
  CHECK(graph::updateOf(train, 5) == 3u);
  CHECK(graph::resultName(train, 2) == "running");
  CHECK(graph::resultRole(train, 0) == graph::kLoss);
  Tensor x = Tensor::of({2, 2}, {1, 0, 0, 2}), w = Tensor::of({2, 2}, {3, 4, 5, 6});
  auto results =
      run(train, {Tensor::scalar(8), x, Tensor::zeros({2, 2}), w, Tensor::zeros({2}, 7), Tensor::zeros({2, 2})});
  CHECK(results[0].data[0] == Approx((9.0 + 144) / 4 + 0.25 * 8 * 18));
  // gradient: 2 x (x w) / 4 + 0.25 * 8
  CHECK(distance(results[3], Tensor::of({2, 2}, {1.5 + 2, 2, 2, 12 + 2})) < 1e-12);
  CHECK(results[2].data == std::vector<double>{8, 8});
}

TEST_CASE("a training program that cannot be built is one clear error") {
  CHECK(errorOf("func.func @g() { return }", trainingOptions("mse")) == "the module has no @forward to train");
  CHECK(errorOf(identityModel("2x3"), trainingOptions("mse:output=1")) ==
        "the loss names output 1, but the model has 1 (counted from 0)");
  CHECK(errorOf(identityModel("2x3"), trainingOptions("output")) ==
        "loss 'output' needs a model output of one element, but output 0 has the shape [2, 3]");
  CHECK(errorOf(identityModel("5"), trainingOptions("cross_entropy")) ==
        "this loss needs an output [n, classes] or [n, classes, ...], but output 0 has the shape "
        "[5]");
  CHECK(errorOf(identityModel("2x3"), trainingOptions("nll:class_dim=2")) ==
        "class_dim=2 is no dimension of output 0, shape [2, 3]");
  auto options = trainingOptions("mse");
  options.auxOutputs.push_back({0, 1.0});
  CHECK(errorOf(identityModel("2x3"), options) ==
        "output 0 cannot be added to the loss: it must be one floating-point number");
}
