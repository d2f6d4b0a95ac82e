//===- KnownAnswer.h - what a search has found for a function, to be taken again -------------------===//
//
// Meshes are compared by searches of the first function. That of the mesh which is taken need not be made again where
// it would take the same course: for the same function under the same options. Where it was compared with less effort,
// none of its limits of work may have ended or turned it (SearchReport::limited).
//
//   AssignOptions with = options;
//   with.keep = &kept;                                   // std::shared_ptr<KnownAnswer>
//   ... assignStrategies(clone, with, report)            // sets it
//   options.known = kept;
//   ... assignStrategies(module, options, report)        // takes it
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_MODES_KNOWNANSWER_H
#define TESSERA_STRATEGIES_MODES_KNOWNANSWER_H

#include "strategies/modes/Assign.h"
#include "strategies/modes/BesideSearch.h"

namespace tessera::strategies {

class KnownAnswer {
public:
  /// `bound`: what is to be proven of it yet. Null where a later search would be another one.
  static std::shared_ptr<KnownAnswer> of(const FunctionAssignment &function, const AssignOptions &options,
                                         const SearchReport &search, const ProgramCost &planned, BesideBound &bound);

  /// Whether a search with these options would find it for the function.
  bool answers(const FunctionAssignment &function, const AssignOptions &options) const;
  /// Only once.
  void take(FunctionAssignment &function, SearchReport &search, ProgramCost &planned, BesideBound &bound);

private:
  std::vector<const void *> function_; // operators, attributes, types and operands, which are unique in their context
  Mesh mesh_;
  int64_t limit_ = 0;
  double effort_ = 0; // AssignOptions::searchWork
  PipelineShare share_;
  JoinOptions join_;
  double gap_ = 0;
  bool explained_ = false, isTaken_ = false;
  std::vector<Strategy> strategies_;
  llvm::SmallVector<Sharding> args_, results_;
  std::vector<Sharding> values_; // of all results of operators
  SearchReport search_;
  ProgramCost planned_;
  BesideBound bound_;
};

} // namespace tessera::strategies

#endif
