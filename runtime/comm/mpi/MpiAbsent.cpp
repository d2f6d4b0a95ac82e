#include "runtime/comm/mpi/MpiWorld.h"

namespace tessera::rt {

Result<std::unique_ptr<World>> createMpiWorld(double) {
  return Status::error("this program was built without MPI; configure it where an MPI library is "
                       "installed (Debian: libopenmpi-dev), or run the ranks as threads");
}

std::string mpiLibrary() { return ""; }

} // namespace tessera::rt
