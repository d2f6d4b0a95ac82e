// Optimizers, schedules and clipping over several steps against plain loops that follow
// torch.optim.
#include "test/unit/autodiff/Programs.h"

#include "compiler/training/Optimizer.h"
#include "compiler/training/Training.h"

#include <numbers>

using namespace tessera;
using namespace tessera::test;
using namespace mlir;

namespace {

// y = x w, loss = mean (y - t)^2; `free` is a parameter that the loss does not depend on.
const char *const kModel = R"(
func.func @forward(
    %x: tensor<4x3xf64> {graph.role = "input", graph.name = "x"},
    %w: tensor<3x1xf64> {graph.role = "parameter", graph.name = "w"},
    %free: tensor<2xf64> {graph.role = "parameter", graph.name = "free"})
    -> (tensor<4x1xf64> {graph.role = "output", graph.name = "y"}) {
  %y = graph.matmul %x, %w : (tensor<4x3xf64>, tensor<3x1xf64>) -> tensor<4x1xf64>
  return %y : tensor<4x1xf64>
})";

using Vector = std::vector<double>;

struct Reference {
  Tensor x, t;
  Vector w, buffer = Vector(3), m = Vector(3), v = Vector(3);
  double loss = 0;

  Vector gradient() {
    Vector g(3);
    loss = 0;
    for (size_t i = 0; i < 4; ++i) {
      double e = -t.data[i];
      for (size_t k = 0; k < 3; ++k)
        e += x.data[i * 3 + k] * w[k];
      loss += e * e / 4;
      for (size_t k = 0; k < 3; ++k)
        g[k] += 2 * e * x.data[i * 3 + k] / 4;
    }
    return g;
  }
};

/// torch.optim's single-tensor loops, written down once more.
void step(Reference &r, const compiler::OptimizerOptions &o, double lr, Vector g, int64_t index) {
  using O = compiler::OptimizerOptions;
  for (size_t k = 0; k < 3; ++k) {
    double &p = r.w[k];
    double d = g[k];
    if (o.kind == O::SGD) {
      d += o.weightDecay * p;
      if (o.momentum != 0) {
        r.buffer[k] = index == 0 ? d : o.momentum * r.buffer[k] + (1 - o.dampening) * d;
        d = o.nesterov ? d + o.momentum * r.buffer[k] : r.buffer[k];
      }
      p -= lr * d;
      continue;
    }
    if (o.kind == O::AdamW)
      p *= 1 - lr * o.weightDecay;
    else
      d += o.weightDecay * p;
    r.m[k] = o.beta1 * r.m[k] + (1 - o.beta1) * d;
    r.v[k] = o.beta2 * r.v[k] + (1 - o.beta2) * d * d;
    double t = double(index + 1);
    double denominator = std::sqrt(r.v[k]) / std::sqrt(1 - std::pow(o.beta2, t)) + o.eps;
    p -= lr / (1 - std::pow(o.beta1, t)) * r.m[k] / denominator;
  }
}

void compare(const std::string &optimizer, const std::string &schedule = "constant",
             std::function<double(double, int64_t)> rate = nullptr, double clip = 0,
             const std::string &lossScale = "none") {
  INFO(optimizer + " " + schedule + " " + lossScale);
  compiler::TrainingOptions options;
  options.loss = llvm::cantFail(compiler::parseLoss("mse"));
  options.optimizer = llvm::cantFail(compiler::parseOptimizer(optimizer));
  options.schedule = llvm::cantFail(compiler::parseLearningRate(schedule));
  if (clip > 0)
    options.clipNorm = clip;
  options.lossScale = llvm::cantFail(compiler::parseLossScale(lossScale));
  Program p(kModel);
  if (llvm::Error error = compiler::buildTraining(*p.module, options))
    FAIL(llvm::toString(std::move(error)));
  p.verify();
  func::FuncOp train = p.func("train");

  std::mt19937_64 engine(3);
  Reference r;
  r.x = random({4, 3}, -1, 1, engine);
  r.t = random({4, 1}, -1, 1, engine);
  Tensor w = random({3, 1}, -1, 1, engine);
  r.w = w.data;
  std::vector<Tensor> arguments;
  for (unsigned i = 0; i < train.getNumArguments(); ++i) {
    StringRef name = graph::argName(train, i);
    auto type = cast<RankedTensorType>(train.getArgumentTypes()[i]);
    arguments.push_back(name == "x"                  ? r.x
                        : name == "target"           ? r.t
                        : name == "w"                ? w
                        : name == "loss_scale/scale" ? Tensor::scalar(options.lossScale->initial)
                                                     : Tensor::zeros(type.getShape()));
    bool isState = graph::argRole(train, i) == graph::kState;
    CHECK(isState == bool(train.getArgAttr(i, graph::kFillAttr)));
    if (name == "free") // no gradient: PyTorch leaves it alone, weight decay included
      CHECK_FALSE(graph::updateOf(train, i));
  }
  auto argument = [&](StringRef name) -> Tensor & {
    for (unsigned a = 0; a < train.getNumArguments(); ++a)
      if (graph::argName(train, a) == name)
        return arguments[a];
    FAIL("no argument " + name.str());
    return arguments[0];
  };
  auto update = [&](const std::vector<Tensor> &results) {
    for (unsigned a = 0; a < train.getNumArguments(); ++a)
      if (std::optional<unsigned> update = graph::updateOf(train, a))
        arguments[a] = results[*update];
  };
  int64_t skipped = 0;
  for (int64_t i = 0; i < 7; ++i) {
    arguments[0] = Tensor::scalar(double(i));
    if (options.lossScale && (i == 0 || i == 3 || i == 4)) { // gradients beyond float32: nothing but the scale moves
      std::vector<Tensor> before = arguments;
      for (double &x : argument("x").data)
        x *= i == 3 ? std::numeric_limits<double>::infinity() : 1e30;
      update(run(train, arguments));
      argument("x") = r.x;
      ++skipped;
      CHECK(argument("loss_scale/skipped").data[0] == double(skipped));
      CHECK(argument("loss_scale/good").data[0] == 0);
      for (unsigned a = 1; a < train.getNumArguments(); ++a)
        if (!graph::argName(train, a).starts_with("loss_scale/"))
          CHECK(arguments[a].data == before[a].data);
      continue;
    }
    std::vector<Tensor> results = run(train, arguments);
    Vector g = r.gradient();
    if (clip > 0) {
      double norm = std::sqrt(g[0] * g[0] + g[1] * g[1] + g[2] * g[2]);
      for (double &e : g)
        e *= std::min(1.0, clip / (norm + 1e-6));
    }
    CHECK(results[0].data[0] == Approx(r.loss).epsilon(1e-10));
    step(r, options.optimizer, rate ? rate(options.optimizer.lr, i) : options.optimizer.lr, g, i - skipped);
    update(results);
    CHECK(distance(argument("w"), Tensor::of({3, 1}, r.w)) < 1e-10);
  }
  if (options.lossScale) { // steps 1 2, then 5 6 in a row were good, 0 3 4 were not
    const compiler::LossScaleOptions &o = *options.lossScale;
    CHECK(argument("loss_scale/scale").data[0] ==
          Approx(o.initial * std::pow(o.backoff, 3) * std::pow(o.growth, o.interval == 2 ? 2 : 0)));
    CHECK(argument("loss_scale/good").data[0] == (o.interval == 2 ? 0 : 2));
  }
}

} // namespace

