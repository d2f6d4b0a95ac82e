//===- Measure.h - times of kernels and collectives on this machine -----------------------------------===//
//
// The measurements of tessera-profile. Kernels run as they run in a plan: one operator on one rank's local shapes is
// partitioned, emitted and executed by the backend, on as many threads at once as there are ranks, so that caches and
// memory are shared as they will be. Collectives run between threads of this process, or between processes that a
// launcher has started, so over the links between their machines. With the backend "cuda" ranks have devices: a kernel
// runs on one, since devices share nothing, and collectives run between them.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_TOOLS_PROFILE_MEASURE_H
#define TESSERA_TOOLS_PROFILE_MEASURE_H

#include "runtime/comm/Communicator.h"
#include "strategies/cost/ProfileTable.h"
#include "strategies/cost/Topology.h"
#include "strategies/space/Program.h"

#include <functional>

namespace tessera {

struct MeasureOptions {
  dist::Mesh mesh;
  std::string backend = "cpu";          // "cuda": on devices
  double seconds = 0.02;                // per measurement, after one run to warm up
  int64_t maxBytes = int64_t(16) << 20; // the largest buffer of a collective
  rt::World *world = nullptr;           // the ranks are processes, and this is its place among them; else threads
  int ranksHere = 0;                    // how many of the ranks share this machine's cores

  /// Runs `body` on every rank: on threads, or on the one that this process is.
  rt::Status onRanks(const std::function<rt::Status(rt::World &)> &body) const;
};

/// The dialects of programs that are measured.
mlir::DialectRegistry measuredDialects();

/// How often a rank holds buffers of so many bytes, to go through them in turn. In a step an operand was written some
/// time ago, or comes from the step before, and meanwhile other tensors went through the caches. On the same buffers a
/// run would find them there: copies and convolutions with few channels took a third to a half of their time. So all
/// ranks together go through twice the largest cache. Buffers of some kilobytes stay in it, as in a step, where they
/// are read soon.
int64_t copiesPastCaches(int64_t bytes, int ranks);
inline constexpr int64_t kMostCopies = 64;

using Progress = std::function<void(const std::string &)>;

/// Measures every kernel that some strategy of the module's operators needs and that fusion leaves alone. Adds them to
/// `table`. Entries that are there already are not measured again.
llvm::Error measureKernels(mlir::ModuleOp module, const MeasureOptions &options, strategies::ProfileTable &table,
                           const Progress &progress);

/// Measures the loops of the first program in mode data, all ranks at once: the time of an operation, and without their
/// operations the mean time of those that read and write about as many bytes. Loops of other strategies are made of the
/// same operators. On devices nothing is measured, nor where the table has loops already.
llvm::Error measureLoops(mlir::ModuleOp module, const MeasureOptions &options, strategies::ProfileTable &table,
                         const Progress &progress);

/// Measures all-reduce (in place, as plans place it), all-gather, reduce-scatter, all-to-all and halo among groups of
/// every size that axes of the mesh form. No cache holds where their results go. Between processes the table is
/// complete on rank 0.
llvm::Error measureCollectives(const MeasureOptions &options, strategies::ProfileTable &table,
                               const Progress &progress);

/// Measures what an all-reduce beside kernels is for the cores that compute: how much longer products take beside it,
/// for a small and a large one. Of one rank, of devices, and with less than 8 KiB to send, nothing is measured.
llvm::Error measureBeside(const MeasureOptions &options, strategies::ProfileTable &table, const Progress &progress);

/// The seconds of an operator of one rank, run alone on as many threads at once as the mesh has ranks; the mean counts.
llvm::Expected<double> timeOperator(mlir::Operation *op, const MeasureOptions &options);

/// The topology of this machine's cores, each a device of a shared machine, on all of which kernels run at once:
/// rates of a product of 1,024 x 1,024 matrices in three types, of attention, of a loop over 384 MiB and of one in
/// the cache, and the link of which an all-reduce among threads would take as long as measured. The network is the
/// preset's ("cpu"). Of the options, the time and the backend count.
llvm::Expected<strategies::Topology> measureHost(const MeasureOptions &options, const Progress &progress);

/// The rates of a device for a topology: bytes per second of a copy on it (read and written), and seconds to start a
/// kernel.
struct DeviceRates {
  double memoryBandwidth = 0, launch = 0;
};
llvm::Expected<DeviceRates> measureDevice(double seconds, const Progress &progress);

/// Reads the machine's topology from nvidia-smi; see strategies/cost/MachineTopology.h, also for `like`.
llvm::Expected<strategies::Topology> readMachine(const std::string &like);

} // namespace tessera

#endif
