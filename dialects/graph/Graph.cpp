#include "dialects/graph/Graph.h"

using namespace llvm;
using namespace mlir;

#include "dialects/graph/GraphDialect.cpp.inc"

namespace tessera::graph {

void registerGraphDialectOperations(GraphDialect *dialect); // generated, GraphOps0.cpp

void GraphDialect::initialize() { registerGraphDialectOperations(this); }

std::string nameOf(Operation *op) {
  if (auto name = op->getAttrOfType<StringAttr>(kNameAttr))
    return name.str();
  if (auto name = op->getAttrOfType<StringAttr>(kGradOfAttr))
    return name.str() + ".grad";
  return op->getName().stripDialect().str();
}

namespace {
StringRef text(Attribute attr) {
  auto s = dyn_cast_or_null<StringAttr>(attr);
  return s ? s.getValue() : StringRef();
}
} // namespace

StringRef argRole(func::FuncOp func, unsigned arg) { return text(func.getArgAttr(arg, kRoleAttr)); }
StringRef argName(func::FuncOp func, unsigned arg) { return text(func.getArgAttr(arg, kNameAttr)); }
StringRef resultRole(func::FuncOp func, unsigned i) { return text(func.getResultAttr(i, kRoleAttr)); }
StringRef resultName(func::FuncOp func, unsigned i) { return text(func.getResultAttr(i, kNameAttr)); }

std::optional<unsigned> updateOf(func::FuncOp func, unsigned arg) {
  if (auto index = func.getArgAttrOfType<IntegerAttr>(arg, kUpdateAttr))
    return unsigned(index.getInt());
  return std::nullopt;
}

bool isElementwise(Operation *op) { return op->hasTrait<GraphElementwise>(); }

std::optional<dist::Shape> broadcastShapes(ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
  dist::Shape result(std::max(a.size(), b.size()), 1);
  for (ArrayRef<int64_t> shape : {a, b})
    for (size_t i = 0; i < shape.size(); ++i) {
      int64_t &extent = result[result.size() - shape.size() + i];
      if (shape[i] != 1 && extent != 1 && shape[i] != extent)
        return std::nullopt;
      extent = extent == 1 ? shape[i] : extent;
    }
  return result;
}

} // namespace tessera::graph
