//===- Roles.cpp - deciding what sources are ---------------------------------------------------===//

#include "compiler/import/Roles.h"
#include "compiler/import/NamePatterns.h"
#include "compiler/import/Node.h"
#include "runtime/support/Printable.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace llvm;

namespace tessera::compiler {
namespace {

/// "fc.weight", "bias".
bool isWeightName(StringRef name) {
  StringRef last = name.contains('.') ? name.rsplit('.').second : name;
  return last == "weight" || last == "bias";
}

/// A name that an exporter made up for a value that it computed itself ("onnx::MatMul_343", "412", "val_7").
bool isMadeUp(StringRef name) {
  if (name.contains("::") || name.starts_with("_v_"))
    return true;
  name.consume_front("val_");
  return all_of(name, isDigit);
}

/// Names that PyTorch libraries give to buffers and to nothing else, without the module before them.
bool isBufferName(StringRef name) {
  StringRef last = name.contains('.') ? name.rsplit('.').second : name;
  return StringSwitch<bool>(last)
      .Cases({"inv_freq", "original_inv_freq", "final_logits_bias", "embed_scale"}, true)
      .Default(false);
}

/// "kernel of Conv".
std::string weightText(const Reach &reach) {
  StringRef what = StringSwitch<StringRef>(StringRef(&reach.code, 1))
                       .Case("k", "kernel of ")
                       .Case("b", "bias of ")
                       .Case("e", "table of ")
                       .Case("s", "scale of ")
                       .Case("o", "offset of ")
                       .Cases({"m", "v"}, "statistics of ")
                       .Default("weight of ");
  return (what + reach.use.node->op_type()).str();
}

bool isElementwise(const Reach &reach) {
  return any_of(elementwiseOps(), [&](const OpRow &row) { return row.name == reach.use.node->op_type(); });
}

/// What a source is, for which reason, and whether that is a guess.
struct Decision {
  SourceKind kind;
  std::string reason;
  bool guess = false;
};

/// By what reads a floating point initializer and by its name. `lost`: the exporter says what tensors are and nothing
/// of this one, so that its optimiser made it, perhaps of parameters.
Decision decideByUse(StringRef name, ArrayRef<int64_t> shape, ArrayRef<Reach> reach, bool lost) {
  auto only = [&](auto test) { return !reach.empty() && all_of(reach, test); };
  if (isBufferName(name))
    return {SourceKind::Constant, "named like a buffer", true};
  if (const Reach *weight = find_if(reach, [](const Reach &r) { return r.isWeight(); }); weight != reach.end())
    return {SourceKind::Parameter, weightText(*weight), lost};
  const bool isScalar = *elementCount(shape) == 1;
  if (const Reach *known = find_if(reach, [](const Reach &r) { return r.isKnown(); }); isScalar && known != reach.end())
    return {SourceKind::Constant, "a number that " + known->use.node->op_type() + " must know"};
  if (isMadeUp(name))
    return {SourceKind::Constant, "made by the exporter", lost};
  if (only([](const Reach &r) { return r.isDiscrete(); }))
    return {SourceKind::Constant, "no gradient reaches it"};
  if (only([](const Reach &r) { return r.isDiscrete() || (r.code == '*' && r.part); }))
    return {SourceKind::Constant, "a table that is sliced and multiplied", true};
  if (isWeightName(name))
    return {SourceKind::Parameter, "named like a parameter", lost};
  if (isScalar && only([](const Reach &r) { return r.isDiscrete() || isElementwise(r); }))
    return {SourceKind::Constant, "a scalar that only elementwise operators read", true};
  return {SourceKind::Parameter, reach.empty() ? "an output" : "read by " + reach.front().use.node->op_type(), true};
}

/// By what the exporter says of it.
Decision decideBySaying(const TensorSays &says, ArrayRef<int64_t> shape, ArrayRef<Reach> reach) {
  switch (says.kind) {
  case TensorKind::Parameter:
    return {SourceKind::Parameter, "the file says PARAMETER"};
  case TensorKind::Buffer: {
    // What PyTorch keeps in its state_dict is loaded and saved here, too; but operators may need to know a mask, an
    // index or a scalar when the file is read.
    bool known =
        *elementCount(shape) <= 1 || (!reach.empty() && all_of(reach, [](const Reach &r) { return r.isDiscrete(); }));
    return {says.persistent && !known ? SourceKind::State : SourceKind::Constant, "the file says BUFFER"};
  }
  case TensorKind::Constant:
    break;
  }
  return {SourceKind::Constant, "the file says CONSTANT_TENSOR"};
}

/// Resolves a graph input's type; symbolic dimensions without a value are collected.
Error readInput(const onnx::ValueInfoProto &info, const ImportOptions &options, Source &source,
                std::set<std::string> &symbols, std::vector<std::string> &unbound) {
  source.name = info.name();
  if (!info.type().has_tensor_type())
    return createStringError("the input '%s' is not a tensor", source.name.c_str());
  const auto &tensor = info.type().tensor_type();
  auto type = dtypeOf(tensor.elem_type());
  if (!type)
    return createStringError("the input '%s' has the element type %s, which is not supported", source.name.c_str(),
                             onnxTypeName(tensor.elem_type()).c_str());
  source.type = *type;
  if (!tensor.has_shape() || tensor.shape().dim_size() > kMaxRank)
    return createStringError("the input '%s' has no shape, or more than %d dimensions", source.name.c_str(),
                             int(kMaxRank));
  for (int axis = 0; axis < tensor.shape().dim_size(); ++axis) {
    const auto &dim = tensor.shape().dim(axis);
    // Some exporters write 0 or -1 for "unknown".
    if (dim.has_dim_value() && dim.dim_value() > 0) {
      source.shape.push_back(dim.dim_value());
      continue;
    }
    // Named as messages show it: so --dim can name it, whatever is in it.
    const std::string symbol =
        rt::printable(dim.dim_param().empty() ? source.name + "#" + std::to_string(axis) : dim.dim_param());
    symbols.insert(symbol);
    auto it = options.dims.find(symbol);
    if (it == options.dims.end()) {
      if (!is_contained(unbound, symbol))
        unbound.push_back(symbol);
      source.shape.push_back(1);
    } else if (it->second < 1) {
      return createStringError("the dimension '%s' must be positive, not %lld", symbol.c_str(), (long long)it->second);
    } else if (axis == 0 && it->second % options.microBatches != 0) {
      return createStringError("the dimension '%s' of %lld cannot be cut in %lld micro-batches", symbol.c_str(),
                               (long long)it->second, (long long)options.microBatches);
    } else {
      source.shape.push_back(axis == 0 ? it->second / options.microBatches : it->second);
    }
  }
  if (!elementCount(source.shape))
    return createStringError("the input '%s' has the shape %s, which is too large", source.name.c_str(),
                             shapeText(source.shape).c_str());
  return Error::success();
}

Error checkDims(const ImportOptions &options, const std::set<std::string> &symbols, ArrayRef<std::string> unbound) {
  if (!unbound.empty()) {
    std::string hint;
    for (const std::string &name : unbound)
      hint += " --dim " + name + "=VALUE";
    return createStringError("the model has symbolic dimensions without a value (%s): add%s",
                             join(unbound, ", ").c_str(), hint.c_str());
  }
  for (const auto &[name, value] : options.dims)
    if (!symbols.count(name))
      return createStringError("the model has no symbolic dimension '%s'; it has %s", name.c_str(),
                               symbols.empty() ? "none" : join(symbols, ", ").c_str());
  return Error::success();
}

/// Decides; holds what all sources share.
class RoleBuilder {
public:
  RoleBuilder(const ModelFile &file, const ExporterSays &says, const ImportOptions &options)
      : file_(file), says_(says), options_(options), uses_(file) {}

