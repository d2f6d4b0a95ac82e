#include "runtime/launch/SlurmTask.h"

#include <algorithm>

namespace tessera::rt {
namespace {

constexpr const char *kTasks = "SLURM_STEP_NUM_TASKS";

/// All tasks of a step compute the same port, so that none needs to be told. It lies below the ports that Linux gives
/// to connections (from 32768). Ten steps each of a thousand consecutive jobs get different ports.
uint16_t portOf(int job, int step) { return uint16_t(20000 + job % 1000 * 10 + step % 10); }

} // namespace

std::string firstHostOf(const std::string &list) {
  std::string host;
  for (size_t at = 0; at < list.size() && list[at] != ',';) {
    if (list[at] != '[') {
      host += list[at++];
      continue;
    }
    const size_t end = list.find_first_of("-,]", at + 1), close = list.find(']', at + 1);
    if (close == std::string::npos || end == at + 1)
      return "";
    host += list.substr(at + 1, end - at - 1);
    at = close + 1;
  }
  return host;
}

Result<std::optional<SlurmTask>> SlurmTask::find(const Environment &get) {
  Result<int> tasks = numberIn(get, kTasks, INT32_MAX, 1);
  if (!tasks)
    return tasks.status();
  if (!get("SLURM_STEP_ID") || *tasks < 2)
    return std::optional<SlurmTask>();
  Result<int> task = numberIn(get, "SLURM_PROCID", *tasks - 1, std::nullopt, kTasks);
  Result<int> localTask = numberIn(get, "SLURM_LOCALID", *tasks - 1, std::nullopt, kTasks);
  Result<int> cores = numberIn(get, "SLURM_CPUS_ON_NODE", INT32_MAX, 0);
  Result<int> job = numberIn(get, "SLURM_JOB_ID", INT32_MAX, std::nullopt, kTasks);
  Result<int> step = numberIn(get, "SLURM_STEP_ID", INT32_MAX, std::nullopt, kTasks);
  for (const Status &status : {task.status(), localTask.status(), cores.status(), job.status(), step.status()})
    TESSERA_RETURN_IF_ERROR(status);
  SlurmTask found;
  found.task = *task, found.tasks = *tasks;
  found.localTask = *localTask;
  // The tasks of this node, by their numbers in the step: "2,3".
  const char *onNode = get("SLURM_GTIDS");
  const std::string all = onNode ? onNode : "";
  found.localTasks = int(std::count(all.begin(), all.end(), ',')) + 1;
  if (all.empty() || found.localTasks > *tasks || *localTask >= found.localTasks)
    return Status::error("SLURM_GTIDS=" + all +
                         " in the environment does not name the tasks of this node, of which this is number " +
                         std::to_string(*localTask) + " (SLURM_LOCALID)");
  found.cores = *cores;
  const char *nodes = get("SLURM_STEP_NODELIST"), *node = get("SLURMD_NODENAME");
  found.firstNode = firstHostOf(nodes ? nodes : "");
  if (found.firstNode.empty())
    return Status::error(std::string("SLURM_STEP_NODELIST=") + (nodes ? nodes : "") +
                         " in the environment names no host");
  found.node = node ? node : "";
  found.port = portOf(*job, *step);
  return std::optional<SlurmTask>(std::move(found));
}

} // namespace tessera::rt
