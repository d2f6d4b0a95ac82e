//===- PlaceOperators.h - the stage of every operator ------------------------------------------------===//
//
// The search (strategies/pipeline/stages) cuts the forward pass of the training step, else of the first function, into
// stages. Operators that were given a stage, by the model file or a person's strategies, are in it. Where operators of
// that forward pass have the attribute dist.stage already, all must have it, and it is kept.
// Everything else follows from data flow and from what operators carry about their origin:
//
//   parameter   the first stage whose forward pass reads it
//   state       the stage of the parameter, else of the operator that makes its new value
//   gradient    the stage of the operator that it is a gradient of, but never behind the gradients that it reads
//   update      the stage of the parameter
//   the rest    the stage of its largest operand
//   free        none: every stage that reads it computes it (ProgramParts.h)
//
// In the other functions an operator lies where its parameters are, and not before what it reads, or where the model
// file has it.
//
// Operators and arguments that have a stage get the attribute dist.stage.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_PIPELINE_PLACEOPERATORS_H
#define TESSERA_COMPILER_PIPELINE_PLACEOPERATORS_H

#include "strategies/cost/CostModel.h"
#include "strategies/cost/Joining.h"
#include "strategies/pipeline/Pipeline.h"
#include "strategies/pipeline/stages/StageProblem.h"

#include "mlir/IR/BuiltinOps.h"

#include "llvm/ADT/StringMap.h"

#include <map>
#include <string>

namespace tessera::compiler {

/// The work that is left for searches of cuts, in the unit of strategies::StageOptions. A program that does not fit is
/// cut again and again: each search may do a part of what is left, so that all of them end.
struct CutWork {
  double left = 4;
};

/// The costs of a pipeline's operators.
struct PipelineCosts {
  const strategies::CostModel &all;   // of the whole mesh, whose first axis has the devices: kernels, messages
  const strategies::CostModel &stage; // of a stage's mesh: collectives
  int64_t limit = 0;                  // bytes of memory per rank, which a cut exceeds where nothing fits
  strategies::StagePlaces places = {int(all.mesh().axisSize(0))};
  strategies::JoinOptions join = {}; // how a stage's collectives are sent
  /// What stages of one device hold at once (placesOf in Calls.h); empty: each has one stage, in the memory of 1f1b.
  std::vector<strategies::StagePlace> shared = {};
  std::map<std::string, int> given = {}; // by name of operators of the forward pass: the stage where a person wants it
  bool isHard = false;                   // the limit: what does not fit is no cut
  /// Without `shared`: how many micro-batches a stage holds.
  strategies::InFlight inFlight = strategies::InFlight::OneForwardOneBackward;
  CutWork *work = nullptr; // that searches share; null: each has its own

  int64_t stages() const { return places.stages(); }
  /// The time of a message between two stages.
  strategies::Cost message(int64_t bytes) const;
};

/// Places all functions of a local module. An error if it has less to cut than stages. `counted`: if a cut was
/// searched, what it takes the fullest rank to need, which is less than its arena.
llvm::Error placeOperators(mlir::ModuleOp local, const PipelineCosts &costs, int64_t *counted = nullptr);

/// By function and by name of its operators: the stage of those that have one.
using OperatorStages = std::map<std::string, llvm::StringMap<int>>;
OperatorStages stagesOfOperators(mlir::ModuleOp placed);

} // namespace tessera::compiler

#endif
