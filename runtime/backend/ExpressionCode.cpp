#include "runtime/backend/ExpressionCode.h"

#include <algorithm>
#include <map>

namespace tessera::rt {
namespace {

enum class Kind { FloatUnary, NumberUnary, LogicUnary, Number, Whole, Compare, Logic, Select, Cast, Source };
struct OpInfo {
  Op op;
  Kind kind;
  uint32_t arity;
};

const std::map<std::string, OpInfo, std::less<>> &opTable() {
  static const std::map<std::string, OpInfo, std::less<>> table = {
#define TESSERA_ELEMENTWISE(NAME, TEXT, KIND, OPERANDS, ...) {TEXT, {Op::NAME, Kind::KIND, OPERANDS}},
#include "runtime/support/Elementwise.def"
      {"cast", {Op::Cast, Kind::Cast, 1}},
      {"constant", {Op::Constant, Kind::Source, 0}},
      {"iota", {Op::Iota, Kind::Source, 0}},
      {"random", {Op::Random, Kind::Source, 1}},
  };
  return table;
}

const plan::Attribute *find(const google::protobuf::RepeatedPtrField<plan::Attribute> &attributes,
                            std::string_view name) {
  for (const plan::Attribute &a : attributes)
    if (a.name() == name)
      return &a;
  return nullptr;
}
int64_t intOf(const google::protobuf::RepeatedPtrField<plan::Attribute> &attributes, std::string_view name) {
  const plan::Attribute *a = find(attributes, name);
  return a ? a->i() : 0;
}
Shape intsOf(const google::protobuf::RepeatedPtrField<plan::Attribute> &attributes, std::string_view name) {
  const plan::Attribute *a = find(attributes, name);
  return a ? Shape(a->ints().values().begin(), a->ints().values().end()) : Shape();
}

/// Reads the attributes of iota and random.
Status readSource(Instr &instr, const google::protobuf::RepeatedPtrField<plan::Attribute> &attributes,
                  const Shape &domain) {
  if (instr.op == Op::Iota) {
    int64_t dim = intOf(attributes, "dim");
    if (dim < 0 || dim >= int64_t(domain.size()))
      return Status::error("iota along dimension " + std::to_string(dim) + " of " + str(domain) +
                           ", which has no such dimension");
    instr.dim = size_t(dim);
    instr.start = intOf(attributes, "start");
    return Status();
  }
  instr.seed = uint64_t(intOf(attributes, "seed"));
  instr.stream = uint64_t(intOf(attributes, "stream"));
  Shape global = intsOf(attributes, "global_shape"), offset = intsOf(attributes, "offset");
  if (global.empty())
    global = domain;
  if (offset.empty())
    offset.assign(domain.size(), 0);
  if (global.size() != domain.size() || offset.size() != domain.size())
    return Status::error("random: global_shape " + str(global) + " and offset " + str(offset) +
                         " do not have the rank of " + str(domain));
  // A box may end beyond the whole tensor. These elements are padding, whose numbers nobody reads.
  constexpr int64_t kMost = int64_t(1) << 56; // so that no index overflows
  int64_t total = 1;
  for (size_t d = 0; d < domain.size(); ++d)
    if (global[d] < 0 || offset[d] < 0 || offset[d] > global[d] || domain[d] > global[d] ||
        __builtin_mul_overflow(total, global[d], &total) || total > kMost)
      return Status::error("random: the box " + str(domain) + " at " + str(offset) + " does not lie inside " +
                           str(global));
  instr.globalStrides = rowMajorStrides(global);
  instr.globalOffset = 0;
  for (size_t d = 0; d < domain.size(); ++d)
    instr.globalOffset += offset[d] * instr.globalStrides[d];
  return Status();
}

bool isLogic(plan::DType t) { return valueClass(t) == ValueClass::I64; }
bool isWhole(plan::DType t) { return valueClass(t) == ValueClass::I64 && t != plan::BOOL; }

Status checkTypes(const ExpressionCode &e, const Instr &instr, const std::string &name, Kind kind) {
  auto type = [&](uint32_t i) { return e.typeOf(instr.operands[i]); };
  auto cls = [&](uint32_t i) { return valueClass(type(i)); };
  ValueClass result = valueClass(instr.type);
  bool good = true;
  switch (kind) {
  case Kind::FloatUnary:
    good = isFloat(type(0)) && result == cls(0);
    break;
  case Kind::NumberUnary:
    good = result == cls(0);
    break;
  case Kind::Number:
    good = cls(0) == cls(1) && result == cls(0);
    break;
  case Kind::Whole:
    good = isWhole(type(0)) && isWhole(type(1)) && isWhole(instr.type);
    break;
  case Kind::Compare:
    good = cls(0) == cls(1) && instr.type == plan::BOOL;
    break;
  case Kind::LogicUnary:
    good = isLogic(type(0)) && instr.type == plan::BOOL;
    break;
  case Kind::Logic:
    good = isLogic(type(0)) && isLogic(type(1)) && instr.type == plan::BOOL;
    break;
  case Kind::Select:
    good = isLogic(type(0)) && cls(1) == cls(2) && result == cls(1);
    break;
  case Kind::Cast:
    break;
  case Kind::Source:
    good = instr.op == Op::Random ? isLogic(type(0)) && isFloat(instr.type) : true;
    break;
  }
  if (good)
    return Status();
  std::string types;
  for (uint32_t i = 0; i < instr.arity; ++i)
    types += (i ? ", " : "") + dtypeName(type(i));
  return Status::error("'" + name + "' of (" + types + ") with the result type " + dtypeName(instr.type) +
                       " is not defined");
}

/// Every size of `view` is the domain's or 1, and the element count is that of the buffer.
Status checkView(const Shape &view, const Shape &domain, const TensorView &buffer, const std::string &what) {
  bool good = view.size() == domain.size();
  for (size_t d = 0; good && d < view.size(); ++d)
    good = view[d] == domain[d] || view[d] == 1;
  if (good && elementCount(view) == buffer.elements())
    return Status();
  return Status::error(what + " " + str(buffer.shape) + " cannot be seen as " + str(view) + " in the domain " +
                       str(domain));
}

/// Right-aligns `shape` in `rank` dimensions.
Shape aligned(const Shape &shape, size_t rank) {
  Shape view(rank, 1);
  if (shape.size() <= rank)
    std::copy(shape.begin(), shape.end(), view.end() - long(shape.size()));
  return view;
}

plan::DType held(plan::DType t, bool widen) { return widen && t == plan::F32 ? plan::F64 : t; }

Status lowerFused(const KernelCall &call, ExpressionCode &e) {
  const plan::Expression &x = call.kernel->expression();
  e.domain.assign(x.domain().begin(), x.domain().end());
  if (e.domain.size() > 16 || x.code_size() > 4096)
    return Status::error("fused: the expression is too large (rank above 16 or more than 4096 "
                         "instructions)");
  int64_t points = 1;
  for (int64_t d : e.domain)
    if (d < 0 || __builtin_mul_overflow(points, d, &points) || points > (int64_t(1) << 46))
      return Status::error("fused: the domain " + str(e.domain) + " is not a sensible shape");
  if (x.input_views_size() != int(call.inputs.size()) || x.results_size() != int(call.outputs.size()))
    return Status::error("fused: the expression has " + std::to_string(x.input_views_size()) + " views and " +
                         std::to_string(x.results_size()) + " results for " + std::to_string(call.inputs.size()) +
                         " inputs and " + std::to_string(call.outputs.size()) + " outputs");
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const auto &shape = x.input_views(int(i)).shape();
    e.inputs.push_back({call.inputs[i].dtype, Shape(shape.begin(), shape.end())});
  }
  for (const plan::Instruction &in : x.code()) {
    auto it = opTable().find(in.op());
    if (it == opTable().end())
      return Status::error("fused: there is no elementwise operator '" + in.op() + "'");
    Instr instr;
    instr.op = it->second.op;
    instr.arity = it->second.arity;
    instr.type = held(in.type(), call.widen);
    instr.immediate = in.immediate();
    if (bytesPerElement(instr.type) == 0)
      return Status::error("fused: '" + in.op() + "' has no result type");
    if (in.operands_size() != int(instr.arity))
      return Status::error("fused: '" + in.op() + "' with " + std::to_string(in.operands_size()) + " operands");
    for (uint32_t i = 0; i < instr.arity; ++i) {
      instr.operands[i] = in.operands(int(i));
      if (instr.operands[i] >= e.valueCount())
        return Status::error("fused: '" + in.op() + "' uses value " + std::to_string(instr.operands[i]) +
                             ", which comes later");
    }
    TESSERA_RETURN_IF_ERROR(checkTypes(e, instr, in.op(), it->second.kind).context("fused"));
    if (instr.op == Op::Iota || instr.op == Op::Random)
      TESSERA_RETURN_IF_ERROR(readSource(instr, in.attributes(), e.domain).context("fused"));
    instr.rounds = instr.op == Op::Cast && intOf(in.attributes(), "rounds") != 0;
    e.code.push_back(std::move(instr));
  }
  for (int i = 0; i < x.results_size(); ++i) {
    const plan::Result &r = x.results(i);
    Shape view(r.shape().begin(), r.shape().end());
    if (view.empty() && r.reduction() == plan::NONE)
      view = e.domain;
    // What combines one term each is a copy, as in lowerReduce.
    const plan::Reduction reduction = view == e.domain ? plan::NONE : r.reduction();
    e.results.push_back({r.value(), reduction, call.outputs[size_t(i)].dtype, view});
  }
  return Status();
}

Status lowerReduce(const KernelCall &call, ExpressionCode &e) {
  e.domain = call.inputs[0].shape;
  e.inputs.push_back({call.inputs[0].dtype, e.domain});
  Shape view = e.domain;
  for (int64_t d : call.intsAttribute("dims")) {
    if (d < 0 || d >= int64_t(e.domain.size()))
      return Status::error(call.name() + " over dimension " + std::to_string(d) + " of " + str(e.domain) +
                           ", which has no such dimension");
    view[size_t(d)] = 1;
  }
  plan::Reduction kind = call.name() == "reduce_sum" ? plan::SUM : call.name() == "reduce_max" ? plan::MAX : plan::MIN;
  if (view == e.domain)
    kind = plan::NONE;
  e.results.push_back({0, kind, call.outputs[0].dtype, view});
  return Status();
}

Status lowerSingle(const KernelCall &call, const OpInfo &info, ExpressionCode &e) {
  const TensorView &out = call.outputs[0];
  e.domain = out.shape;
  for (const TensorView &in : call.inputs) {
    if (in.shape.size() > e.domain.size())
      return Status::error(call.name() + ": operand " + str(in.shape) + " does not broadcast to the result " +
                           str(e.domain));
    e.inputs.push_back({in.dtype, aligned(in.shape, e.domain.size())});
  }
  Instr instr;
  instr.op = info.op;
  instr.arity = info.arity;
  instr.type = out.dtype;
  for (uint32_t i = 0; i < info.arity; ++i)
    instr.operands[i] = i;
  TESSERA_RETURN_IF_ERROR(checkTypes(e, instr, call.name(), info.kind));
  if (instr.op == Op::Iota || instr.op == Op::Random)
    TESSERA_RETURN_IF_ERROR(readSource(instr, call.kernel->attributes(), e.domain));
  e.code.push_back(std::move(instr));
  e.results.push_back({e.valueCount() - 1, plan::NONE, out.dtype, e.domain});
  return Status();
}

bool isReduce(const std::string &name) { return name == "reduce_sum" || name == "reduce_max" || name == "reduce_min"; }

} // namespace

