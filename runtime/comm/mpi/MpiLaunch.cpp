#include "runtime/comm/mpi/MpiWorld.h"

#include <cstdlib>

namespace tessera::rt {

bool launchedByMpi() {
  // In this order: Open MPI, launchers with PMIx such as srun, and MPICH with its relatives.
  for (const char *name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"})
    if (std::getenv(name))
      return true;
  return false;
}

} // namespace tessera::rt