TEST_CASE("sgd follows torch.optim.SGD") {
  compare("sgd:lr=0.1");
  compare("sgd:lr=0.1,weight_decay=0.05");
  compare("sgd:lr=0.1,momentum=0.9,weight_decay=0.05");
  compare("sgd:lr=0.1,momentum=0.9,nesterov,weight_decay=0.05");
  compare("sgd:lr=0.1,momentum=0.9,dampening=0.3");
}

TEST_CASE("loss scales skip steps whose gradients are not finite, and change nothing else") {
  auto rate = [](double lr, int64_t i) { return lr * std::pow(0.5, i / 2); };
  for (const char *scale : {"dynamic:initial=1024,interval=2", "dynamic:growth=3", "static:scale=8"}) {
    compare("sgd:lr=0.1,momentum=0.9,dampening=0.3", "step:every=2,gamma=0.5", rate, 0, scale);
    compare("adam:lr=0.1,weight_decay=0.05", "constant", nullptr, 0.5, scale);
  }
}

TEST_CASE("adam and adamw follow torch.optim") {
  compare("adam");
  compare("adam:lr=0.1,beta1=0.8,beta2=0.95,eps=1e-3,weight_decay=0.1");
  compare("adamw");
  compare("adamw:lr=0.1,beta1=0,beta2=0.9,weight_decay=0.2");
}

TEST_CASE("the bias correction keeps its digits in single precision") {
  // 1 - 0.999f would be off by 5e-5 of itself.
  float half = std::tanh(float(std::log(0.999) / 2));
  CHECK(double(2 * half / (half - 1)) == Approx(0.001).epsilon(1e-6));
}

TEST_CASE("learning rates follow the schedules' definitions") {
  auto pi = std::numbers::pi;
  compare("sgd:lr=0.3", "step:every=2,gamma=0.5",
          [](double lr, int64_t t) { return lr * std::pow(0.5, double(t / 2)); });
  compare("sgd:lr=0.3", "cosine:steps=5,min=0.01", [=](double lr, int64_t t) {
    return 0.01 + (lr - 0.01) * (1 + std::cos(pi * double(std::min<int64_t>(t, 5)) / 5)) / 2;
  });
  compare("adamw:lr=0.3", "linear:steps=4,end=0.1",
          [](double lr, int64_t t) { return lr * (1 - 0.9 * double(std::min<int64_t>(t, 4)) / 4); });
  compare("sgd:lr=0.3", "constant:warmup=3",
          [](double lr, int64_t t) { return lr * std::min(1.0, double(t + 1) / 3); });
  compare("sgd:lr=0.3", "cosine:steps=4,warmup=2", [=](double lr, int64_t t) {
    double s = double(std::clamp<int64_t>(t - 2, 0, 4));
    return lr * (1 + std::cos(pi * s / 4)) / 2 * std::min(1.0, double(t + 1) / 2);
  });
}

TEST_CASE("the global norm is clipped before the optimizer") {
  compare("sgd:lr=0.1,momentum=0.9,weight_decay=0.05", "constant", nullptr, 0.2);
  compare("sgd:lr=0.1", "constant", nullptr, 1000); // does nothing
}
