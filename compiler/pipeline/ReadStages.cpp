//===- ReadStages.cpp - the stages that the model file gives ------------------------------------------===//
//
// A pair of Send and Recv is a border: what the sent value is made of belongs to the one stage, and what is made of the
// received value to the other. That places what matters. What neither follows, as the transpose of a matrix, lies where
// it is read, and the rest is left to the search. Nothing is bound that every stage may compute for itself
// (ProgramParts.h). Inputs and parameters have no stage: each stage reads those that it wants.
//
//===----------------------------------------------------------------------------------------------===//
#include "compiler/pipeline/Passes.h"

#include "compiler/pipeline/ProgramParts.h"

#include "dialects/graph/GivenStages.h"
#include "dialects/graph/PassBases.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace tessera::compiler {

#define GEN_PASS_DEF_READSTAGESPASS
#include "compiler/pipeline/Passes.h.inc"

namespace {

constexpr int64_t kNone = -1; // no stage, or not known yet

bool isSend(Operation *op) { return op->hasAttr(graph::kSendsToAttr); }
bool isReceive(Operation *op) { return op->hasAttr(graph::kReceivesFromAttr); }
bool isBorder(Operation *op) { return isSend(op) || isReceive(op); }

std::string quoted(Operation *op) { return "'" + graph::nameOf(op) + "'"; }

template <typename... Parts> llvm::Error fail(Parts... parts) { return llvm::createStringError((Twine(parts) + ...)); }

class Reader {
public:
  Reader(func::FuncOp func, int64_t stages) : func_(func), count_(stages), parts_(func) {}

  llvm::Error run() {
    for (auto step : {&Reader::checkPairs, &Reader::placeSent, &Reader::placeReceived, &Reader::placeRead})
      if (llvm::Error e = (this->*step)())
        return e;
    std::vector<bool> used(size_t(count_), false);
    Builder builder(func_.getContext());
    for (Operation &op : operators())
      if (const int64_t stage = stageOf(&op); stage != kNone && !isBorder(&op)) {
        op.setAttr(graph::kGivenStageAttr, builder.getI64IntegerAttr(stage));
        used[size_t(stage)] = true;
      }
    for (int64_t stage = 0; stage < count_; ++stage)
      if (!used[size_t(stage)])
        return fail("no operator lies in stage ", stage, " of ", count_,
                    ": between its Recv and its Send must be some that other stages cannot compute from the model's "
                    "inputs");
    for (Operation &op : llvm::make_early_inc_range(operators()))
      if (isBorder(&op)) {
        op.replaceAllUsesWith(ValueRange(op.getOperand(0)));
        op.erase();
      }
    return llvm::Error::success();
  }

private:
  llvm::iterator_range<Block::iterator> operators() { return func_.getBody().front().without_terminator(); }

  int64_t stageOf(Operation *op) const { return stages_.lookup_or(op, kNone); }

  /// Whether the operator may have a stage: it is none of those that every stage may compute.
  bool isBound(Operation *op) const { return isBorder(op) || !parts_.free[size_t(parts_.makerOf(op->getResult(0)))]; }

  llvm::Error crosses(Operation *reader, int64_t stage, Operation *maker) const {
    return fail(quoted(reader), " in stage ", stage, " reads ", quoted(maker), " of stage ", stageOf(maker),
                ": a value comes into another stage by a Send and the Recv that reads it");
  }

