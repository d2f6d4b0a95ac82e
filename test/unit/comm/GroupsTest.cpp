#include "runtime/comm/Groups.h"
#include "runtime/comm/mpi/MpiWorld.h"

#include <catch2/catch.hpp>
#include <cstdlib>

using namespace tessera::rt;
using Catch::Contains;

TEST_CASE("groups must be lists that their members agree on", "[comm]") {
  CHECK(checkGroups({{0}}).ok());
  CHECK(checkGroups({{1, 0}, {1, 0}, {2}}).ok());
  CHECK_THAT(checkGroups({{0, 1}, {1, 0}}).message(),
             Contains("rank 0 names the group [0, 1]") && Contains("rank 1 names [1, 0]"));
  CHECK_THAT(checkGroups({{0}, {0, 1}}).message(), Contains("rank 1") && Contains("rank 0"));
  CHECK_THAT(checkGroups({{1}, {1}}).message(), Contains("rank 0 is not in the group [1]"));
  CHECK_THAT(checkGroups({{0, 2}, {1}}).message(), Contains("no set of ranks of a world of 2"));
  CHECK_FALSE(checkGroups({{0, 0}}).ok());
  CHECK_FALSE(checkGroups({{-1, 0}}).ok());
  CHECK_FALSE(checkGroups({{}}).ok());
}

TEST_CASE("an MPI launch is told from the environment", "[comm]") {
  for (const char *name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"})
    ::unsetenv(name);
  CHECK_FALSE(launchedByMpi());
  ::setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
  CHECK(launchedByMpi());
  ::unsetenv("OMPI_COMM_WORLD_SIZE");
}
