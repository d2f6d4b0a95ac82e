//===- Node.cpp - inputs and attributes of a node ---------------------------------------------===//

#include "compiler/import/Node.h"

#include "mlir/IR/TypeUtilities.h"

#include <charconv>

using llvm::StringRef;
using llvm::Twine;

namespace tessera::compiler {

double shortestDecimal(float value) {
  char text[64];
  auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  double result = value;
  std::from_chars(text, end, result);
  return result;
}

Node::Node(const onnx::NodeProto &proto, int64_t opset, GraphBuilder &builder, FunctionState &function,
           const ModelFile &file, std::vector<Val> inputs)
    : b(builder), function(function), opset(opset), proto(proto), file_(file), inputs_(std::move(inputs)),
      outputs_(proto.output_size()) {}

Val Node::in(int i) {
  if (!has(i))
    return fail("input " + Twine(i) + " is missing");
  if (inputs_[i].sequence)
    return fail("input " + Twine(i) + " is a sequence, not a tensor");
  return inputs_[i];
}

const std::vector<Val> &Node::sequenceIn(int i) {
  static const std::vector<Val> none;
  if (has(i) && inputs_[i].sequence)
    return *inputs_[i].sequence;
  fail("input " + Twine(i) + " is not a sequence");
  return none;
}

Val Node::floatIn(int i) {
  Val x = in(i);
  if (x && !isFloat(x.type))
    return fail("input " + Twine(i) + " is " + dtypeName(x.type) + "; a floating point type is needed");
  return x;
}

/// Says why a computed value is not known at import: it depends on an input or a weight, it divides an integer by 0, or
/// its operators cannot be folded.
static std::string whyUnknown(mlir::Value value) {
  llvm::SmallVector<mlir::Value> open{value};
  llvm::DenseSet<mlir::Value> seen;
  std::string divides;
  while (!open.empty()) {
    mlir::Value from = open.pop_back_val();
    if (!from || !seen.insert(from).second)
      continue;
    mlir::Operation *op = from.getDefiningOp();
    if (!op)
      return "it depends on the model's inputs or weights";
    if (mlir::isa<graph::DivOp, graph::ModOp>(op) && mlir::getElementTypeOrSelf(from.getType()).isInteger())
      if (auto name = op->getAttrOfType<mlir::StringAttr>(graph::kNameAttr))
        divides = name.str();
    llvm::append_range(open, op->getOperands());
  }
  return divides.empty() ? "it is of constants that cannot be evaluated" : "'" + divides + "' divides an integer by 0";
}

std::optional<Shape> Node::knownInts(int i, StringRef what) {
  if (!has(i))
    return std::nullopt;
  const Val &x = inputs_[i];
  if (!x.known || isFloat(x.type)) {
    fail(what + " (input " + Twine(i) + ") must be " +
         (x.known ? "integers" : "known at import; " + whyUnknown(x.value)));
    return std::nullopt;
  }
  if (x.known->size() > 65536) {
    fail(what + " (input " + Twine(i) + ") has " + Twine(x.known->size()) + " elements; that is too many");
    return std::nullopt;
  }
  auto v = x.known->asInts();
  return Shape(v.begin(), v.end());
}

std::optional<double> Node::knownFloat(int i, StringRef what) {
  if (!has(i))
    return std::nullopt;
  const Val &x = inputs_[i];
  if (!x.known || x.known->size() != 1) {
    fail(what + " (input " + Twine(i) + ") must be one number known at import");
    return std::nullopt;
  }
  double value = x.known->floatAt(0);
  return x.type == DType::F32 ? shortestDecimal(float(value)) : value;
}

const onnx::AttributeProto *Node::find(StringRef name, onnx::AttributeProto::AttributeType type) {
  for (const auto &attribute : proto.attribute()) {
    if (attribute.name() != name.str())
      continue;
    read_.insert(name.str());
    // Files of the first IR versions leave the type out.
    if (attribute.has_type() && attribute.type() != type) {
      fail("the attribute '" + name + "' has the wrong type");
      return nullptr;
    }
    return &attribute;
  }
  return nullptr;
}

bool Node::hasAttr(StringRef name) const {
  return llvm::any_of(proto.attribute(), [&](const auto &a) { return a.name() == name.str(); });
}

int64_t Node::attrInt(StringRef name, int64_t otherwise) {
  auto *attribute = find(name, onnx::AttributeProto::INT);
  return attribute ? attribute->i() : otherwise;
}

double Node::attrFloat(StringRef name, double otherwise) {
  auto *attribute = find(name, onnx::AttributeProto::FLOAT);
  return attribute ? shortestDecimal(attribute->f()) : otherwise;
}

std::string Node::attrString(StringRef name, StringRef otherwise) {
  auto *attribute = find(name, onnx::AttributeProto::STRING);
  return attribute ? attribute->s() : otherwise.str();
}

std::optional<Shape> Node::attrInts(StringRef name) {
  auto *attribute = find(name, onnx::AttributeProto::INTS);
  if (!attribute)
    return std::nullopt;
  return Shape(attribute->ints().begin(), attribute->ints().end());
}

std::optional<std::vector<float>> Node::attrFloats(StringRef name) {
  auto *attribute = find(name, onnx::AttributeProto::FLOATS);
  if (!attribute)
    return std::nullopt;
  return std::vector<float>(attribute->floats().begin(), attribute->floats().end());
}

std::optional<std::vector<std::string>> Node::attrStrings(StringRef name) {
  auto *attribute = find(name, onnx::AttributeProto::STRINGS);
  if (!attribute)
    return std::nullopt;
  return std::vector<std::string>(attribute->strings().begin(), attribute->strings().end());
}

const onnx::GraphProto *Node::attrGraph(StringRef name) {
  auto *attribute = find(name, onnx::AttributeProto::GRAPH);
  return attribute ? &attribute->g() : nullptr;
}

const onnx::TensorProto *Node::attrTensor(StringRef name) {
  auto *attribute = find(name, onnx::AttributeProto::TENSOR);
  return attribute ? &attribute->t() : nullptr;
}

std::optional<Shape> Node::axesAttrOrInput(StringRef name, int64_t lastAttr, int i) {
  return opset <= lastAttr ? attrInts(name) : knownInts(i, name);
}

int64_t Node::axis(int64_t value, int64_t rank) {
  if (value < -rank || value >= rank) {
    fail("axis " + Twine(value) + " is out of range for " + Twine(rank) + " dimensions");
    return 0;
  }
  return value < 0 ? value + rank : value;
}

Shape Node::axes(llvm::ArrayRef<int64_t> values, int64_t rank) {
  Shape result;
  for (int64_t value : values)
    result.push_back(axis(value, rank));
  llvm::sort(result);
  if (std::adjacent_find(result.begin(), result.end()) != result.end())
    fail("an axis is given twice");
  return failed() ? Shape() : result;
}

bool Node::wanted(int i) const {
  return i < proto.output_size() && !proto.output(i).empty() && function.isUsed(proto.output(i));
}

void Node::out(int i, Val value) {
  if (i < int(outputs_.size()))
    outputs_[i] = std::move(value);
}

std::vector<Val> Node::subgraph(const onnx::GraphProto &graph, llvm::ArrayRef<Val> inputs) {
  return function.subgraph(b, graph, inputs);
}

void Node::checkAttributes() {
  std::set<llvm::StringRef> given;
  for (const auto &attribute : proto.attribute()) {
    if (!given.insert(attribute.name()).second)
      fail("the attribute '" + Twine(attribute.name()) + "' is given twice");
    if (!attribute.ref_attr_name().empty())
      fail("the attribute '" + Twine(attribute.name()) + "' refers to a function's attribute");
    if (!read_.count(attribute.name()))
      fail("the attribute '" + Twine(attribute.name()) + "' is not supported");
  }
}

} // namespace tessera::compiler
