#include "dialects/dist/DistDialect.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace llvm;
using namespace mlir;

#include "dialects/dist/DistDialect.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/dist/DistAttrs.cpp.inc"

namespace tessera::dist {

void DistDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/dist/DistAttrs.cpp.inc"
      >();
  registerOperations();
}

LogicalResult MeshAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, StringRef text) {
  if (text.empty())
    return success();
  Expected<Mesh> mesh = Mesh::parse(text);
  if (!mesh)
    return emitError() << toString(mesh.takeError());
  return success();
}

MeshAttr MeshAttr::get(MLIRContext *context, const Mesh &mesh) { return get(context, mesh.str()); }

Mesh MeshAttr::getMesh() const { return getText().empty() ? Mesh() : cantFail(Mesh::parse(getText())); }

ShardingAttr ShardingAttr::get(MLIRContext *context, const Mesh &mesh, const Sharding &sharding) {
  return get(context, sharding.str(mesh));
}

Expected<Sharding> ShardingAttr::resolve(const Mesh &mesh) const { return parseSharding(getText(), mesh); }

StrategyAttr StrategyAttr::get(MLIRContext *context, const Mesh &mesh, const ShardingRule &rule,
                               const Strategy &strategy) {
  return get(context, strategyText(strategy, rule, mesh));
}

Expected<Strategy> StrategyAttr::resolve(const Mesh &mesh, const ShardingRule &rule) const {
  return parseStrategy(getText(), rule, mesh);
}

Mesh getMesh(ModuleOp module) {
  auto attr = module->getAttrOfType<MeshAttr>(kMeshAttr);
  return attr ? attr.getMesh() : Mesh();
}

void setMesh(ModuleOp module, const Mesh &mesh) {
  module->setAttr(kMeshAttr, MeshAttr::get(module.getContext(), mesh));
}

Expected<Strategy> getStrategy(Operation *op, const ShardingRule &rule, const Mesh &mesh) {
  auto attr = op->getAttrOfType<StrategyAttr>(kStrategyAttr);
  if (!attr)
    return createStringError(op->getName().getStringRef() + " carries no strategy");
  return attr.resolve(mesh, rule);
}

void setStrategy(Operation *op, const ShardingRule &rule, const Mesh &mesh, const Strategy &strategy) {
  op->setAttr(kStrategyAttr, StrategyAttr::get(op->getContext(), mesh, rule, strategy));
}

} // namespace tessera::dist
