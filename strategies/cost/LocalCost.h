//===- LocalCost.h - what a program costs that is one rank's --------------------------------------===//
//
// A local function (phase 5, before fusion) as plain data, with the loops that fusion will form, the time of every
// kernel and what is sent as one message.
//
//   LocalCost cost = cantFail(LocalCost::of(func, model));
//   cost.kernels[i]                    // of cost.program.operators[i]; 0 for collectives
//   sendProgram(model, cost.toSend(), {.most = kAnySize}).messages      // by step of cost.looped.flow
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_COST_LOCALCOST_H
#define TESSERA_STRATEGIES_COST_LOCALCOST_H

#include "strategies/cost/Joining.h"

namespace tessera::strategies {

class LocalCost {
public:
  /// `kernels`: the model of kernels, where it is another one; null: `model`.
  static llvm::Expected<LocalCost> of(mlir::func::FuncOp func, const CostModel &model,
                                      const CostModel *kernels = nullptr);

  graph::FunctionFlow program;
  graph::LoopedFlow looped;
  std::vector<std::unique_ptr<OperatorClass>> classes; // by operator; null for collectives
  std::vector<Cost> kernels;                           // by operator
  std::vector<graph::Sender> senders;                  // collectives, by step of looped.flow
  int64_t persistentBytes = 0;                         // parameters and states

  ProgramToSend toSend() const { return {looped, kernels, senders, program.parts, persistentBytes}; }

private:
  explicit LocalCost(mlir::func::FuncOp func);
};

/// What each operator takes when it runs once; a member of a message takes its part. `messages`: by step of
/// `cost.looped`.
std::vector<Cost> operatorTimes(const LocalCost &cost, const CostModel &model,
                                llvm::ArrayRef<std::vector<int>> messages);

/// How the collectives of a local function are sent, and what its operators take.
llvm::Expected<graph::SentCollectives> sentCollectives(mlir::func::FuncOp func, const CostModel &model,
                                                       const JoinOptions &options, const CostModel *kernels = nullptr);

} // namespace tessera::strategies

#endif
