//===- Measure.h - times of kernels and collectives on this machine -----------------------------------===//
//
// What tessera-profile is made of. Kernels run as they run in a plan: one operator on one rank's local shapes is
// partitioned, emitted and executed by the backend, on as many threads at once as there are ranks, so that caches and
// memory are shared as they will be. Collectives run between threads of this process.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TOOLS_PROFILE_MEASURE_H
#define TESSERA_TOOLS_PROFILE_MEASURE_H

#include "strategies/cost/ProfileTable.h"
#include "strategies/space/Program.h"

#include <functional>

namespace tessera {

struct MeasureOptions {
  dist::Mesh mesh;
  std::string backend = "cpu";
  double seconds = 0.02;                // of one measurement, after one run to warm up
  int64_t maxBytes = int64_t(16) << 20; // of a collective
};

using Progress = std::function<void(const std::string &)>;

/// Every kernel that an enumerated strategy of an operator of the module's functions needs and that fusion leaves
/// alone. Adds to `table`; what it holds already is not measured again.
llvm::Error measureKernels(mlir::ModuleOp module, const MeasureOptions &options,
                           strategies::ProfileTable &table, const Progress &progress);

/// All-reduce, all-gather, reduce-scatter and all-to-all among groups of every size that axes of the mesh make.
llvm::Error measureCollectives(const MeasureOptions &options, strategies::ProfileTable &table,
                               const Progress &progress);

} // namespace tessera

#endif
