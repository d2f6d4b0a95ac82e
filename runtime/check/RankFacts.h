//===- RankFacts.h - what one rank knows of itself and its machine -----------------------------------===//
#ifndef TESSERA_RUNTIME_CHECK_RANKFACTS_H
#define TESSERA_RUNTIME_CHECK_RANKFACTS_H

#include "runtime/plan/plan.pb.h"

#include <cstdint>
#include <string>

namespace tessera::rt {

/// Ranks send it to each other as it is. Texts end with a null and are cut to fit.
struct RankFacts {
  char host[64];    // the machine's name
  char network[48]; // which network namespace; containers of one machine differ
  char version[32];
  char libraries[192];  // "oneDNN 2.6.3, Open MPI v4.1.4"
  char plan[72];        // its id
  char device[96];      // its name; empty: none is asked for
  char fault[160];      // why there is no device, or why checkpoints cannot be written; empty: nothing is wrong
  int64_t cores;        // that the process may use
  int64_t freeMemory;   // bytes that the machine, or the process's group, has left; -1: not known
  int64_t neededMemory; // bytes of the plan's arena; on a device the host needs less
  int64_t freeDisk;     // bytes where checkpoints go; -1: none are written
  int64_t checkpoint;   // bytes of this rank's part of one
};

/// Of this process. `device` is the number of its device, or -1. `libraries` are those that it uses without a device.
RankFacts factsOfRank(const plan::Plan &plan, const std::string &checkpointDir, int device, bool shared,
                      const std::string &libraries);

} // namespace tessera::rt

#endif
