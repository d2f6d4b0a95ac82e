//===- Simplify.cpp - the same value is computed once --------------------------------------------===//
//
// Differentiation and decomposition build operators that exist already, for example the reciprocal standard deviation
// in forward and backward. MLIR's CSE compares all attributes, so it does not merge operators that differ only in
// graph.name and graph.grad_of. This pass ignores names and origins (GraphOrigin.h), and the first operator keeps its
// own. Only operators that were given two stages of a pipeline stay two.
//
// The algorithm is value numbering over one block. Unused operators are erased.
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

#define GEN_PASS_DEF_SIMPLIFYPASS
#include "compiler/transform/Passes.h.inc"

namespace {

bool sharesStage(Operation *a, Operation *b) {
  const std::optional<int64_t> of = stageIn(a, kGivenStageAttr), with = stageIn(b, kGivenStageAttr);
  return !of || !with || of == with;
}

struct Simplify : impl::SimplifyPassBase<Simplify> {
  void runOnOperation() override {
    if (getOperation().isExternal())
      return;
    for (Block &block : getOperation().getBody())
      simplify(block);
  }

  static void simplify(Block &block) {
    // The order of pointers only affects the look-up. Which operators are merged depends on equality alone.
    using Key = std::vector<const void *>;
    std::map<Key, SmallVector<Operation *, 1>> known;
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
      SmallVector<Operation *, 1> &equal = known[std::move(key)];
      auto *first = llvm::find_if(equal, [&](Operation *one) { return sharesStage(one, &op); });
      if (first == equal.end()) {
        equal.push_back(&op);
        continue;
      }
      op.replaceAllUsesWith(*first);
      op.erase();
    }
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (isa_and_nonnull<GraphDialect>(op.getDialect()) && op.use_empty())
        op.erase();
  }
};

} // namespace

} // namespace tessera::compiler
