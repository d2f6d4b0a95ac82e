//===- FunctionAssignment.h - one function on its way to a full assignment -----------------------===//
//
// What the mode drivers fill: the analysed function, a strategy per operator, a sharding per argument and
// result. Parameters and states keep one sharding in all functions of a module: the first function (the
// training step where there is one) decides, the others find it in `SharedShardings`.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SPACE_FUNCTIONASSIGNMENT_H
#define TESSERA_STRATEGIES_SPACE_FUNCTIONASSIGNMENT_H

#include "strategies/space/Propagate.h"

#include <map>

namespace tessera::strategies {

/// Parameters and states by name.
using SharedShardings = std::map<std::string, Sharding>;

struct FunctionAssignment {
  Program program;
  Assignment assignment;
  llvm::SmallVector<Sharding> args, results;
  llvm::DenseMap<unsigned, unsigned> updates; // result -> the argument whose next value it is

  explicit FunctionAssignment(Program p);

  /// "parameter" or "state": lives across steps and functions.
  bool isPersistent(unsigned arg) const;
  std::string argName(unsigned arg) const;
  /// Takes over the shardings of persistent arguments that an earlier function fixed.
  void adopt(const SharedShardings &shared);
  void publish(SharedShardings &shared) const;

  /// Sets the argument's sharding in `args` and in the assignment's values.
  void setArg(unsigned arg, Sharding sharding);
  /// The results' shardings: an update has its argument's, anything else what its producer hands
  /// on, with nothing owed.
  void finishResults();
  /// Checks every strategy and writes the attributes.
  llvm::Error write(const Mesh &mesh) const;
};

/// All axes, in mesh order, as far as they divide the extent together; if none does, as far as the extent has
/// an element for each rank.
AxisList batchAxes(const Mesh &mesh, int64_t extent);
/// Inputs and targets along dimension 0, everything else whole.
void shardBatch(FunctionAssignment &function, const Mesh &mesh);

} // namespace tessera::strategies

#endif
