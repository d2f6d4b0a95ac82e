//===- UserMapping.h - the user's strategies on a function's operators ---------------------------===//
//
// An operator of the model file may be several operators of the graph (a Gemm is a product and a sum, a
// normalisation a dozen): all that carry its name, or its name and "/suffix". They form a group; the user's
// "in" speaks of the tensors that enter it. The sharding of those is propagated through the group's rules.
//
// Split counts become axes by a depth-first search, input by input, dimension by dimension, axes in mesh order
// first; a choice stands if propagation through the group leaves every input with exactly the splits
// asked for.
//
//   {"op": "fc", "in": [[2, 1], [1, 2]]} on "m k, k n -> m n", mesh data=2,model=2:
//   input 0 takes data for m; input 1 cannot take data for n (used for m), so it takes model.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_USER_USERMAPPING_H
#define TESSERA_STRATEGIES_USER_USERMAPPING_H

#include "strategies/space/FunctionAssignment.h"
#include "strategies/user/UserStrategies.h"

namespace tessera::strategies {

/// One operator of the model file with a strategy of the user's.
struct FixedGroup {
  std::string name;
  const UserEntry *entry = nullptr;
  llvm::SmallVector<int> ops;             // ascending
  llvm::SmallVector<mlir::Value> inputs;  // in the model file's order, as far as the graph tells it
  llvm::SmallVector<Sharding> wanted;     // how each input must arrive
  llvm::SmallVector<mlir::Value> outputs; // used outside the group
};

struct FixedStrategies {
  std::vector<FixedGroup> groups;
  std::vector<int> groupOf;         // by operator; -1: none
  std::vector<Strategy> strategies; // by operator; of those in a group
};

/// Fails with one sentence that names an entry whose operator is in none of the module's functions.
llvm::Error checkNames(mlir::ModuleOp module, const UserStrategies &user);

/// Maps the entries whose operators are in this function. Inputs that are parameters with a sharding in
/// `shared` keep that.
llvm::Expected<FixedStrategies> mapUserStrategies(const FunctionAssignment &function, const Mesh &mesh,
                                                  const UserStrategies &user, const SharedShardings &shared);

/// Whether the operator stems from `node` of the model file: has its name, or its name and "/suffix".
bool belongsTo(llvm::StringRef name, llvm::StringRef node);

} // namespace tessera::strategies

#endif
