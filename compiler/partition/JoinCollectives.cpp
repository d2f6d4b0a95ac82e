//===- JoinCollectives.cpp - marks what is sent as one message, what runs beside kernels, and times --===//
//
// The pass marks only. graph-fuse keeps the turns of operators, and graph-schedule moves them there. So every pass
// behind it sees single collectives, and a program whose marks are ignored computes the same.
//
//===----------------------------------------------------------------------------------------------===//
#include "compiler/partition/Passes.h"

#include "dialects/dist/DistOps.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/PassBases.h"
#include "dialects/graph/flow/Fusion.h"
#include "dialects/graph/flow/Messages.h"
#include "dialects/graph/flow/Order.h"

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
      auto sent = joined_ ? joined_(func) : filled(func);
      if (!sent)
        return sent.takeError();
      auto number = [&](llvm::ArrayRef<std::vector<Operation *>> lists, llvm::StringRef attribute) {
        for (auto [i, list] : llvm::enumerate(lists))
          for (Operation *op : list)
            op->setAttr(attribute, builder.getI64IntegerAttr(int64_t(i)));
      };
      number(sent->messages, graph::kMessageAttr);
      number(sent->turns, graph::kTurnAttr);
      for (Operation *collective : sent->beside)
        collective->setAttr(graph::kBesideAttr, builder.getUnitAttr());
      for (auto [op, ns] : sent->times)
        op->setAttr(graph::kPredictedAttr, builder.getI64IntegerAttr(ns));
    }
    return llvm::Error::success();
  }

private:
  llvm::Expected<graph::SentCollectives> filled(func::FuncOp func) {
    const graph::MessageRule rule{.most = most, .cost = {}, .times = {}};
    return graph::SentCollectives{graph::joinedCollectives(func, dist::getMesh(getOperation()), rule), {}, {}};
  }

  JoinedCollectives joined_;
};

} // namespace

std::unique_ptr<Pass> createJoinCollectivesPass(JoinedCollectives joined) {
  return std::make_unique<JoinCollectivesPass>(std::move(joined));
}

} // namespace tessera::compiler