bool isExpressionKernel(const std::string &name) {
  return name == "fused" || name == "broadcast" || isReduce(name) || (name != "constant" && opTable().count(name) != 0);
}

std::vector<std::string> expressionKernelNames() {
  std::vector<std::string> names = {"fused", "broadcast", "reduce_sum", "reduce_max", "reduce_min"};
  for (const auto &[name, info] : opTable())
    if (name != "constant")
      names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

Result<ExpressionCode> lowerExpression(const KernelCall &call) {
  ExpressionCode e;
  const std::string &name = call.name();
  if (name == "fused") {
    TESSERA_RETURN_IF_ERROR(lowerFused(call, e));
  } else {
    auto it = opTable().find(name);
    size_t arity = it != opTable().end() ? it->second.arity : 1;
    if (call.inputs.size() != arity || call.outputs.size() != 1)
      return Status::error(name + " has " + std::to_string(call.inputs.size()) + " inputs and " +
                           std::to_string(call.outputs.size()) + " outputs, not " + std::to_string(arity) + " and 1");
    if (isReduce(name)) {
      TESSERA_RETURN_IF_ERROR(lowerReduce(call, e));
    } else if (name == "broadcast") {
      e.domain = call.outputs[0].shape;
      if (call.inputs[0].shape.size() > e.domain.size())
        return Status::error("broadcast of " + str(call.inputs[0].shape) + " to " + str(e.domain));
      e.inputs.push_back({call.inputs[0].dtype, aligned(call.inputs[0].shape, e.domain.size())});
      e.results.push_back({0, plan::NONE, call.outputs[0].dtype, e.domain});
    } else {
      TESSERA_RETURN_IF_ERROR(lowerSingle(call, it->second, e));
    }
  }
  for (size_t i = 0; i < e.inputs.size(); ++i)
    TESSERA_RETURN_IF_ERROR(checkView(e.inputs[i].view, e.domain, call.inputs[i], name + ": operand"));
  for (size_t i = 0; i < e.results.size(); ++i) {
    const ExpressionResult &r = e.results[i];
    if (r.value >= e.valueCount())
      return Status::error(name + ": result " + std::to_string(i) + " is value " + std::to_string(r.value) +
                           ", which does not exist");
    TESSERA_RETURN_IF_ERROR(checkView(r.view, e.domain, call.outputs[i], name + ": result"));
    if (r.reduction < plan::NONE || r.reduction > plan::MIN || (r.reduction == plan::NONE && r.view != e.domain))
      return Status::error(name + ": result " + std::to_string(i) + " " + str(r.view) + " is smaller than the domain " +
                           str(e.domain) + " without a reduction");
    if (valueClass(r.type) != valueClass(e.typeOf(r.value)))
      return Status::error(name + ": a " + dtypeName(e.typeOf(r.value)) + " value is written to a " +
                           dtypeName(r.type) + " buffer");
  }
  return e;
}

Shape termStrides(const Shape &domain, const Shape &view) {
  Shape strides(domain.size(), 0);
  int64_t terms = 1;
  for (size_t d = domain.size(); d-- > 0;)
    if (view[d] != domain[d]) {
      strides[d] = terms;
      terms *= domain[d];
    }
  return strides;
}

} // namespace tessera::rt
