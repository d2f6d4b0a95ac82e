//===- Network.h - the links among machines, without a plan --------------------------------------------===//
#ifndef TESSERA_TOOLS_PROFILE_NETWORK_H
#define TESSERA_TOOLS_PROFILE_NETWORK_H

#include "runtime/support/Status.h"

namespace tessera {

/// What tessera-run --check finds of the network: the ranks that a launcher started (torchrun's variables, MPI, Slurm)
/// reach each other, how fast. Rank 0 prints it, as JSON with `json`. The error is what is wrong.
rt::Status checkNetwork(bool json);

} // namespace tessera

#endif
