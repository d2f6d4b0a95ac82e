//===- FindCut.h - where the forward pass of a function is cut into stages -----------------------------===//
//
//   Expected<FoundCut> cut = findCut("train", forward, costs, [&](std::vector<int> &steps, bool anywhere) {
//     return forward.problem(times, costs, steps, anywhere);
//   });
//   (*stages)[step]                                     // of a step of the forward pass; ForwardPass::kNone of others
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_PIPELINE_FINDCUT_H
#define TESSERA_COMPILER_PIPELINE_FINDCUT_H

#include "compiler/pipeline/ForwardPass.h"

namespace tessera::compiler {

/// Makes the problem of a forward pass, as ForwardPass::problem does, and sets the step of each of its nodes.
using CutProblem = llvm::function_ref<llvm::Expected<strategies::StageProblem>(std::vector<int> &steps, bool anywhere)>;

struct FoundCut {
  std::vector<int> stages; // by step
  int64_t bytes = 0;       // that the problem counts on the fullest rank
};

/// Searches a cut in which operators are where `costs` says that they were given. An error says that there is none, or
/// that what was given contradicts itself.
llvm::Expected<FoundCut> findCut(llvm::StringRef function, const ForwardPass &forward, const PipelineCosts &costs,
                                 CutProblem problem);

} // namespace tessera::compiler

#endif
