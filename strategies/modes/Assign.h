//===- Assign.h - a strategy for every operator --------------------------------------------------===//
//
// Closes phase 2 and opens phase 3: the module gets its mesh (`dist.mesh`), every operator with a sharding
// rule a strategy (`dist.strategy`), every function argument and result a sharding (`dist.sharding`).
//
//   data       parameters and states whole on every rank, model inputs and targets cut along dimension 0
//              over all axes (as far as they divide it); the rest follows through the rules; a reduction over
//              the batch is paid where it arises.
//   semi-auto  the user's strategies (UserStrategies.h); an operator without one is batch parallel. The
//              gradient operators of an operator with a strategy inherit its factors by name.
//   auto       the cheapest under the cost model; the user's strategies are constraints.
//
//   AssignOptions options;
//   options.mesh = cantFail(Mesh::parse("data=2,model=2"));
//   options.topology = cantFail(Topology::load("cpu"));
//   AssignReport report;
//   if (llvm::Error e = assignStrategies(module, options, report)) ...
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_MODES_ASSIGN_H
#define TESSERA_STRATEGIES_MODES_ASSIGN_H

#include "strategies/report/Report.h"
#include "strategies/user/UserStrategies.h"

namespace tessera::strategies {

struct AssignOptions {
  std::string mode = "data"; // one of modeNames()
  Mesh mesh;
  Topology topology;
  ProfileTable profile;
  /// The user's strategies, or a saved assignment (then `mode` only names it).
  UserStrategies user;
  /// Bytes per rank; 0: what the topology says.
  int64_t memoryLimit = 0;
  /// Effort of the search in 1e9 elementary steps, roughly seconds: equal effort gives equal strategies.
  double searchWork = 2;
  /// Wall clock after which the search ends all the same.
  double searchSeconds = 120;
  int searchThreads = 1;
  /// The search also ends at this relative distance to the proven bound.
  double searchGap = 1e-3;
  std::string searcher; // empty: the default one
  /// Where mode auto writes the search problem of the first function; empty: nowhere.
  std::string dumpGraph;
  /// Of the functions only the first one (the training step).
  bool firstOnly = false;
  /// Also say what else operators could have chosen (Explain.h).
  bool explain = false;
};

const std::vector<std::string> &modeNames();

llvm::Error assignStrategies(mlir::ModuleOp module, const AssignOptions &options, AssignReport &report);

} // namespace tessera::strategies

#endif
