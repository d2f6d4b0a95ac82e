//===- Network.h - the links among machines, without a plan --------------------------------------------===//
#ifndef TESSERA_TOOLS_PROFILE_NETWORK_H
#define TESSERA_TOOLS_PROFILE_NETWORK_H

#include "runtime/launch/LaunchContext.h"
#include "runtime/support/Status.h"
#include "tools/profile/Measure.h"

namespace tessera {

/// What tessera-run --check finds of the network: the ranks that a launcher started (torchrun's variables, MPI, Slurm)
/// reach each other, how fast. Rank 0 prints it, as JSON with `json`. The error is what is wrong.
rt::Status checkNetwork(bool json);

/// Measures collectives, and what they are beside kernels, among the ranks that a launcher started. What the table
/// holds of both is forgotten first, since it was measured elsewhere. The result is that of rank 0; of the others
/// `isFirst` is false.
rt::Status measureNetwork(MeasureOptions options, strategies::ProfileTable &table, const Progress &progress,
                          bool &isFirst);

} // namespace tessera

#endif
