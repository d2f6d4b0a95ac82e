//===- Measure.h - times of kernels and collectives on this machine -----------------------------------===//
//
// What tessera-profile is made of. Kernels run as they run in a plan: one operator on one rank's local shapes is
// partitioned, emitted and executed by the backend, on as many threads at once as there are ranks, so that caches and
// memory are shared as they will be. Collectives run between threads of this process. With the backend "cuda" ranks
// have devices: a kernel runs on one, since devices share nothing, and collectives run between them.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TOOLS_PROFILE_MEASURE_H
#define TESSERA_TOOLS_PROFILE_MEASURE_H

#include "strategies/cost/ProfileTable.h"
#include "strategies/cost/Topology.h"
#include "strategies/space/Program.h"

#include <functional>

namespace tessera {

struct MeasureOptions {
  dist::Mesh mesh;
  std::string backend = "cpu";          // "cuda": on devices
  double seconds = 0.02;                // of one measurement, after one run to warm up
  int64_t maxBytes = int64_t(16) << 20; // of a collective
};

using Progress = std::function<void(const std::string &)>;

/// Every kernel that an enumerated strategy of an operator of the module's functions needs and that fusion leaves
/// alone. Adds to `table`; what it holds already is not measured again.
llvm::Error measureKernels(mlir::ModuleOp module, const MeasureOptions &options, strategies::ProfileTable &table,
                           const Progress &progress);

/// All-reduce, all-gather, reduce-scatter and all-to-all among groups of every size that axes of the mesh make.
llvm::Error measureCollectives(const MeasureOptions &options, strategies::ProfileTable &table,
                               const Progress &progress);

/// What a topology says of a device: bytes per second of a copy on it (read and written), seconds to start a kernel.
struct DeviceRates {
  double memoryBandwidth = 0, launch = 0;
};
llvm::Expected<DeviceRates> measureDevice(double seconds, const Progress &progress);

/// The machine's topology as nvidia-smi shows it (strategies/cost/MachineTopology.h); `like` as there.
llvm::Expected<strategies::Topology> readMachine(const std::string &like);

} // namespace tessera

#endif