  Expected<std::vector<Source>> build() {
    if (Error error = readPatterns())
      return error;
    if (Error error = addGraphInputs())
      return error;
    if (Error error = addInitializers())
      return error;
    if (Error error = freeze())
      return error;
    if (Error error = setWholeShapes())
      return error;
    std::vector<Source> weights;
    for (SourceKind kind : {SourceKind::Parameter, SourceKind::State})
      for (Source &source : sources_)
        if (source.kind == kind)
          weights.push_back(source);
    describeWeights(weights, uses_);
    std::vector<Source> all;
    auto add = [&](std::vector<Source> &from, SourceKind kind) {
      for (Source &source : from)
        if (source.kind == kind)
          all.push_back(std::move(source));
    };
    add(sources_, SourceKind::Input);
    add(weights, SourceKind::Parameter);
    add(weights, SourceKind::State);
    add(sources_, SourceKind::Constant);
    return all;
  }

private:
  Error readPatterns() {
    for (auto [patterns, option, texts] : {std::tuple(&parameters_, "--parameters", &options_.parameters),
                                           std::tuple(&constants_, "--constants", &options_.constants),
                                           std::tuple(&freeze_, "--freeze", &options_.freeze)})
      if (Error error = NamePatterns::create(option, *texts).moveInto(*patterns))
        return error;
    return Error::success();
  }