  /// Gives the border operators their stages.
  llvm::Error checkPairs() {
    for (Operation &op : operators()) {
      const std::optional<int64_t> to = graph::stageIn(&op, graph::kSendsToAttr),
                                   from = graph::stageIn(&op, graph::kReceivesFromAttr);
      if (const std::optional<int64_t> stage = to ? to : from; stage && (*stage < 0 || *stage >= count_))
        return fail(to ? "Send " : "Recv ", quoted(&op), ": there is no stage ", *stage, "; the ", count_,
                    " stages are 0 to ", count_ - 1);
      if (from) {
        Operation *send = op.getOperand(0).getDefiningOp();
        if (!send || !isSend(send))
          return fail("Recv ", quoted(&op), ": it must read the output of the Send in stage ", *from, ", not ",
                      send ? quoted(send) : "an input of the model");
        stages_[&op] = *graph::stageIn(send, graph::kSendsToAttr);
      }
      if (!to)
        continue;
      for (Operation *user : op.getUsers())
        if (!isReceive(user))
          return fail("Send ", quoted(&op), ": what it sends only a Recv in stage ", *to, " can read, not ",
                      user->hasTrait<OpTrait::IsTerminator>() ? "an output of the model" : quoted(user));
      if (!op.hasOneUse())
        return fail("Send ", quoted(&op), ": ", op.use_empty() ? "no Recv reads" : "several Recv read",
                    " what it sends; it needs one");
      const int64_t of = *graph::stageIn(*op.user_begin(), graph::kReceivesFromAttr);
      if (of >= *to)
        return fail("Send ", quoted(&op), ": it goes from stage ", of, " to stage ", *to,
                    "; the model file has the forward pass alone, in which a value goes to a later stage");
      stages_[&op] = of;
    }
    return stages_.empty() ? fail("the mesh has ", count_,
                                  " stages, but nothing in the model file says where they meet: mark each border by a "
                                  "Send and the Recv that reads it (docs/hybrid.md), or leave 'stage' out of --mesh")
                           : llvm::Error::success();
  }

  /// What a sent value is made of lies in the stage that sends it.
  llvm::Error placeSent() {
    for (Operation &op : operators()) {
      if (!isSend(&op))
        continue;
      llvm::SmallVector<Operation *> work{&op};
      while (!work.empty()) {
        Operation *reader = work.pop_back_val();
        for (Value operand : reader->getOperands()) {
          Operation *maker = operand.getDefiningOp();
          if (!maker || !isBound(maker))
            continue;
          if (stageOf(maker) == kNone) {
            stages_[maker] = stageOf(&op);
            work.push_back(maker);
          } else if (stageOf(maker) != stageOf(&op)) {
            return crosses(reader, stageOf(&op), maker);
          }
        }
      }
    }
    return llvm::Error::success();
  }

  /// What is made of a received value lies in the stage that receives it.
  llvm::Error placeReceived() {
    for (Operation &op : operators()) {
      if (!isBound(&op) || isReceive(&op))
        continue;
      int64_t stage = stageOf(&op);
      for (Value operand : op.getOperands())
        if (Operation *maker = operand.getDefiningOp(); maker && isBound(maker) && stageOf(&op) == kNone)
          stage = std::max(stage, stageOf(maker));
      if (stage == kNone)
        continue;
      stages_[&op] = stage;
      for (Value operand : op.getOperands())
        if (Operation *maker = operand.getDefiningOp();
            maker && isBound(maker) && stageOf(maker) != kNone && stageOf(maker) != stage)
          return crosses(&op, stage, maker);
    }
    return llvm::Error::success();
  }

  /// What is left lies where it is read.
  llvm::Error placeRead() {
    for (Operation &op : llvm::reverse(operators())) {
      if (!isBound(&op) || stageOf(&op) != kNone)
        continue;
      for (Operation *reader : op.getUsers()) {
        const int64_t stage = stageOf(reader);
        if (stage == kNone || stage == stageOf(&op))
          continue;
        if (stageOf(&op) != kNone)
          return crosses(reader, stage, &op);
        stages_[&op] = stage;
      }
    }
    return llvm::Error::success();
  }

  mutable func::FuncOp func_; // a handle, whose functions are not const
  const int64_t count_;
  const ProgramParts parts_;
  llvm::DenseMap<Operation *, int64_t> stages_; // looked up only
};

struct ReadStagesPass : graph::FalliblePass<impl::ReadStagesPassBase<ReadStagesPass>> {
  using FalliblePass::FalliblePass;

  llvm::Error run() override {
    for (func::FuncOp func : getOperation().getOps<func::FuncOp>()) {
      if (stages > 0) {
        if (llvm::Error e = Reader(func, stages).run())
          return e;
        continue;
      }
      for (Operation &op : func.getBody().front())
        if (isBorder(&op))
          return fail(isSend(&op) ? "Send " : "Recv ", quoted(&op),
                      ": the mesh has no stages between which it could go; put an axis 'stage' first, as in --mesh "
                      "stage=2,data=2");
    }
    return llvm::Error::success();
  }
};

} // namespace

} // namespace tessera::compiler
