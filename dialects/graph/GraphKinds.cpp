#include "dialects/graph/GraphKinds.h"

#include "dialects/graph/Graph.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tessera::graph {

bool isView(Operation *op) { return llvm::isa<ReshapeOp>(op); }

bool isStretch(Operation *op) { return llvm::isa<BroadcastOp>(op); }

std::optional<PlainReduction> plainReduction(Operation *op) {
  auto make = [](auto reduce, dist::Reduction reduction) {
    return PlainReduction{reduction, llvm::SmallVector<int64_t>(reduce.getDims())};
  };
  return llvm::TypeSwitch<Operation *, std::optional<PlainReduction>>(op)
      .Case<ReduceSumOp>([&](auto o) { return make(o, dist::Reduction::Sum); })
      .Case<ReduceMaxOp>([&](auto o) { return make(o, dist::Reduction::Max); })
      .Case<ReduceMinOp>([&](auto o) { return make(o, dist::Reduction::Min); })
      .Default([](Operation *) { return std::nullopt; });
}

} // namespace tessera::graph
