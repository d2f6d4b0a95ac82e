//===- Roles.cpp - uses of sources ------------------------------------------------------------===//

#include "compiler/import/Roles.h"
#include "compiler/import/Node.h"

#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace tessera::compiler {
namespace {

struct Use {
  const onnx::NodeProto *node;
  int operand;
};

/// Where a source ends up, through operators that only move data.
struct Reach {
  char code;       // of the operand, see OpRow::operands
  Use use;         // the operand
  bool part;       // only a part of it arrives
  bool transposed; // an odd number of transposes on the way
};

class UseMap {
public:
  explicit UseMap(const ModelFile &file) {
    for (const onnx::NodeProto *node : file.order)
      file.eachRead(*node, [&](const std::string &name, int operand) { uses_[name].push_back({node, operand}); });
    for (const auto &output : file.graph().output())
      outputs_.insert(output.name());
  }

  bool isLive(const std::string &name) const { return uses_.count(name) || outputs_.count(name); }

  std::vector<Reach> reach(const std::string &name) const {
    std::vector<Reach> result;
    struct Item {
      std::string name;
      bool part, transposed;
    };
    std::vector<Item> work{{name, false, false}};
    std::set<std::string> seen{name};
    while (!work.empty()) {
      Item item = work.back();
      work.pop_back();
      auto it = uses_.find(item.name);
      if (it == uses_.end())
        continue;
      for (const Use &use : it->second) {
        const OpRow *row = findRow(*use.node);
        StringRef codes = row ? StringRef(row->operands) : ".";
        char code = codes[std::min<size_t>(use.operand, codes.size() - 1)];
        bool moves = code == '>' || code == '/';
        if (!moves || use.operand != 0) {
          result.push_back({code, use, item.part, item.transposed});
          continue;
        }
        for (const std::string &output : use.node->output())
          if (!output.empty() && seen.insert(output).second)
            work.push_back({output, item.part || code == '/', item.transposed != (use.node->op_type() == "Transpose")});
      }
    }
    return result;
  }

private:
  std::map<std::string, std::vector<Use>> uses_;
  std::set<std::string> outputs_;
};

bool isWeightCode(char code) { return StringRef("kbesomvp").contains(code); }

/// A name that PyTorch gives to a parameter: a module path, "features.0.weight", or the parameter of a
/// module that stands alone. ("input.1" is its name for an input without one.)
bool isParameterName(StringRef name) {
  StringRef last = name.rsplit('.').second;
  return (!last.empty() && !isDigit(last.front())) || name == "weight" || name == "bias";
}

/// A name that an exporter made up for a value that it computed itself ("onnx::MatMul_343", "412").
bool isMadeUp(StringRef name) { return name.contains("::") || name.starts_with("_v_") || all_of(name, isDigit); }

/// Is a floating point initializer a constant?
bool isConstant(StringRef name, ArrayRef<Reach> reach) {
  if (any_of(reach, [](const Reach &r) { return isWeightCode(r.code); }))
    return false;
  if (isMadeUp(name))
    return true;
  return !reach.empty() && all_of(reach, [](const Reach &r) { return r.code == 't' || (r.code == '*' && r.part); });
}

int64_t intAttr(const onnx::NodeProto &node, StringRef name) {
  for (const auto &attribute : node.attribute())
    if (attribute.name() == name.str())
      return attribute.i();
  return 0;
}

/// Fans of a kernel, as PyTorch counts them.
void setFans(Source &source, const Reach &reach) {
  const Shape &shape = source.whole;
  auto rank = int64_t(shape.size());
  if (rank < 2) {
    source.init.fanIn = source.init.fanOut = rank == 0 ? 1 : double(shape[0]);
    return;
  }
  StringRef type = reach.use.node->op_type();
  if (type.starts_with("Conv")) {
    double field = 1;
    for (int64_t d = 2; d < rank; ++d)
      field *= double(shape[d]);
    source.init.fanIn = double(shape[1]) * field;
    source.init.fanOut = double(shape[0]) * field;
    return;
  }
  // [in, out], unless it is transposed on the way or by the product.
  bool outIn = reach.transposed != (type == "Gemm" && intAttr(*reach.use.node, "transB") != 0);
  source.init.fanIn = double(shape[outIn ? rank - 1 : rank - 2]);
  source.init.fanOut = double(shape[outIn ? rank - 2 : rank - 1]);
}

WeightUse useOf(char code) {
  switch (code) {
  case 'k':
    return WeightUse::Kernel;
  case 'b':
    return WeightUse::Bias;
  case 'e':
    return WeightUse::Embedding;
  case 's':
    return WeightUse::NormScale;
  case 'o':
    return WeightUse::NormBias;
  case 'm':
    return WeightUse::RunningMean;
  case 'v':
    return WeightUse::RunningVar;
  default:
    return WeightUse::Other;
  }
}

/// Uses and fans of parameters, for initialisation.
void describeWeights(std::vector<Source> &sources, const UseMap &uses) {
  std::map<const onnx::NodeProto *, double> kernelFan;
  std::map<std::string, size_t> byName;
  std::vector<std::vector<Reach>> reaches;
  for (size_t i = 0; i < sources.size(); ++i) {
    Source &source = sources[i];
    byName[source.name] = i;
    reaches.push_back(uses.reach(source.name));
    for (const Reach &r : reaches.back())
      if (isWeightCode(r.code) && r.code != 'p' && source.init.use == WeightUse::Other) {
        source.init.use = useOf(r.code);
        if (r.code == 'k' || r.code == 'e')
          setFans(source, r);
      }
    if (source.init.use == WeightUse::Kernel)
      for (const Reach &r : reaches.back())
        kernelFan.emplace(r.use.node, source.init.fanIn);
  }
  for (size_t i = 0; i < sources.size(); ++i) {
    Source &source = sources[i];
    InitContext &init = source.init;
    if (init.use == WeightUse::Bias)
      for (const Reach &r : reaches[i])
        if (auto it = kernelFan.find(r.use.node); it != kernelFan.end())
          init.fanIn = it->second;
    if (init.use != WeightUse::Other)
      continue;
    // Biases and scales that are added and multiplied by operators of their own.
    StringRef name = source.name;
    if (name.consume_back(".bias")) {
      auto sibling = byName.find(name.str() + ".weight");
      const InitContext *weight = sibling == byName.end() ? nullptr : &sources[sibling->second].init;
      bool norm = weight && weight->use == WeightUse::NormScale;
      init.use = norm ? WeightUse::NormBias : WeightUse::Bias;
      init.fanIn = weight ? weight->fanIn : 1;
    } else if (source.shape.size() <= 1 && !reaches[i].empty() &&
               all_of(reaches[i], [](const Reach &r) { return r.code == '*'; })) {
      init.use = WeightUse::NormScale;
    }
  }
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
    std::string symbol = dim.dim_param().empty() ? source.name + "#" + std::to_string(axis) : dim.dim_param();
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

} // namespace

Expected<std::vector<Source>> assignRoles(const ModelFile &file, const ImportOptions &options) {
  UseMap uses(file);
  std::vector<Source> inputs, parameters, states, constants;

  // Some graph inputs are parameters only if the file was written without weights: no weighted
  // operator reads an initializer, and names of parameters are among the inputs.
  bool leftOut = any_of(file.graph().input(), [&](const auto &info) {
    return !file.initializers.count(info.name()) && isParameterName(info.name());
  });
  for (const auto &[name, tensor] : file.initializers)
    leftOut &= none_of(uses.reach(name), [](const Reach &r) { return isWeightCode(r.code); });

  std::set<std::string> symbols;
  std::vector<std::string> unbound;
  for (const auto &info : file.graph().input()) {
    if (file.initializers.count(info.name()))
      continue; // only a default value, before IR version 4
    Source source;
    if (Error error = readInput(info, options, source, symbols, unbound))
      return error;
    std::vector<Reach> reach = uses.reach(source.name);
    // A table that is gathered from may as well be an input ("x[0]"); embeddings have names of parameters.
    bool weight = any_of(reach, [](const Reach &r) { return isWeightCode(r.code) && r.code != 'e'; });
    bool isParameter = is_contained(options.parameters, source.name) ||
                       (isFloat(source.type) && leftOut && (weight || isParameterName(source.name)));
    if (!options.inputs.empty())
      isParameter = !is_contained(options.inputs, source.name);
    if (!isParameter) {
      inputs.push_back(std::move(source));
      continue;
    }
    if (!uses.isLive(source.name))
      continue;
    if (!isFloat(source.type))
      return createStringError("'%s' is taken for a parameter but is %s: list the model's inputs", source.name.c_str(),
                               dtypeName(source.type).str().c_str());
    source.kind = SourceKind::Parameter;
    parameters.push_back(std::move(source));
  }
  for (const std::string &name : options.inputs)
    if (none_of(inputs, [&](const Source &s) { return s.name == name; }))
      return createStringError("the model has no input '%s'", name.c_str());
  if (Error error = checkDims(options, symbols, unbound))
    return error;

  for (const auto &tensor : file.graph().initializer()) {
    if (!uses.isLive(tensor.name()))
      continue;
    Source source;
    source.name = tensor.name();
    source.tensor = file.initializers.at(tensor.name());
    auto type = dtypeOf(tensor.data_type());
    source.shape.assign(tensor.dims().begin(), tensor.dims().end());
    if (!type || !elementCount(source.shape) || source.shape.size() > kMaxRank)
      return createStringError("the initializer '%s' has the type %s and the shape %s, which is not supported",
                               source.name.c_str(), onnxTypeName(tensor.data_type()).c_str(),
                               shapeText(source.shape).c_str());
    source.type = *type;
    bool constant = !isFloat(*type) || isConstant(source.name, uses.reach(source.name));
    if (is_contained(options.constants, source.name))
      constant = true;
    if (is_contained(options.parameters, source.name) && isFloat(*type))
      constant = false;
    if (!constant && *elementCount(source.shape) == 0)
      return createStringError("the parameter '%s' has no elements (shape %s)", source.name.c_str(),
                               shapeText(source.shape).c_str());
    source.kind = constant ? SourceKind::Constant : SourceKind::Parameter;
    (constant ? constants : parameters).push_back(std::move(source));
  }

  for (Source &source : parameters) {
    source.whole = source.shape;
    if (!options.perRank)
      continue;
    auto whole = options.perRank->wholeShape(source.name, source.shape);
    if (!whole)
      return whole.takeError();
    source.whole = std::move(*whole);
    if (!elementCount(source.whole))
      return createStringError("the parameter '%s' has the shape %s, which is too large", source.name.c_str(),
                               shapeText(source.whole).c_str());
  }
  describeWeights(parameters, uses);
  // Running statistics are states. A tensor that is also used as anything else stays a parameter.
  auto isState = [&](const Source &source) {
    auto reach = uses.reach(source.name);
    return !reach.empty() && all_of(reach, [](const Reach &r) { return r.code == 'm' || r.code == 'v'; });
  };
  std::vector<Source> all = std::move(inputs);
  for (Source &source : parameters)
    (isState(source) ? states : all).push_back(source);
  for (Source &source : states) {
    source.kind = SourceKind::State;
    all.push_back(std::move(source));
  }
  for (Source &source : constants)
    all.push_back(std::move(source));
  return all;
}

} // namespace tessera::compiler