  /// What the options say; an error where they say two things.
  Expected<std::optional<Decision>> decideByOption(const Source &source, bool mayBeConstant) {
    std::optional<size_t> constant, parameter;
    if (mayBeConstant)
      constant = constants_.match(source.name);
    if (isFloat(source.type))
      parameter = parameters_.match(source.name);
    if (constant && parameter)
      return createStringError("'%s' is named by %s and by %s: it is one of the two", source.name.c_str(),
                               parameters_.text(*parameter).c_str(), constants_.text(*constant).c_str());
    if (constant)
      return Decision{SourceKind::Constant, constants_.text(*constant)};
    if (parameter)
      return Decision{SourceKind::Parameter, parameters_.text(*parameter)};
    return std::nullopt;
  }

  Error addGraphInputs();
  Error addInitializers();
  Expected<Decision> decideInitializer(const Source &source, ArrayRef<Reach> reach);

  /// Running statistics are states. A tensor that is also used as anything else is none.
  static bool isStatistics(ArrayRef<Reach> reach) {
    return !reach.empty() && all_of(reach, [](const Reach &r) { return r.isStatistic(); });
  }

  static void take(Source &source, Decision decision) {
    source.kind = decision.kind;
    source.reason = std::move(decision.reason);
    source.guess = decision.guess;
  }

  Error freeze() {
    for (Source &source : sources_)
      if (source.kind == SourceKind::Parameter)
        if (auto pattern = freeze_.match(source.name)) {
          source.frozen = true;
          source.guess = false;
          source.reason = freeze_.text(*pattern);
        }
    using Other = std::pair<std::string, std::string>;
    std::vector<std::string> parameters, initializers, floats;
    std::vector<Other> notParameters, notInitializers, notFloats;
    for (const Source &source : sources_) {
      if (source.kind == SourceKind::Parameter)
        parameters.push_back(source.name);
      else
        notParameters.push_back({source.name, source.kind == SourceKind::Input      ? "an input of the model"
                                              : source.kind == SourceKind::Constant ? "a constant already"
                                                                                    : "a state, which is not trained"});
      if (source.tensor)
        initializers.push_back(source.name);
      else
        notInitializers.push_back({source.name, "an input of the graph, without a value"});
      if (isFloat(source.type))
        floats.push_back(source.name);
      else
        notFloats.push_back({source.name, dtypeName(source.type).str() + ", which cannot be trained"});
    }
    if (Error error = parameters_.checkAll("floating-point initializer or input", floats, notFloats))
      return error;
    if (Error error = constants_.checkAll("initializer", initializers, notInitializers))
      return error;
    return freeze_.checkAll("parameter", parameters, notParameters);
  }

  Error setWholeShapes() {
    for (Source &source : sources_) {
      if (source.kind != SourceKind::Parameter && source.kind != SourceKind::State)
        continue;
      source.whole = source.shape;
      if (!options_.perRank)
        continue;
      auto whole = options_.perRank->wholeShape(source.name, source.shape);
      if (!whole)
        return whole.takeError();
      source.whole = std::move(*whole);
      if (!elementCount(source.whole))
        return createStringError("the parameter '%s' has the shape %s, which is too large", source.name.c_str(),
                                 shapeText(source.whole).c_str());
    }
    return Error::success();
  }

