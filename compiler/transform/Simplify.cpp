//===- Simplify.cpp - the same value is computed once --------------------------------------------===//
//
// Differentiation and decomposition write operators that exist already (a reciprocal standard
// deviation in forward and backward). MLIR's CSE compares all attributes and so keeps operators
// apart that differ in nothing but graph.name and graph.grad_of; here names and origins (GraphOrigin.h) do
// not count, and the first operator keeps its own.
//
// Value numbering over one block; what is dominated is later in the block. Unused operators go.
//
//===----------------------------------------------------------------------------------------------===//
#include "compiler/transform/Passes.h"
#include "dialects/graph/GraphOrigin.h"

#include "llvm/ADT/DenseMap.h"

#include <map>
#include <vector>

using namespace mlir;
using namespace tessera::graph;

namespace tessera::compiler {

namespace {

struct Simplify : PassWrapper<Simplify, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(Simplify)
  StringRef getArgument() const override { return "graph-simplify"; }
  StringRef getDescription() const override {
    return "merges operators that compute the same and removes unused ones; names do not count";
  }

  void runOnOperation() override {
    if (getOperation().isExternal())
      return;
    for (Block &block : getOperation().getBody())
      simplify(block);
  }

  static void simplify(Block &block) {
    // Pointers are compared for equality only: what is merged does not depend on their order.
    using Key = std::vector<const void *>;
    std::map<Key, Operation *> known;
    for (Operation &op : llvm::make_early_inc_range(block)) {
      if (!isa_and_nonnull<GraphDialect>(op.getDialect()) || op.getNumRegions() != 0)
        continue;
      NamedAttrList attributes(op.getAttrDictionary());
      attributes.erase(kNameAttr);
      for (StringRef origin : kOriginAttrs)
        attributes.erase(origin);
      Key key = {op.getName().getAsOpaquePointer(), attributes.getDictionary(op.getContext()).getAsOpaquePointer()};
      for (Value v : op.getOperands())
        key.push_back(v.getAsOpaquePointer());
      for (Type type : op.getResultTypes())
        key.push_back(type.getAsOpaquePointer());
      auto [it, isNew] = known.try_emplace(std::move(key), &op);
      if (isNew)
        continue;
      op.replaceAllUsesWith(it->second);
      op.erase();
    }
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (isa_and_nonnull<GraphDialect>(op.getDialect()) && op.use_empty())
        op.erase();
  }
};

} // namespace

std::unique_ptr<Pass> createSimplifyPass() { return std::make_unique<Simplify>(); }

} // namespace tessera::compiler
