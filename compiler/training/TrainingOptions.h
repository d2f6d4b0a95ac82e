//===- TrainingOptions.h - loss, optimizer and schedule as text ----------------------------------===//
//
// How a network is trained, as users write it: NAME:key=value,key=value.
//
//   cross_entropy:label_smoothing=0.1     sgd:lr=0.1,momentum=0.9,nesterov
//   cosine:steps=5000,warmup=200
//
//   losses      cross_entropy (label_smoothing, ignore_index, class_dim, output),
//               nll (ignore_index, class_dim, output), mse (output), bce_with_logits (output),
//               output (output)
//   optimizers  sgd (lr, momentum, dampening, nesterov, weight_decay),
//               adam and adamw (lr, beta1, beta2, eps, weight_decay)
//   schedules   constant (warmup), step (every, gamma, warmup), cosine (steps, min, warmup),
//               linear (steps, end, warmup)
//   loss scales none, static (scale), dynamic (initial, growth, backoff, interval)
//
// ignore_index is -100 by default ("none": no target is ignored). A flag may stand without a value (nesterov). A key or
// name that is unknown, missing or out of range is an error that lists what is accepted.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_TRAINING_TRAININGOPTIONS_H
#define TESSERA_COMPILER_TRAINING_TRAININGOPTIONS_H

#include "dialects/dist/wire/Wire.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <optional>

namespace tessera::compiler {

struct LossOptions {
  enum Kind { CrossEntropy, NegativeLogLikelihood, MeanSquaredError, BinaryCrossEntropy, Output };
  Kind kind = CrossEntropy;
  int64_t output = 0; // which of the model's outputs
  double labelSmoothing = 0;
  /// Targets of this class are left out of the mean, as in PyTorch. nullopt: every target is a class.
  std::optional<int64_t> ignoreIndex = -100;
  /// The dimension of the classes; a negative number counts from the end. Without it the dimension follows from
  /// targetShape, if that is known. Otherwise it is the last one up to rank 3 ([n, c], [n, positions, c]), and
  /// dimension 1 from rank 4 on ([n, c, h, w]).
  std::optional<int64_t> classDim;
  /// Not part of the text: the shape of the targets, where the caller knows it.
  std::optional<llvm::SmallVector<int64_t>> targetShape;

  bool hasClasses() const { return kind == CrossEntropy || kind == NegativeLogLikelihood; }
};

struct OptimizerOptions {
  enum Kind { SGD, Adam, AdamW };
  Kind kind = SGD;
  double lr = 0;
  double momentum = 0, dampening = 0;            // SGD
  bool nesterov = false;                         // SGD
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8; // Adam, AdamW
  double weightDecay = 0;
};

/// The learning rate at step t = 0, 1, ... With warmup = w > 0 it is lr * (t + 1) / w for t < w. From step w on, t in
/// the formulas below is t - w.
struct LearningRateOptions {
  enum Kind {
    Constant,
    Step,   // lr * gamma^floor(t / every)
    Cosine, // min + (lr - min) (1 + cos(pi t / steps)) / 2, then min
    Linear, // from lr to end * lr over `steps`, then end * lr
  };
  Kind kind = Constant;
  int64_t every = 1, steps = 1, warmup = 0;
  double gamma = 0.1, min = 0, end = 0;
};

/// How the loss is scaled while gradients are computed (LossScale.h).
struct LossScaleOptions {
  double initial = 65536;
  double growth = 2, backoff = 0.5; // both 1: the scale stays
  int64_t interval = 2000;          // good steps in a row after which it grows
};

struct AuxOutput { // coefficient * output, added to the loss
  int64_t output = 0;
  double coefficient = 0;
};

struct TrainingOptions {
  LossOptions loss;
  OptimizerOptions optimizer;
  LearningRateOptions schedule;
  std::optional<double> clipNorm; // of the global gradient norm
  std::optional<LossScaleOptions> lossScale;
  llvm::SmallVector<AuxOutput> auxOutputs;
  /// The gradients are those of the loss times this number.
  double gradientScale = 1;
  /// The program is that of one rank of the module's mesh (docs/hybrid.md). Gradients are summed over the axes along
  /// which their parameter is equal on all ranks, which its dist.sharding says.
  bool perRank = false;
  /// In what the terms of the gradients' sums over ranks may be sent.
  dist::Wire compress = {};
  /// Micro-batches per step. The program's batch is this number times the network's batch (Training.h).
  int64_t accumulate = 1;
};

llvm::Expected<LossOptions> parseLoss(llvm::StringRef text);
llvm::Expected<OptimizerOptions> parseOptimizer(llvm::StringRef text);
llvm::Expected<LearningRateOptions> parseLearningRate(llvm::StringRef text);
/// Parses a loss scale. nullopt for "none".
llvm::Expected<std::optional<LossScaleOptions>> parseLossScale(llvm::StringRef text);
/// "1=0.01,2=0.5": output number = coefficient. Empty: none.
llvm::Expected<llvm::SmallVector<AuxOutput>> parseAuxOutputs(llvm::StringRef text);

} // namespace tessera::compiler

#endif
