#include "compiler/driver/fit/Candidates.h"

#include "compiler/driver/Phases.h"

#include "compiler/transform/Passes.h"
#include "dialects/graph/Graph.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace tessera {

/// A pass that lets a copy expire adds a view of it, so that a module with as many operators is the same.
static int64_t countOperators(ModuleOp module) {
  int64_t number = 0;
  module.walk([&](Operation *) { ++number; });
  return number;
}

llvm::Expected<bool> Candidates::expire(bool activations) {
  for (bool each : {false, true}) {
    Expired &expired = expired_[each];
    if (expired.module || (each && !activations))
      continue;
    expired.module = module_.clone();
    if (llvm::Error e = expireCopies(run_, *expired.module, each))
      return e;
    expired.operators = countOperators(*expired.module);
    if (!each)
      operators_ = countOperators(module_);
  }
  taken_ = &expired_[activations];
  return taken_->operators > (activations ? expired_[false].operators : operators_);
}

llvm::Error Candidates::expireAsSaved(const strategies::UserStrategies &user) {
  for (bool activations : {false, true}) {
    if (hasViewsOf(user))
      return llvm::Error::success();
    if (llvm::Error e = expire(activations).takeError())
      return e;
  }
  return llvm::Error::success();
}

bool Candidates::hasViewsOf(const strategies::UserStrategies &user) const {
  llvm::StringSet<> names;
  ModuleOp(module()).walk([&](Operation *op) { names.insert(graph::nameOf(op)); });
  for (const auto &[name, function] : user.saved)
    for (const auto &op : function.operators)
      for (llvm::StringRef prefix : {compiler::kKeptPrefix, compiler::kBackwardPrefix})
        if (llvm::StringRef(op.name).starts_with(prefix) && !names.contains(op.name))
          return false;
  return true;
}

} // namespace tessera
