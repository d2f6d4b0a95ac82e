//===- TrainingOptions.cpp -----------------------------------------------------------------------===//
#include "compiler/training/TrainingOptions.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

using llvm::StringRef;

namespace tessera::compiler {

namespace {

/// One option text. The caller declares each key with the variable for its value, and run() parses the text. So
/// messages list exactly the keys that are accepted.
class OptionText {
public:
  OptionText(StringRef what, StringRef text) : what_(what.str()), text_(text.str()) {
    auto [name, rest] = text.split(':');
    name_ = name.trim().str();
    rest_ = rest.trim().str();
    hasColon_ = text.contains(':');
  }

  StringRef name() const { return name_; }

  void real(StringRef key, double &value, double low, double high, StringRef range) {
    addKey(key, /*flag=*/false, [=, &value](StringRef text) {
      double parsed = 0;
      // NaN fails both comparisons.
      if (text.getAsDouble(parsed) || !(parsed >= low && parsed <= high))
        return "must be a number " + range.str();
      value = parsed;
      return std::string();
    });
  }
  void integer(StringRef key, int64_t low, StringRef range, std::function<void(int64_t)> store) {
    addKey(key, /*flag=*/false, [=](StringRef text) {
      int64_t parsed = 0;
      if (text.getAsInteger(10, parsed) || parsed < low)
        return "must be an integer " + range.str();
      store(parsed);
      return std::string();
    });
  }
  /// The last key also takes this word.
  void word(StringRef word, std::function<void()> store) {
    keys_.back().parse = [=, parse = std::move(keys_.back().parse)](StringRef text) {
      if (text != word)
        return parse(text);
      store();
      return std::string();
    };
  }
  void flag(StringRef key, bool &value) {
    addKey(key, /*flag=*/true, [&value](StringRef text) {
      if (text == "" || text == "true" || text == "1")
        value = true;
      else if (text == "false" || text == "0")
        value = false;
      else
        return std::string("must be true or false");
      return std::string();
    });
  }
  void require(StringRef key) { required_.push_back(key.str()); }

  llvm::Error run() {
    std::vector<std::string> seen;
    if (hasColon_ || !rest_.empty()) {
      llvm::SmallVector<StringRef> parts;
      StringRef(rest_).split(parts, ',');
      for (StringRef part : parts) {
        auto [key, value] = part.split('=');
        key = key.trim();
        value = value.trim();
        auto it = llvm::find_if(keys_, [key = key](const Key &k) { return k.name == key; });
        if (it == keys_.end())
          return error("'" + key.str() + "' is not a key of '" + name_ + "'; known: " + known());
        if (llvm::is_contained(seen, key))
          return error("'" + key.str() + "' is given twice");
        seen.push_back(key.str());
        if (!it->flag && !part.contains('='))
          return error("'" + key.str() + "' needs a value: " + key.str() + "=...");
        if (std::string why = it->parse(value); !why.empty())
          return error("'" + key.str() + "' " + why + ", not '" + value.str() + "'");
      }
    }
    for (const std::string &key : required_)
      if (!llvm::is_contained(seen, key))
        return error("'" + name_ + "' needs " + key + "=...");
    return llvm::Error::success();
  }

  llvm::Error error(const std::string &why) const {
    return llvm::createStringError("%s '%s': %s", what_.c_str(), text_.c_str(), why.c_str());
  }
  llvm::Error unknownName(StringRef known) const { return error("'" + name_ + "' is unknown; known: " + known.str()); }

private:
  struct Key {
    std::string name;
    bool flag;
    std::function<std::string(StringRef)> parse;
  };
  void addKey(StringRef name, bool flag, std::function<std::string(StringRef)> parse) {
    keys_.push_back({name.str(), flag, std::move(parse)});
  }
  std::string known() const {
    if (keys_.empty())
      return "none";
    return llvm::join(llvm::map_range(keys_, [](const Key &k) { return k.name; }), ", ");
  }

