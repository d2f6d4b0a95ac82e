//===- OnnxImport.cpp - functions over the nodes of a file ------------------------------------===//

#include "compiler/import/OnnxImport.h"
#include "compiler/import/NamePatterns.h"
#include "compiler/import/Node.h"
#include "compiler/import/Roles.h"
#include "compiler/import/Suspicions.h"
#include "dialects/dist/DistDialect.h"
#include "dialects/graph/GraphAttributes.h"
#include "dialects/graph/Unused.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using llvm::createStringError;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

namespace tessera::compiler {
namespace {

/// Constants that are too large for graph.constant become weights, under one name in all functions.
class BigConstants {
public:
  explicit BigConstants(WeightStore &store) : store_(store) {}

  std::string name(const Constant &constant, StringRef origin) {
    std::vector<char> data = constant.toBytes();
    std::string bytes(data.begin(), data.end());
    std::string base = "constant/" + (origin.empty() ? "unnamed" : origin.str()), name = base;
    for (int i = 2; const Weight *weight = store_.find(name); name = base + "_" + std::to_string(i++)) {
      auto *held = std::get_if<std::string>(&weight->source);
      if (weight->type == constant.type() && weight->shape == constant.shape() && held && *held == bytes)
        return name;
    }
    store_.add({name, constant.type(), constant.shape(), std::move(bytes)});
    return name;
  }

private:
  WeightStore &store_;
};

/// The most nodes that unrolled bodies may have together.
constexpr int64_t kMaxUnrolled = 1 << 18;

/// Which BatchNormalizations are in training mode in @forward.
struct BatchNormModes {
  /// The file's marks are ignored, and all are in training mode but those that are frozen.
  bool flagsMeanNothing = false;
  std::set<const onnx::NodeProto *> frozen; // --freeze-batchnorm
};

/// Builds one function from the nodes.
class FunctionBuilder : public FunctionState {
public:
  FunctionBuilder(ModuleOp module, StringRef name, const ModelFile &file, llvm::ArrayRef<Source> sources,
                  const std::map<std::string, std::shared_ptr<const Constant>> &constants, BigConstants &bigConstants,
                  const BatchNormModes &norms, const ImportOptions &options, bool training)
      : file_(file), sources_(sources), constants_(constants), bigConstants_(bigConstants), norms_(norms),
        options_(options), training_(training) {
    OpBuilder builder(module.getBodyRegion());
    builder.setInsertionPointToEnd(module.getBody());
    func_ = func::FuncOp::create(builder, builder.getUnknownLoc(), name, builder.getFunctionType({}, {}));
    block_ = func_.addEntryBlock();
  }

  Error build();

  Value step() override {
    if (!step_)
      step_ = addArgument(graph::kStep, "step", DType::I64, {});
    return step_;
  }
  uint64_t seed() const override { return options_.seed; }
  int64_t nextStream() override { return stream_++; }
  bool training() const override { return training_; }
  bool literal() const override { return options_.literal && !training_; }
  bool batchStatistics(const onnx::NodeProto &node, bool marked) const override {
    return training_ && (marked || norms_.flagsMeanNothing) && !norms_.frozen.count(&node);
  }
  bool isState(StringRef name) const override { return states_.count(name.str()); }
  Val stateValue(StringRef name) override {
    auto it = updates_.find(name.str());
    return it == updates_.end() ? values_.at(name.str()) : it->second;
  }
  void setState(StringRef name, const Val &value) override { updates_[name.str()] = value; }
  bool isUsed(StringRef name) const override { return depth_ > 0 || uses_.count(name.str()); }
  const dist::Mesh *mesh() const override { return options_.perRank ? &options_.perRank->mesh : nullptr; }
  std::vector<Val> subgraph(GraphBuilder &builder, const onnx::GraphProto &graph, llvm::ArrayRef<Val> inputs) override;

private:
  struct Argument {
    std::string role, name;
  };
  Value addArgument(StringRef role, StringRef name, DType type, const Shape &shape) {
    arguments_.push_back({role.str(), name.str()});
    auto tensor = RankedTensorType::get(shape, elementType(func_.getContext(), type));
    return block_->addArgument(tensor, NameLoc::get(StringAttr::get(func_.getContext(), name)));
  }
  void countUses();
  Error buildNode(GraphBuilder &builder, const onnx::NodeProto &proto);
  Error finish(GraphBuilder &builder);

