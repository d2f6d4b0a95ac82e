//===- FunctionAssignment.h - one function on its way to a full assignment -----------------------===//
//
// The modes fill it: the analysed function, a strategy per operator, a sharding per argument and result. Parameters
// and states keep one sharding in all functions of a module. The first function (the training step where there is one)
// decides it, and the others read it from `SharedShardings`.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_SPACE_FUNCTIONASSIGNMENT_H
#define TESSERA_STRATEGIES_SPACE_FUNCTIONASSIGNMENT_H

#include "strategies/space/Propagate.h"

#include <map>

namespace tessera::strategies {

/// The shardings of parameters and states, by name.
using SharedShardings = std::map<std::string, Sharding>;

struct FunctionAssignment {
  Program program;
  Assignment assignment;
  llvm::SmallVector<Sharding> args, results;
  bool apart = false;                         // dist::kApartAttr
  llvm::DenseMap<unsigned, unsigned> updates; // result -> the argument whose next value it is

  explicit FunctionAssignment(Program p);

  /// Whether the argument is a parameter or a state: it lives across steps and functions.
  bool isPersistent(unsigned arg) const;
  std::string argName(unsigned arg) const;
  /// Takes over the shardings of persistent arguments that an earlier function fixed.
  void adopt(const SharedShardings &shared);
  /// Adds the shardings of persistent arguments that no earlier function fixed.
  void publish(SharedShardings &shared) const;

  /// Sets the argument's sharding in `args` and in the assignment's values.
  void setArg(unsigned arg, Sharding sharding);
  /// Sets the results' shardings. An update takes its argument's. Any other result takes its producer's, reduced where
  /// that is partial.
  void finishResults();
  /// Checks every strategy and writes the attributes. The error names the operator.
  llvm::Error write(const Mesh &mesh) const;
};

/// The axes that cut a batch of `extent` samples: all that divide it together, taken in mesh order. If no axis divides
/// it, all that together leave a sample for each rank.
AxisList batchAxes(const Mesh &mesh, int64_t extent);
/// Cuts inputs and targets along dimension 0 by the batch axes. Other arguments keep their shardings.
void shardBatch(FunctionAssignment &function, const Mesh &mesh);

} // namespace tessera::strategies

#endif
