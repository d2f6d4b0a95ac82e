//===- SlurmTask.h - what srun says about the task that this process is ---------------------------===//
//
// `srun -N2 -n4 tessera-run plan/` starts four tasks, which are the ranks of the plan. Slurm tells each by variables:
//
//   SLURM_STEP_NUM_TASKS=4  SLURM_PROCID=2  SLURM_STEP_NODELIST=n[0-1]
//   SLURM_GTIDS=2,3         SLURM_LOCALID=0  SLURM_CPUS_ON_NODE=8
//
//   Result<std::optional<SlurmTask>> task = SlurmTask::find(std::getenv);
//   // task 2 of 4, task 0 of 2 on its node, which share 8 cores; task 0 runs on "n0"
//
// The script of a job (sbatch) also has SLURM_PROCID, but it is no task of a step. A task that is alone in its step is
// no rank of several, either.
//
//===------------------------------------------------------------------------------------------===//
#ifndef TESSERA_RUNTIME_LAUNCH_SLURMTASK_H
#define TESSERA_RUNTIME_LAUNCH_SLURMTASK_H

#include "runtime/launch/Environment.h"

#include <string>

namespace tessera::rt {

struct SlurmTask {
  int task = 0, tasks = 1;           // of the step
  int localTask = 0, localTasks = 1; // on this node
  int cores = 0;                     // cores of the step on this node, which its tasks here share; 0: not known
  std::string firstNode;             // of the step; task 0 runs there unless --distribution=arbitrary says otherwise
  std::string node;                  // the name of this node; empty: not known
  uint16_t port = 0;                 // 20000 to 29999; jobs and steps close to this one have others

  /// Nothing outside of a step of several tasks. If variables are missing or make no sense, the error names them.
  static Result<std::optional<SlurmTask>> find(const Environment &get);
};

/// The first host of a list as Slurm writes them: "rack2n07" of "rack[2-3]n[07-09,12],login". Empty: the list has none.
std::string firstHostOf(const std::string &list);

} // namespace tessera::rt

#endif
