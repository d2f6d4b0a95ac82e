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

} // namespace tessera::graph
