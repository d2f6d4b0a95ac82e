// Texts of options: which are accepted, and the errors of the others.
#include "compiler/training/TrainingOptions.h"

#include <catch2/catch.hpp>

using namespace tessera::compiler;

namespace {
template <typename T> std::string errorOf(llvm::Expected<T> value) {
  REQUIRE(!value);
  return llvm::toString(value.takeError());
}
} // namespace

TEST_CASE("losses are parsed") {
  LossOptions o = llvm::cantFail(parseLoss("cross_entropy:label_smoothing=0.1, class_dim=-1"));
  CHECK(o.kind == LossOptions::CrossEntropy);
  CHECK(o.labelSmoothing == 0.1);
  CHECK(o.classDim == -1);
  CHECK(o.ignoreIndex == -100);
  CHECK(llvm::cantFail(parseLoss("nll:ignore_index=3")).ignoreIndex == 3);
  CHECK_FALSE(llvm::cantFail(parseLoss("nll:ignore_index=none")).ignoreIndex);
  CHECK(errorOf(parseLoss("nll:ignore_index=x")) ==
        "loss 'nll:ignore_index=x': 'ignore_index' must be an integer or none, not 'x'");
  CHECK(llvm::cantFail(parseLoss("mse:output=2")).output == 2);
  CHECK(errorOf(parseLoss("l1")) ==
        "loss 'l1': 'l1' is unknown; known: cross_entropy, nll, mse, bce_with_logits, output");
  CHECK(errorOf(parseLoss("")) == "loss '': '' is unknown; known: cross_entropy, nll, mse, bce_with_logits, output");
  CHECK(errorOf(parseLoss("mse:label_smoothing=1")) ==
        "loss 'mse:label_smoothing=1': 'label_smoothing' is not a key of 'mse'; known: output");
  CHECK(errorOf(parseLoss("cross_entropy:label_smoothing=1.5")) ==
        "loss 'cross_entropy:label_smoothing=1.5': 'label_smoothing' must be a number from 0 to 1, "
        "not "
        "'1.5'");
  CHECK(errorOf(parseLoss("cross_entropy:label_smoothing=nan")) ==
        "loss 'cross_entropy:label_smoothing=nan': 'label_smoothing' must be a number from 0 to 1, "
        "not "
        "'nan'");
}

TEST_CASE("optimizers are parsed") {
  OptimizerOptions o = llvm::cantFail(parseOptimizer("sgd:lr=0.1,momentum=0.9,nesterov,weight_decay=5e-4"));
  CHECK(o.kind == OptimizerOptions::SGD);
  CHECK(o.lr == 0.1);
  CHECK(o.momentum == 0.9);
  CHECK(o.nesterov);
  CHECK(o.weightDecay == 5e-4);
  CHECK_FALSE(llvm::cantFail(parseOptimizer("sgd:lr=1,nesterov=false")).nesterov);
  o = llvm::cantFail(parseOptimizer("adamw"));
  CHECK(o.lr == 1e-3);
  CHECK(o.weightDecay == 0.01);
  CHECK(llvm::cantFail(parseOptimizer("adam:eps=1e-6")).weightDecay == 0);
  CHECK(errorOf(parseOptimizer("sgd")) == "optimizer 'sgd': 'sgd' needs lr=...");
  CHECK(errorOf(parseOptimizer("sgd:lr=0.1,beta1=0.9")) ==
        "optimizer 'sgd:lr=0.1,beta1=0.9': 'beta1' is not a key of 'sgd'; known: lr, momentum, "
        "dampening, "
        "nesterov, weight_decay");
  CHECK(errorOf(parseOptimizer("sgd:lr=0.1,lr=0.2")) == "optimizer 'sgd:lr=0.1,lr=0.2': 'lr' is given twice");
  CHECK(errorOf(parseOptimizer("sgd:lr")) == "optimizer 'sgd:lr': 'lr' needs a value: lr=...");
  CHECK(errorOf(parseOptimizer("sgd:lr=-1")) == "optimizer 'sgd:lr=-1': 'lr' must be a number of at least 0, not '-1'");
  CHECK(errorOf(parseOptimizer("adam:beta2=1")) ==
        "optimizer 'adam:beta2=1': 'beta2' must be a number from 0 to below 1, not '1'");
  CHECK(errorOf(parseOptimizer("sgd:lr=0.1,nesterov")) ==
        "optimizer 'sgd:lr=0.1,nesterov': nesterov needs momentum above 0 and dampening 0");
  CHECK(errorOf(parseOptimizer("sgd:")) ==
        "optimizer 'sgd:': '' is not a key of 'sgd'; known: lr, momentum, dampening, nesterov, "
        "weight_decay");
}

TEST_CASE("schedules and additional losses are parsed") {
  LearningRateOptions o = llvm::cantFail(parseLearningRate("cosine:steps=100,min=0.001,warmup=5"));
  CHECK(o.kind == LearningRateOptions::Cosine);
  CHECK(o.steps == 100);
  CHECK(o.min == 0.001);
  CHECK(o.warmup == 5);
  CHECK(llvm::cantFail(parseLearningRate("step:every=30")).gamma == 0.1);
  CHECK(errorOf(parseLearningRate("step")) == "schedule 'step': 'step' needs every=...");
  CHECK(errorOf(parseLearningRate("step:every=0")) ==
        "schedule 'step:every=0': 'every' must be an integer of at least 1, not '0'");
  CHECK(errorOf(parseLearningRate("poly")) ==
        "schedule 'poly': 'poly' is unknown; known: constant, step, cosine, linear");

  auto aux = llvm::cantFail(parseAuxOutputs("1=0.01, 3=-2"));
  REQUIRE(aux.size() == 2);
  CHECK(aux[1].output == 3);
  CHECK(aux[1].coefficient == -2);
  CHECK(llvm::cantFail(parseAuxOutputs("")).empty());
  CHECK(errorOf(parseAuxOutputs("1=0.01,x")) ==
        "additional losses '1=0.01,x': 'x' is not OUTPUT=COEFFICIENT, as in 1=0.01");
}

TEST_CASE("loss scales are parsed") {
  CHECK_FALSE(llvm::cantFail(parseLossScale("none")));
  CHECK(llvm::cantFail(parseLossScale("dynamic"))->initial == 65536);
  auto o = llvm::cantFail(parseLossScale("static:scale=128"));
  CHECK(o->initial == 128);
  CHECK(o->growth == 1);
  CHECK(o->backoff == 1);
  CHECK(errorOf(parseLossScale("static")) == "loss scale 'static': 'static' needs scale=...");
  CHECK(errorOf(parseLossScale("dynamic:backoff=2")) ==
        "loss scale 'dynamic:backoff=2': 'backoff' must be a number from 1/1024 to 1, not '2'");
  CHECK(errorOf(parseLossScale("128")) == "loss scale '128': '128' is unknown; known: none, static, dynamic");
}
