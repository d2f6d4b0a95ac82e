#include "runtime/launch/LaunchContext.h"

#include "runtime/comm/mpi/MpiWorld.h"
#include "runtime/launch/RankTable.h"
#include "runtime/launch/SlurmTask.h"
#include "runtime/support/File.h"

#include <cstring>

namespace tessera::rt {
namespace {

constexpr uint16_t kDefaultPort = 29500;

Status counted(int theirs, int ranks, const std::string &who) {
  if (theirs == ranks)
    return Status();
  return Status::error("is a plan for " + std::to_string(ranks) + " ranks, but " + who + " " + std::to_string(theirs));
}

Result<uint16_t> masterPort(const Environment &get, std::optional<int> otherwise) {
  Result<int> port = numberIn(get, "MASTER_PORT", UINT16_MAX, otherwise);
  if (!port)
    return port.status();
  // torchrun's agent itself listens on the port that it gives its workers.
  const char *agent = get("TORCHELASTIC_USE_AGENT_STORE");
  const int own = *port + (agent && !std::strcmp(agent, "True") ? 1 : 0);
  if (*port == 0 || own > UINT16_MAX)
    return Status::error("MASTER_PORT=" + std::to_string(*port) +
                         " in the environment is no port that rank 0 can listen on" +
                         (own > UINT16_MAX ? " (under torchrun it is the one after it)" : ""));
  return uint16_t(own);
}

Status fromEnvironment(LaunchContext &p, int ranks, const Environment &get) {
  p.transport = Transport::Tcp;
  Result<int> rank = numberIn(get, "RANK", INT32_MAX, std::nullopt);
  Result<int> size = numberIn(get, "WORLD_SIZE", INT32_MAX, std::nullopt);
  Result<uint16_t> port = masterPort(get, std::nullopt);
  Result<int> localRank = numberIn(get, "LOCAL_RANK", INT32_MAX, 0);
  Result<int> localRanks = numberIn(get, "LOCAL_WORLD_SIZE", INT32_MAX, 1);
  Result<int> listener = numberIn(get, "TESSERA_LISTENER", INT32_MAX, INT32_MAX);
  for (const Status &status :
       {rank.status(), size.status(), port.status(), localRank.status(), localRanks.status(), listener.status()})
    TESSERA_RETURN_IF_ERROR(status);
  const char *address = get("MASTER_ADDR");
  if (!address || !*address)
    return Status::error("MASTER_ADDR is not set in the environment, though RANK is");
  if (p.elastic)
    ranks = *size;
  TESSERA_RETURN_IF_ERROR(counted(*size, ranks, "WORLD_SIZE is"));
  if (*rank >= ranks)
    return Status::error("RANK is " + std::to_string(*rank) + ", WORLD_SIZE " + std::to_string(ranks));
  p.tcp.rank = *rank;
  p.tcp.ranks = p.ranks = ranks;
  p.tcp.address = address;
  p.tcp.port = *port;
  p.tcp.listener = *rank == 0 && *listener != INT32_MAX ? *listener : -1;
  p.localRank = *localRank;
  p.localRanks = *localRanks;
  return Status();
}

Child childFor(int rank, int ranks, int localRank, size_t localRanks, const std::string &address, uint16_t port) {
  return {rank,
          {{"MASTER_ADDR", address},
           {"MASTER_PORT", std::to_string(port)},
           {"RANK", std::to_string(rank)},
           {"WORLD_SIZE", std::to_string(ranks)},
           {"LOCAL_RANK", std::to_string(localRank)},
           {"LOCAL_WORLD_SIZE", std::to_string(localRanks)}}};
}

Status fromTable(LaunchContext &p, const std::string &file, int ranks, const Environment &get) {
  Result<std::string> text = readFile(file, uint64_t(4) << 20);
  if (!text)
    return text.status();
  Result<RankTable> table = RankTable::parse(*text);
  if (!table)
    return table.status().context(file);
  TESSERA_RETURN_IF_ERROR(counted(table->ranks(), ranks, file + " names"));
  Result<uint16_t> port = masterPort(get, kDefaultPort);
  if (!port)
    return port.status();
  const std::string master = table->serverOf(0).address;
  p.transport = Transport::Tcp;
  if (get("RANK_ID")) {
    Result<int> rank = numberIn(get, "RANK_ID", ranks - 1, std::nullopt);
    if (!rank)
      return rank.status();
    const RankTable::Server &server = table->serverOf(*rank);
    p.tcp.rank = *rank;
    p.tcp.address = master;
    p.tcp.port = *port;
    p.tcp.listenAddress = server.address;
    p.localRanks = int(server.devices.size());
    for (const RankTable::Device &device : server.devices)
      if (device.rank == *rank)
        p.localRank = device.device;
    return Status();
  }
  const RankTable::Server *here = table->find(ownAddresses());
  if (!here)
    return Status::error(file + ": none of its servers has an address of this machine; set RANK_ID "
                                "to the rank that this process is");
  p.machine = here->address;
  for (int rank = 0; rank < ranks; ++rank)
    p.machines.push_back(table->serverOf(rank).address);
  for (const RankTable::Device &device : here->devices) {
    p.children.push_back(childFor(device.rank, ranks, device.device, here->devices.size(), master, *port));
    p.children.back().environment.push_back({"TESSERA_LISTEN_ADDRESS", here->address});
  }
  return Status();
}

Status fromSlurm(LaunchContext &p, const SlurmTask &task, int ranks, const Environment &get) {
  p.transport = Transport::Tcp;
  if (p.elastic)
    ranks = task.tasks;
  if (task.tasks != ranks)
    return Status::error("is a plan for " + std::to_string(ranks) + " ranks, but srun started " +
                         std::to_string(task.tasks) + " tasks; start one for each rank (srun -n " +
                         std::to_string(ranks) + "), or give --processes to run all ranks in every task");
  const char *address = get("MASTER_ADDR");
  const bool told = address && *address;
  // Only task 0 can detect this. The other tasks would wait for it on the wrong node until the
  // time-out.
  if (task.task == 0 && !told && !task.node.empty() && task.node != task.firstNode)
    return Status::error("task 0 runs on " + task.node + " and not on the step's first node " + task.firstNode +
                         ", where the others look for it; set MASTER_ADDR=" + task.node + " for all of them");
  Result<uint16_t> port = masterPort(get, task.port);
  if (!port)
    return port.status();
  p.tcp.rank = task.task;
  p.tcp.ranks = p.ranks = ranks;
  p.tcp.address = told ? address : task.firstNode;
  p.tcp.port = *port;
  return Status();
}

/// All ranks as processes of this machine.
void startProcesses(LaunchContext &p, int ranks) {
  p.transport = Transport::Tcp;
  p.ownListener = true;
  for (int r = 0; r < ranks; ++r)
    p.children.push_back(childFor(r, ranks, r, size_t(ranks), "127.0.0.1", 0));
}

/// How many processes an MPI launcher has started, before MPI itself is.
Result<int> mpiProcesses(const Environment &get) {
  for (const char *name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"})
    if (get(name))
      return numberIn(get, name, INT32_MAX, std::nullopt);
  return Status::error(
      "--elastic: this MPI launcher does not say in the environment how many processes it has started");
}

} // namespace

void Child::set(const std::string &name, const std::string &value) {
  for (auto &[known, old] : environment)
    if (known == name) {
      old = value;
      return;
    }
  environment.push_back({name, value});
}

bool startedByLauncher(const Environment &get) {
  const Result<std::optional<SlurmTask>> slurm = SlurmTask::find(get);
  return (get("RANK") && get("WORLD_SIZE")) || launchedByMpi() || !slurm || *slurm;
}

Result<LaunchContext> decideLaunch(const LaunchOptions &options, int ranks, const Environment &get) {
  LaunchContext p;
  Result<int> attempt = numberIn(get, "TESSERA_ATTEMPT", INT32_MAX, -1);
  if (!attempt)
    return attempt.status();
  const bool supervised = p.supervised = *attempt >= 0;
  p.attempt = supervised ? *attempt : 0;
  p.tcp.ranks = ranks;
  p.tcp.rendezvousTimeout = options.rendezvousTimeout;
  p.tcp.peerTimeout = options.peerTimeout;
  if (const char *secret = get("TESSERA_SECRET"))
    p.tcp.secret = secret;
  if (const char *address = get("TESSERA_LISTEN_ADDRESS"))
    p.tcp.listenAddress = address;

  const bool asRank = get("RANK") && get("WORLD_SIZE"), processes = options.processes.value_or(false);
  Result<std::optional<SlurmTask>> slurm = std::optional<SlurmTask>();
  // Under mpirun they are those of its daemons. What the command line says comes first.
  const bool underMpirun = get("OMPI_COMM_WORLD_SIZE") || get("MPI_LOCALNRANKS");
  if (!asRank && !underMpirun && (supervised || (options.rankTable.empty() && !processes))) {
    slurm = SlurmTask::find(get);
    if (!slurm)
      return slurm.status();
  }
  if (const std::optional<SlurmTask> &task = *slurm) {
    p.localRank = task->localTask;
    p.localRanks = task->localTasks;
    p.localCores = task->cores;
  }
  p.elastic = !supervised && options.elastic && options.restarts == 0;
  p.ranks = ranks;
  if (!supervised && launchedByMpi()) {
    p.transport = Transport::Mpi;
    if (p.elastic) {
      Result<int> processes = mpiProcesses(get);
      if (!processes)
        return processes.status();
      p.ranks = *processes;
    }
    if (options.restarts > 0)
      return Status::error(options.elastic ? "--elastic goes without --restarts under an MPI launcher: it ends the "
                                             "whole job, and is to be started again on as many ranks as there are"
                                           : "--restarts does not work under an MPI launcher, which ends the whole "
                                             "job; start the ranks with --processes, --rank-table or torchrun's "
                                             "variables");
    return p;
  }
  if (!supervised && options.elastic && !p.elastic && (asRank || *slurm))
    return Status::error("--elastic goes without --restarts where a launcher starts the ranks: it is to start as many "
                         "again as there are (torchrun --max_restarts, --nnodes 1:4)");
  if (!supervised && !asRank && options.rankTable.empty() && !processes)
    for (auto [there, missing] : {std::pair{"RANK", "WORLD_SIZE"}, {"WORLD_SIZE", "RANK"}})
      if (get(there)) // a launcher that lost a variable does not want all ranks as threads
        return Status::error(std::string(missing) + " is not set in the environment, though " + there +
                             " is: set both, or neither to run all ranks in this process");
  if (asRank) {
    TESSERA_RETURN_IF_ERROR(fromEnvironment(p, ranks, get));
  } else if (!supervised && !options.rankTable.empty()) {
    TESSERA_RETURN_IF_ERROR(fromTable(p, options.rankTable, ranks, get));
  } else if (!supervised && processes) {
    startProcesses(p, ranks);
  } else if (*slurm) {
    TESSERA_RETURN_IF_ERROR(fromSlurm(p, **slurm, ranks, get));
  } else if (!supervised && options.ownDevices && ranks > 1 && options.processes.value_or(true)) {
    // NCCL advises against several devices in a process that records graphs, and registers less there.
    startProcesses(p, ranks);
  }
  if (!supervised && options.elastic && !p.elastic && p.children.empty())
    return Status::error("--elastic needs ranks that are lost one by one, as processes of one supervisor: give "
                         "--processes or --rank-table");
  if (!supervised && options.restarts > 0 && p.children.empty())
    p.children.push_back({p.transport == Transport::Tcp ? p.tcp.rank : -1, {}});
  return p;
}

} // namespace tessera::rt