  const ModelFile &file_;
  llvm::ArrayRef<Source> sources_;
  const std::map<std::string, std::shared_ptr<const Constant>> &constants_;
  BigConstants &bigConstants_;
  const BatchNormModes &norms_;
  const ImportOptions &options_;
  bool training_;
  func::FuncOp func_;
  Block *block_;
  Value step_;
  int64_t stream_ = 0;
  std::vector<Argument> arguments_;
  std::map<std::string, Val> values_, updates_;
  std::set<std::string> states_, frozen_;
  std::map<std::string, int64_t> uses_; // for every value the reads that are still to come
  int depth_ = 0;                       // how many bodies surround the node that is being built
  int64_t unrolled_ = 0;                // nodes of bodies built so far
};

std::string nodeName(const onnx::NodeProto &node) {
  if (!node.name().empty())
    return node.name();
  for (const std::string &output : node.output())
    if (!output.empty())
      return output;
  return node.op_type();
}

/// Counts how often each value is read.
void FunctionBuilder::countUses() {
  for (const onnx::NodeProto *node : file_.order)
    file_.eachRead(*node, [&](const std::string &name, int) { ++uses_[name]; });
  for (const auto &output : file_.graph().output())
    ++uses_[output.name()];
}

Error FunctionBuilder::buildNode(GraphBuilder &builder, const onnx::NodeProto &proto) {
  auto error = [&](const std::string &message) {
    return createStringError("node '%s' (%s, opset %lld): %s", nodeName(proto).c_str(), proto.op_type().c_str(),
                             (long long)file_.opset, message.c_str());
  };
  const OpRow *found = findRow(proto);
  if (!found) {
    bool standard = proto.domain().empty() || proto.domain() == "ai.onnx";
    bool ours = proto.domain() == kTesseraDomain.str();
    return error(standard ? "this operator is not supported; docs/operators.md lists those that are"
                 : ours   ? "the domain ai.tessera has no such operator; docs/hybrid.md lists those "
                            "that it has"
                          : "operators of the domain '" + proto.domain() + "' are not supported");
  }
  const OpRow &row = *found;
  if (proto.domain() == kTesseraDomain.str() && !mesh())
    return error("collectives are only supported in the program of one rank: compile it with "
                 "--mode hybrid");
  if (file_.opset < row.since || file_.opset > row.until)
    return error("this operator is supported in opset " + std::to_string(row.since) + " to " +
                 std::to_string(row.until));

  std::vector<Val> inputs;
  for (const std::string &name : proto.input()) {
    if (name.empty()) {
      inputs.emplace_back();
      continue;
    }
    auto value = values_.find(name);
    if (value == values_.end())
      return error("its input '" + name + "' is an output that the operator before it does not give");
    inputs.push_back(value->second);
  }
  builder.setNode(nodeName(proto));
  Node node(proto, file_.opset, builder, *this, file_, std::move(inputs));
  row.build(node);
  if (!node.failed())
    node.checkAttributes();
  if (node.failed())
    return error(builder.error() +
                 (row.limits.empty() ? "" : " (supported of " + row.name.str() + ": " + row.limits.str() + ")"));
  for (int i = 0; i < proto.output_size(); ++i)
    if (!proto.output(i).empty() && node.outputs()[i])
      values_[proto.output(i)] = node.outputs()[i];
  if (depth_ > 0)
    return Error::success();
  // Frees the memory of known values that no later node reads.
  file_.eachRead(proto, [&](const std::string &name, int) {
    if (auto it = values_.find(name); --uses_[name] <= 0 && it != values_.end() && it->second.known)
      values_.erase(it);
  });
  return Error::success();
}

std::vector<Val> FunctionBuilder::subgraph(GraphBuilder &builder, const onnx::GraphProto &graph,
                                           llvm::ArrayRef<Val> inputs) {
  std::string outer = builder.node();
  unrolled_ += graph.node_size();
  if (unrolled_ > kMaxUnrolled) {
    builder.fail("its bodies unroll to more than " + llvm::Twine(kMaxUnrolled) + " nodes");
    return {};
  }
  if (int(inputs.size()) != graph.input_size()) {
    builder.fail("its body has " + llvm::Twine(graph.input_size()) + " inputs, not " + llvm::Twine(inputs.size()));
    return {};
  }
  // Names of the body hide equal names outside it, until the body ends.
  std::map<std::string, std::optional<Val>> hidden;
  auto define = [&](const std::string &name) -> Val & {
    auto it = values_.find(name);
    hidden.try_emplace(name, it == values_.end() ? std::nullopt : std::optional<Val>(it->second));
    return values_[name];
  };
  auto build = [&]() -> Error {
    for (const auto &tensor : graph.initializer()) {
      auto constant = constantOf(tensor, file_.directory);
      if (!constant)
        return constant.takeError();
      define(tensor.name()) = builder.known(std::move(*constant), tensor.name());
    }
    for (auto [i, input] : llvm::enumerate(graph.input()))
      define(input.name()) = inputs[i];
    for (const auto &node : graph.node()) {
      for (const std::string &name : node.input())
        if (!name.empty() && !values_.count(name))
          return createStringError("its body reads '%s', which nothing before produces", name.c_str());
      for (const std::string &name : node.output())
        if (!name.empty())
          define(name);
      if (Error error = buildNode(builder, node))
        return error;
    }
    return Error::success();
  };
  ++depth_;
  Error error = build();
  --depth_;
  std::vector<Val> outputs;
  for (const auto &output : graph.output())
    if (auto it = values_.find(output.name()); it != values_.end())
      outputs.push_back(it->second);
  for (auto &[name, value] : hidden)
    if (value)
      values_[name] = std::move(*value);
    else
      values_.erase(name);
  builder.setNode(outer);
  if (error) {
    std::string text = toString(std::move(error));
    builder.fail(text);
    builder.rephrase(text);
    return {};
  }
  if (int(outputs.size()) != graph.output_size() || llvm::any_of(outputs, [](const Val &v) { return !v; })) {
    builder.fail("its body does not produce all of its outputs");
    return {};
  }
  return outputs;
}

Error FunctionBuilder::build() {
  countUses();
  GraphBuilder builder(block_, [&](const Val &x) {
    return addArgument(graph::kState, bigConstants_.name(*x.known, x.origin), x.type, x.shape);
  });
  for (const Source &source : sources_) {
    StringRef role = source.kind == SourceKind::Input       ? graph::kInput
                     : source.kind == SourceKind::Parameter ? graph::kParameter
                                                            : graph::kState;
    if (source.kind == SourceKind::State)
      states_.insert(source.name);
    if (source.frozen)
      frozen_.insert(source.name);
    if (source.kind != SourceKind::Constant) {
      values_[source.name] = builder.wrap(addArgument(role, source.name, source.type, source.shape));
      continue;
    }
    Val &value = values_[source.name];
    value.type = source.type;
    value.shape = source.shape;
    value.known = constants_.at(source.name);
    value.origin = source.name;
  }
  for (const onnx::NodeProto *node : file_.order)
    if (Error error = buildNode(builder, *node))
      return error;
  return finish(builder);
}

Error FunctionBuilder::finish(GraphBuilder &builder) {
  MLIRContext *context = func_.getContext();
  auto text = [&](StringRef s) { return StringAttr::get(context, s); };
  llvm::SmallVector<Value> results;
  std::vector<Argument> roles;
  std::map<std::string, int64_t> updateIndex;
  for (const auto &output : file_.graph().output()) {
    auto it = values_.find(output.name());
    if (it == values_.end())
      return createStringError("the model's output '%s' is not produced by its operator: remove it from the outputs",
                               output.name().c_str());
    builder.setNode(output.name());
    if (!it->second.sequence && it->second.size() == 0)
      return createStringError("the model's output '%s' has no elements (shape %s): no program can give it; remove it "
                               "from the file's outputs",
                               output.name().c_str(), shapeText(it->second.shape).c_str());
    results.push_back(builder.materialize(it->second));
    roles.push_back({graph::kOutput.str(), output.name()});
  }
  for (const Source &source : sources_)
    if (auto it = updates_.find(source.name); it != updates_.end()) {
      updateIndex[source.name] = int64_t(results.size());
      results.push_back(builder.materialize(it->second));
      roles.push_back({graph::kUpdate.str(), source.name});
    }
  if (builder.failed())
    return createStringError("%s", builder.error().c_str());
  OpBuilder end = OpBuilder::atBlockEnd(block_);
  func::ReturnOp::create(end, end.getUnknownLoc(), results);
  // Erases operators without users: transposes that became part of a product, and outputs that nothing reads.
  graph::eraseUnused(*block_);
  func_.setType(FunctionType::get(context, block_->getArgumentTypes(), ValueRange(results).getTypes()));
  // Sets all at once, because setting a single one copies the whole list.
  llvm::SmallVector<DictionaryAttr> attributes;
  for (const auto &argument : arguments_) {
    NamedAttrList list;
    list.set(graph::kRoleAttr, text(argument.role));
    list.set(graph::kNameAttr, text(argument.name));
    if (auto it = updateIndex.find(argument.name); it != updateIndex.end() && argument.role == graph::kState)
      list.set(graph::kUpdateAttr, IntegerAttr::get(IntegerType::get(context, 64), it->second));
    if (argument.role == graph::kParameter && frozen_.count(argument.name))
      list.set(graph::kFrozenAttr, UnitAttr::get(context));
    attributes.push_back(list.getDictionary(context));
  }
  func_.setAllArgAttrs(attributes);
  attributes.clear();
  for (const auto &role : roles) {
    NamedAttrList list;
    list.set(graph::kRoleAttr, text(role.role));
    list.set(graph::kNameAttr, text(role.name));
    attributes.push_back(list.getDictionary(context));
  }
  func_.setAllResultAttrs(attributes);
  return Error::success();
}

/// Adds the values of parameters and states to the store: those of the file, or an initialisation rule.
Error fillWeights(WeightStore &store, llvm::ArrayRef<Source> sources, const ModelFile &file,
                  const ImportOptions &options) {
  std::vector<std::string> texts, suffixes;
  for (const auto &[pattern, rule] : options.initRules) {
    texts.push_back(pattern);
    suffixes.push_back("=" + rule);
  }
  auto patterns = NamePatterns::create("--init", texts, suffixes);
  if (!patterns)
    return patterns.takeError();
  std::vector<std::string> names;
  std::vector<std::pair<std::string, std::string>> others;
  for (const Source &source : sources) {
    if (source.kind != SourceKind::Parameter && source.kind != SourceKind::State) {
      others.push_back({source.name, source.kind == SourceKind::Input ? "an input of the model" : "a constant"});
      continue;
    }
    names.push_back(source.name);
    std::string rule = options.initRule;
    InitContext context = source.init;
    if (auto pattern = patterns->match(source.name)) {
      rule = options.initRules[*pattern].second;
      context.use = WeightUse::Kernel;
    }
    if (source.tensor) {
      // The tensor is checked even if a rule replaces it, so that a malformed file is always an error.
      auto weight = takeTensor(*source.tensor, file.directory);
      if (!weight)
        return weight.takeError();
      if (!options.forceInit) {
        if (source.whole != source.shape)
          return createStringError(
              "the parameter '%s' is cut (%s of %s), but the file stores the values of one slice: "
              "initialise by rule (--force-init, or export without values), and load whole tensors "
              "with tessera-run --weights",
              source.name.c_str(), shapeText(source.shape).c_str(), shapeText(source.whole).c_str());
        store.add(std::move(*weight));
        continue;
      }
    }
    // No initialisation rule suits a buffer without values. It starts as zeros.
    if (!source.tensor && source.kind == SourceKind::State && source.init.use == WeightUse::Other &&
        context.use == WeightUse::Other)
      rule = "zeros";
    auto init = makeInitRule(rule, context, options.seed);
    if (!init)
      return init.takeError();
    store.add({source.name, source.type, source.whole, *init});
  }
  return patterns->checkAll("parameter", names, others);
}

Expected<std::map<std::string, std::shared_ptr<const Constant>>> readConstants(llvm::ArrayRef<Source> sources,
                                                                               const ModelFile &file) {
  std::map<std::string, std::shared_ptr<const Constant>> constants;
  int64_t total = 0;
  for (const Source &source : sources) {
    if (source.kind != SourceKind::Constant)
      continue;
    total += *elementCount(source.shape);
    if (total > GraphBuilder::kFoldBudget)
      return createStringError("the model's constants have more than %lld elements",
                               (long long)GraphBuilder::kFoldBudget);
    auto constant = constantOf(*source.tensor, file.directory);
    if (!constant)
      return constant.takeError();
    constants[source.name] = std::make_shared<Constant>(std::move(*constant));
  }
  return constants;
}

/// Every BatchNormalization of the graph and of its bodies.
void collectNorms(const onnx::GraphProto &graph, std::vector<const onnx::NodeProto *> &norms) {
  for (const auto &node : graph.node()) {
    if (node.op_type() == "BatchNormalization" && node.input_size() > 4)
      norms.push_back(&node);
    for (const auto &attribute : node.attribute())
      if (attribute.has_g())
        collectNorms(attribute.g(), norms);
  }
}

/// `forTraining`: the file marks nodes as being in training mode. A pattern of --freeze-batchnorm matches the name of a
/// node, or that of its module, which is the prefix of its running mean's name ("layer1.0.bn1").
Expected<BatchNormModes> batchNormModes(const ModelFile &file, const ExporterSays &says, const ImportOptions &options,
                                        bool forTraining) {
  BatchNormModes modes;
  modes.flagsMeanNothing = !forTraining || says.torchExport;
  auto patterns = NamePatterns::create("--freeze-batchnorm", options.freezeBatchNorm);
  if (!patterns)
    return patterns.takeError();
  if (patterns->empty())
    return modes;
  std::vector<const onnx::NodeProto *> norms;
  collectNorms(file.graph(), norms);
  std::vector<std::string> names;
  for (const onnx::NodeProto *node : norms) {
    StringRef mean = node->input(3);
    const std::string module = mean.rsplit('.').first.str();
    const bool byNode = patterns->match(nodeName(*node)).has_value(), byModule = patterns->match(module).has_value();
    if (byNode || byModule)
      modes.frozen.insert(node);
    names.push_back(mean.contains('.') ? module : nodeName(*node));
  }
  if (Error error = patterns->checkAll("BatchNormalization", names))
    return error;
  return modes;
}

TensorRole roleOf(const Source &source) {
  StringRef role = source.kind == SourceKind::Constant ? "constant"
                   : source.kind == SourceKind::State  ? "state"
                   : source.frozen                     ? "frozen"
                                                       : "trained";
  return {source.name, role.str(), source.type, source.shape, source.reason, source.guess};
}

/// The tensors of the file with their roles, and the warnings.
struct FileRoles {
  bool forTraining = false; // nodes are marked as being in training mode
  ExporterSays says;
  std::vector<Source> sources;
  std::vector<TensorRole> roles;
  std::vector<std::string> warnings;
};

Expected<FileRoles> readRoles(ModelFile &file, const ImportOptions &options) {
  FileRoles result;
  result.forTraining = isMarkedForTraining(file);
  result.says = readExporter(file);
  if (options.training) {
    if (!result.forTraining)
      result.warnings = untieMerged(file);
    for (std::string &sentence : findLosses(file, result.says))
      result.warnings.push_back(std::move(sentence));
  }
  if (Error error = assignRoles(file, result.says, options).moveInto(result.sources))
    return error;
  std::vector<std::string> guesses;
  for (const Source &source : result.sources)
    if (source.kind != SourceKind::Input) {
      result.roles.push_back(roleOf(source));
      if (source.guess)
        guesses.push_back(source.name + "' (" + result.roles.back().role + ": " + source.reason + ")");
    }
  if (options.training && !guesses.empty()) {
    std::string names;
    for (const std::string &guess : llvm::ArrayRef(guesses).take_front(3))
      names += (names.empty() ? "'" : ", '") + guess;
    if (guesses.size() > 3)
      names += " and " + std::to_string(guesses.size() - 3) + " more";
    result.warnings.push_back("what " + std::string(guesses.size() == 1 ? "this is" : "these are") +
                              " is a guess, since the file does not say it: " + names +
                              "; --list-parameters shows all, --parameters, --constants and --freeze decide");
  }
  return result;
}

/// An error for a Send that is not built, since no output depends on it. Else it would go unnoticed.
Error checkSends(const ModelFile &file) {
  for (const onnx::NodeProto &node : file.graph().node())
    if (node.domain() == kTesseraDomain.str() && node.op_type() == "Send" && !llvm::is_contained(file.order, &node))
      return createStringError("node '%s' (Send, opset %lld): no output of the model depends on what it sends: a Recv "
                               "in another stage must read it",
                               nodeName(node).c_str(), (long long)file.opset);
  return Error::success();
}

Expected<ImportedModel> importFile(MLIRContext &context, ModelFile &file, const ImportOptions &options) {
  context.loadDialect<func::FuncDialect, graph::GraphDialect, dist::DistDialect>();
  auto read = readRoles(file, options);
  if (!read)
    return read.takeError();
  const std::vector<Source> &sources = read->sources;
  ImportedModel model;
  model.roles = std::move(read->roles);
  model.warnings = std::move(read->warnings);
  auto norms = batchNormModes(file, read->says, options, read->forTraining);
  if (!norms)
    return norms.takeError();
  if (Error error = fillWeights(model.weights, sources, file, options))
    return error;
  auto constants = readConstants(sources, file);
  if (!constants)
    return constants.takeError();

  model.module = ModuleOp::create(UnknownLoc::get(&context));
  if (options.perRank) {
    if (Error error = checkSends(file))
      return error;
    dist::setMesh(*model.module, options.perRank->mesh);
  }
  BigConstants bigConstants(model.weights);
  for (bool training : {true, false}) {
    if (training && !options.training)
      continue;
    FunctionBuilder function(*model.module, training ? "forward" : "infer", file, sources, *constants, bigConstants,
                             *norms, options, training);
    if (Error error = function.build())
      return error;
  }
  std::string message;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (message.empty())
      message = diagnostic.str();
  });
  if (failed(verify(*model.module)))
    return createStringError("the imported program is not valid: %s", message.c_str());
  return model;
}

} // namespace

