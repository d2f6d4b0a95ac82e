//===- JoinCollectives.cpp - marks what is sent as one message ------------------------------------===//
//
// The pass marks only. So every pass behind it sees single collectives, and a program whose marks are ignored computes
// the same.
//
//===----------------------------------------------------------------------------------------------===//
#include "compiler/partition/Passes.h"

#include "dialects/dist/DistOps.h"
#include "dialects/graph/Fusion.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/Messages.h"
#include "dialects/graph/PassBases.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace tessera::compiler {

#define GEN_PASS_DEF_JOINCOLLECTIVESPASS
#include "compiler/partition/Passes.h.inc"

namespace {

struct JoinCollectivesPass : graph::FalliblePass<impl::JoinCollectivesPassBase<JoinCollectivesPass>> {
  using FalliblePass::FalliblePass;
  explicit JoinCollectivesPass(JoinedCollectives joined) : joined_(std::move(joined)) {}

  llvm::Error run() override {
    Builder builder(&getContext());
    for (func::FuncOp func : getOperation().getOps<func::FuncOp>()) {
      auto messages = joined_ ? joined_(func) : filled(func);
      if (!messages)
        return messages.takeError();
      for (auto [number, message] : llvm::enumerate(*messages))
        for (Operation *member : message)
          member->setAttr(graph::kMessageAttr, builder.getI64IntegerAttr(int64_t(number)));
    }
    return llvm::Error::success();
  }

private:
  llvm::Expected<std::vector<std::vector<Operation *>>> filled(func::FuncOp func) {
    const graph::MessageRule rule{.most = most, .cost = {}, .times = {}};
    return graph::joinedCollectives(func, dist::getMesh(getOperation()), rule);
  }

  JoinedCollectives joined_;
};

} // namespace

std::unique_ptr<Pass> createJoinCollectivesPass(JoinedCollectives joined) {
  return std::make_unique<JoinCollectivesPass>(std::move(joined));
}

} // namespace tessera::compiler