  std::string what_, text_, name_, rest_;
  bool hasColon_ = false;
  std::vector<Key> keys_;
  std::vector<std::string> required_;
};

constexpr double kInf = std::numeric_limits<double>::max(); // infinity itself is out of range

} // namespace

llvm::Expected<LossOptions> parseLoss(StringRef text) {
  OptionText t("loss", text);
  LossOptions o;
  if (t.name() == "cross_entropy")
    o.kind = LossOptions::CrossEntropy;
  else if (t.name() == "nll")
    o.kind = LossOptions::NegativeLogLikelihood;
  else if (t.name() == "mse")
    o.kind = LossOptions::MeanSquaredError;
  else if (t.name() == "bce_with_logits")
    o.kind = LossOptions::BinaryCrossEntropy;
  else if (t.name() == "output")
    o.kind = LossOptions::Output;
  else
    return t.unknownName("cross_entropy, nll, mse, bce_with_logits, output");

  constexpr int64_t any = std::numeric_limits<int64_t>::min();
  if (o.kind == LossOptions::CrossEntropy)
    t.real("label_smoothing", o.labelSmoothing, 0, 1, "from 0 to 1");
  if (o.hasClasses()) {
    t.integer("ignore_index", any, "or none", [&](int64_t v) { o.ignoreIndex = v; });
    t.word("none", [&] { o.ignoreIndex = std::nullopt; });
    t.integer("class_dim", any, "", [&](int64_t v) { o.classDim = v; });
  }
  t.integer("output", 0, "of at least 0", [&](int64_t v) { o.output = v; });
  if (llvm::Error error = t.run())
    return error;
  return o;
}

llvm::Expected<OptimizerOptions> parseOptimizer(StringRef text) {
  OptionText t("optimizer", text);
  OptimizerOptions o;
  if (t.name() == "sgd") {
    o.kind = OptimizerOptions::SGD;
  } else if (t.name() == "adam" || t.name() == "adamw") {
    o.kind = t.name() == "adam" ? OptimizerOptions::Adam : OptimizerOptions::AdamW;
    o.lr = 1e-3;
    o.weightDecay = o.kind == OptimizerOptions::AdamW ? 0.01 : 0;
  } else {
    return t.unknownName("sgd, adam, adamw");
  }

  t.real("lr", o.lr, 0, kInf, "of at least 0");
  if (o.kind == OptimizerOptions::SGD) {
    t.require("lr");
    t.real("momentum", o.momentum, 0, kInf, "of at least 0");
    t.real("dampening", o.dampening, -kInf, kInf, "");
    t.flag("nesterov", o.nesterov);
  } else {
    double below1 = std::nextafter(1.0, 0.0);
    t.real("beta1", o.beta1, 0, below1, "from 0 to below 1");
    t.real("beta2", o.beta2, 0, below1, "from 0 to below 1");
    t.real("eps", o.eps, 0, kInf, "of at least 0");
  }
  t.real("weight_decay", o.weightDecay, 0, kInf, "of at least 0");
  if (llvm::Error error = t.run())
    return error;
  if (o.nesterov && (o.momentum == 0 || o.dampening != 0))
    return t.error("nesterov needs momentum above 0 and dampening 0");
  return o;
}

llvm::Expected<LearningRateOptions> parseLearningRate(StringRef text) {
  OptionText t("schedule", text);
  LearningRateOptions o;
  if (t.name() == "constant") {
    o.kind = LearningRateOptions::Constant;
  } else if (t.name() == "step") {
    o.kind = LearningRateOptions::Step;
    t.integer("every", 1, "of at least 1", [&](int64_t v) { o.every = v; });
    t.real("gamma", o.gamma, 0, kInf, "of at least 0");
    t.require("every");
  } else if (t.name() == "cosine") {
    o.kind = LearningRateOptions::Cosine;
    t.integer("steps", 1, "of at least 1", [&](int64_t v) { o.steps = v; });
    t.real("min", o.min, 0, kInf, "of at least 0");
    t.require("steps");
  } else if (t.name() == "linear") {
    o.kind = LearningRateOptions::Linear;
    t.integer("steps", 1, "of at least 1", [&](int64_t v) { o.steps = v; });
    t.real("end", o.end, 0, kInf, "of at least 0");
    t.require("steps");
  } else {
    return t.unknownName("constant, step, cosine, linear");
  }
  t.integer("warmup", 0, "of at least 0", [&](int64_t v) { o.warmup = v; });
  if (llvm::Error error = t.run())
    return error;
  return o;
}

llvm::Expected<std::optional<LossScaleOptions>> parseLossScale(StringRef text) {
  OptionText t("loss scale", text);
  LossScaleOptions o;
  // The bounds leave room in float32 for the scale to grow.
  constexpr double low = 0x1p-100, high = 0x1p100;
  if (t.name() == "static") {
    o.growth = o.backoff = 1;
    t.real("scale", o.initial, low, high, "from 2^-100 to 2^100");
    t.require("scale");
  } else if (t.name() == "dynamic") {
    t.real("initial", o.initial, low, high, "from 2^-100 to 2^100");
    t.real("growth", o.growth, 1, 1024, "from 1 to 1024");
    t.real("backoff", o.backoff, 1.0 / 1024, 1, "from 1/1024 to 1");
    t.integer("interval", 1, "of at least 1", [&](int64_t v) { o.interval = v; });
  } else if (t.name() != "none") {
    return t.unknownName("none, static, dynamic");
  }
  if (llvm::Error error = t.run())
    return error;
  return t.name() == "none" ? std::nullopt : std::optional(o);
}

llvm::Expected<llvm::SmallVector<AuxOutput>> parseAuxOutputs(StringRef text) {
  llvm::SmallVector<AuxOutput> result;
  if (text.trim().empty())
    return result;
  llvm::SmallVector<StringRef> parts;
  text.split(parts, ',');
  for (StringRef part : parts) {
    auto [output, coefficient] = part.split('=');
    AuxOutput aux;
    if (output.trim().getAsInteger(10, aux.output) || aux.output < 0 ||
        coefficient.trim().getAsDouble(aux.coefficient) || !std::isfinite(aux.coefficient))
      return llvm::createStringError("additional losses '%s': '%s' is not OUTPUT=COEFFICIENT, as in 1=0.01",
                                     text.str().c_str(), part.trim().str().c_str());
    result.push_back(aux);
  }
  return result;
}

} // namespace tessera::compiler