Error ImportOptions::addDim(StringRef text) {
  auto [name, value] = text.split('=');
  int64_t extent = 0;
  if (name.empty() || value.getAsInteger(10, extent) || extent < 1)
    return createStringError("--dim %s: expected NAME=N with N at least 1, such as batch=256", text.str().c_str());
  dims[name.str()] = extent;
  return Error::success();
}

void ImportOptions::addInit(StringRef text) {
  auto [pattern, rule] = text.rsplit('=');
  if (rule.empty())
    initRule = text.str();
  else
    initRules.push_back({pattern.str(), rule.str()});
}

Expected<ImportedModel> importOnnx(MLIRContext &context, StringRef path, const ImportOptions &options) {
  auto file = readModelFile(path);
  if (!file)
    return file.takeError();
  auto model = importFile(context, **file, options);
  if (!model)
    return createStringError("%s: %s", path.str().c_str(), llvm::toString(model.takeError()).c_str());
  return model;
}

Expected<ListedParameters> listParameters(StringRef path, ImportOptions options) {
  auto file = readModelFile(path);
  if (!file)
    return file.takeError();
  options.training = options.anyDims = true;
  auto read = readRoles(**file, options);
  if (!read)
    return createStringError("%s: %s", path.str().c_str(), llvm::toString(read.takeError()).c_str());
  return ListedParameters{std::move(read->roles), std::move(read->warnings)};
}

Expected<ImportedModel> importOnnxBytes(MLIRContext &context, StringRef bytes, StringRef directory,
                                        const ImportOptions &options) {
  auto file = parseModel(bytes, directory);
  if (!file)
    return file.takeError();
  return importFile(context, **file, options);
}

} // namespace tessera::compiler
