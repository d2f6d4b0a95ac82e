#include "dialects/graph/GraphOrigin.h"

using namespace mlir;

namespace tessera::graph {

void copyOrigin(Operation *from, Operation *to) {
  for (StringRef name : kOriginAttrs)
    if (Attribute attr = from->getAttr(name))
      to->setAttr(name, attr);
}

static StringRef textOf(Operation *op, StringRef attribute) {
  auto text = op->getAttrOfType<StringAttr>(attribute);
  return text ? text.getValue() : StringRef();
}

StringRef gradientOf(Operation *op) { return textOf(op, kGradOfAttr); }
StringRef parameterUpdatedBy(Operation *op) { return textOf(op, kUpdateOfAttr); }

std::string microBatchPrefix(int64_t number) { return number == 0 ? "" : "micro" + std::to_string(number) + "/"; }

std::string nodeNameOf(Operation *op) {
  const std::string name = nameOf(op);
  auto number = op->getAttrOfType<IntegerAttr>(kMicroBatchAttr);
  StringRef node = name;
  if (number)
    node.consume_front(microBatchPrefix(number.getInt()));
  return node.str();
}

} // namespace tessera::graph
