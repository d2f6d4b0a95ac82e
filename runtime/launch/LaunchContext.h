//===- LaunchContext.h - which ranks this process runs, and how they talk -------------------------===//
//
// The options and the environment alone decide, before anything is started:
//
//   1. under mpirun, or under srun --mpi=pmix: one rank, MPI
//   2. RANK and WORLD_SIZE in the environment, as torchrun sets them: one rank, TCP to MASTER_ADDR:MASTER_PORT
//   3. --rank-table FILE: the one rank that RANK_ID says, or all ranks of this machine as processes; TCP
//   4. --processes: all ranks as processes of this machine; TCP
//   5. a task of several that srun has started: one rank, TCP to the step's first node (SlurmTask.h)
//   6. otherwise, where each of several ranks has a device of its own, all ranks as processes, as in 4
//   7. otherwise all ranks as threads of this process
//
// If this process starts others, or may start ranks again after a failure, it is a supervisor (Supervisor.h).
//
//   Result<LaunchContext> context = decideLaunch(options, planRanks, std::getenv);
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_LAUNCH_LAUNCHCONTEXT_H
#define TESSERA_RUNTIME_LAUNCH_LAUNCHCONTEXT_H

#include "runtime/comm/tcp/TcpWorld.h"
#include "runtime/launch/Environment.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tessera::rt {

struct LaunchOptions {
  std::optional<bool> processes; // false: threads also where each rank has a device of its own
  bool ownDevices = false;       // each rank has a device of its own
  std::string rankTable;         // a file
  int restarts = 0;
  bool elastic = false; // a restart may be on other ranks
  double rendezvousTimeout = 120, peerTimeout = 10;
};

/// A process that a supervisor starts: its rank for messages (-1: all ranks), and additions to its environment.
struct Child {
  int rank = -1;
  std::vector<std::pair<std::string, std::string>> environment;

  /// Adds a variable, or replaces its value.
  void set(const std::string &name, const std::string &value);
};

enum class Transport { Threads, Mpi, Tcp };

struct LaunchContext {
  Transport transport = Transport::Threads;
  TcpOptions tcp;                     // without the plan's id
  int localRank = -1, localRanks = 0; // 0: not known
  int localCores = 0;                 // which those ranks share; 0: not known
  std::vector<Child> children;        // not empty: supervise these, run no rank here
  std::vector<std::string> machines;  // with a rank table: the address of every rank's,
  std::string machine;                // and of this one
  bool ownListener = false;           // the supervisor listens for the children's rank 0
  bool supervised = false;            // a supervisor has started this process,
  int attempt = 0;                    // and all of them so many times before
  bool elastic = false;               // a launcher starts the ranks, and starts as many again as there then are,
  int ranks = 0;                      // now so many
};

/// Whether something else than this program starts the ranks: MPI, what sets torchrun's variables, or Slurm.
bool startedByLauncher(const Environment &get);

/// `ranks` are the plan's. A launcher that counts others is an error, but for --elastic without --restarts.
Result<LaunchContext> decideLaunch(const LaunchOptions &options, int ranks, const Environment &get);

} // namespace tessera::rt

#endif
