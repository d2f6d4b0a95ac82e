//===- Estimate.h - what stages will take, before a program is made local ---------------------------===//
//
// Many pipelines are compared before one is made. The function that is cut has strategies, but is still the whole
// program. Of what each of its operators takes on a rank follows where it would be cut, with little effort, and how
// long the step would be in orders with names. The order "auto" is no longer than the best of these.
//
//   StagesToPrice priced{train, times, once, bytesOnRank, all, limit};
//   std::vector<StagesEstimate> found = estimateStages(priced, {"auto", "interleaved:2"});
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_PIPELINE_ESTIMATE_H
#define TESSERA_COMPILER_PIPELINE_ESTIMATE_H

#include "compiler/pipeline/Calls.h"

#include <functional>

namespace tessera::compiler {

/// A function with what a rank would take for it if it had all stages.
struct StagesToPrice {
  mlir::func::FuncOp func;
  // By operator, in the order of the block: when it runs once; and what comes with it once in a step, whatever the
  // micro-batches.
  std::vector<strategies::Cost> times, once;
  std::function<int64_t(mlir::Value)> bytes; // of a value on one rank
  const strategies::CostModel &all;          // of the whole mesh, whose first axis has the stages' places
  int64_t limit = 0;                         // bytes of memory per rank
  int64_t peak = 0;                          // that one micro-batch in all stages needs on a rank, with copies
  // Other schedules than "auto" are left out if they cannot take less than this, even if no place ever waited.
  strategies::Cost most = strategies::kForbidden;
};

struct StagesEstimate {
  PipelineOptions options;
  strategies::Cost predicted = 0; // of a step
  double bubble = 0;
  int64_t bytes = 0; // of the fullest rank: parameters, states, sums, and what it holds for backward passes
  int64_t mean = 0;  // of the ranks, with what else is in `peak`: copies in other shardings, and what is there briefly
};

/// The most stages into which the function can be cut: its operators that could be stages of their own.
int64_t mostStages(mlir::func::FuncOp func);

/// The most that a stage does for one operator of the forward pass, with all of the backward pass that comes with it,
/// of what each operator takes in the order of the block.
strategies::Cost longestForOne(mlir::func::FuncOp func, llvm::ArrayRef<strategies::Cost> times);

/// One estimate for each of the schedules that the number of micro-batches allows, the shortest first. Empty if the
/// function cannot be cut into so many stages.
std::vector<StagesEstimate> estimateStages(const StagesToPrice &priced, llvm::ArrayRef<std::string> schedules);

} // namespace tessera::compiler

#endif