  const ModelFile &file_;
  const ExporterSays &says_;
  const ImportOptions &options_;
  UseMap uses_;
  NamePatterns parameters_, constants_, freeze_;
  std::vector<Source> sources_;
};

Error RoleBuilder::addGraphInputs() {
  // Some graph inputs are parameters only if the file was written without weights: no weighted
  // operator reads an initializer, and names of parameters are among the inputs.
  bool leftOut = any_of(file_.graph().input(), [&](const auto &info) {
    return !file_.initializers.count(info.name()) && isParameterName(info.name());
  });
  for (const auto &[name, tensor] : file_.initializers)
    leftOut = leftOut && none_of(uses_.reach(name), [](const Reach &r) { return r.isWeight(); });

  std::set<std::string> symbols;
  std::vector<std::string> unbound;
  for (const auto &info : file_.graph().input()) {
    if (file_.initializers.count(info.name()))
      continue; // only a default value, before IR version 4
    Source source;
    if (Error error = readInput(info, options_, source, symbols, unbound))
      return error;
    std::vector<Reach> reach = uses_.reach(source.name);
    auto option = decideByOption(source, /*mayBeConstant=*/false);
    if (!option)
      return option.takeError();
    Decision decision{SourceKind::Input, "an input of the graph"};
    if (*option) {
      decision = **option;
    } else if (const TensorSays *says = says_.find(source.name); says && isFloat(source.type)) {
      decision = decideBySaying(*says, source.shape, reach);
      if (decision.kind != SourceKind::Parameter && !isStatistics(reach))
        decision = {SourceKind::State, decision.reason + ", and has no values of it: zeros", true};
    } else if (isFloat(source.type) && leftOut) {
      // A table that is gathered from may as well be an input ("x[0]"); embeddings have names of parameters.
      auto weight = find_if(reach, [](const Reach &r) { return r.isWeight() && r.code != 'e'; });
      if (weight != reach.end())
        decision = {SourceKind::Parameter, weightText(*weight)};
      else if (isParameterName(source.name))
        decision = {SourceKind::Parameter, "named like a parameter", !isWeightName(source.name)};
    }
    if (!options_.inputs.empty()) {
      const bool isInput = is_contained(options_.inputs, source.name);
      if (isInput || decision.kind == SourceKind::Input)
        decision = {isInput ? SourceKind::Input : SourceKind::Parameter,
                    isInput ? "--inputs names it" : "--inputs names others"};
    }
    if (decision.kind != SourceKind::Input && !uses_.isLive(source.name))
      continue;
    if (decision.kind != SourceKind::Input && !isFloat(source.type))
      return createStringError("'%s' is taken for a parameter but is %s: list the model's inputs", source.name.c_str(),
                               dtypeName(source.type).str().c_str());
    if (decision.kind == SourceKind::Parameter && isStatistics(reach))
      decision = {SourceKind::State, weightText(reach.front())};
    take(source, std::move(decision));
    sources_.push_back(std::move(source));
  }
  for (const std::string &name : options_.inputs)
    if (none_of(sources_, [&](const Source &s) { return s.kind == SourceKind::Input && s.name == name; }))
      return createStringError("the model has no input '%s'", name.c_str());
  return options_.anyDims ? Error::success() : checkDims(options_, symbols, unbound);
}

Expected<Decision> RoleBuilder::decideInitializer(const Source &source, ArrayRef<Reach> reach) {
  auto option = decideByOption(source, /*mayBeConstant=*/true);
  if (!option)
    return option.takeError();
  if (!isFloat(source.type))
    return Decision{SourceKind::Constant, dtypeName(source.type).str() + " is not trained"};
  if (*option && (**option).kind == SourceKind::Constant)
    return **option;
  if (isStatistics(reach))
    return Decision{SourceKind::State, weightText(reach.front())};
  if (*option)
    return **option;
  if (const TensorSays *says = says_.find(source.name))
    return decideBySaying(*says, source.shape, reach);
  // All parameters are there: what the exporter made, it made of constants.
  const bool lost = !says_.tensors.empty();
  if (says_.complete && !says_.parametersMissing)
    return Decision{SourceKind::Constant, "made by the exporter of constants"};
  return decideByUse(source.name, source.shape, reach, lost);
}

Error RoleBuilder::addInitializers() {
  for (const auto &tensor : file_.graph().initializer()) {
    if (!uses_.isLive(tensor.name()))
      continue;
    Source source;
    source.name = tensor.name();
    source.tensor = file_.initializers.at(tensor.name());
    auto type = dtypeOf(tensor.data_type());
    source.shape.assign(tensor.dims().begin(), tensor.dims().end());
    if (!type || !elementCount(source.shape) || source.shape.size() > kMaxRank)
      return createStringError("the initializer '%s' has the type %s and the shape %s, which is not supported",
                               source.name.c_str(), onnxTypeName(tensor.data_type()).c_str(),
                               shapeText(source.shape).c_str());
    source.type = *type;
    auto decision = decideInitializer(source, uses_.reach(source.name));
    if (!decision)
      return decision.takeError();
    take(source, std::move(*decision));
    if (source.kind == SourceKind::Parameter && *elementCount(source.shape) == 0)
      return createStringError("the parameter '%s' has no elements (shape %s), so that nothing of it can be trained: "
                               "--constants %s takes it for a constant",
                               source.name.c_str(), shapeText(source.shape).c_str(), source.name.c_str());
    sources_.push_back(std::move(source));
  }
  return Error::success();
}

} // namespace

bool isParameterName(StringRef name) {
  StringRef last = name.rsplit('.').second;
  return (!last.empty() && !isDigit(last.front())) || name == "weight" || name == "bias";
}

Expected<std::vector<Source>> assignRoles(const ModelFile &file, const ExporterSays &says,
                                          const ImportOptions &options) {
  return RoleBuilder(file, says, options).build();
}

} // namespace tessera::compiler
