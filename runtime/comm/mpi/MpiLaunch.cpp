#include "runtime/comm/mpi/MpiWorld.h"

#include <cstdlib>

namespace tessera::rt {

bool launchedByMpi() {
  // Open MPI, PMIx launchers such as srun, MPICH and its relatives.
  for (const char *name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"})
    if (std::getenv(name))
      return true;
  return false;
}

} // namespace tessera::rt
