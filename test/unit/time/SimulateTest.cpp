#include "strategies/time/Simulate.h"

#include <catch2/catch.hpp>

using namespace tessera::strategies;
using Catch::Contains;

namespace {

/// A kernel, a collective beside the next kernel, and a buffer that the collective still reads.
TaskGraph overlapped() {
  TaskGraph graph;
  graph.resources = {"rank 0", "link"};
  graph.pools = {{"rank 0", 40}};
  graph.tasks = {{"first", 10, {0}, {}},
                 {"reduce", 30, {1}, {{0}}},
                 {"second", 10, {0}, {}},
                 {"update", 5, {0}, {{1, 2}, {2, 0}}}};
  graph.buffers = {{0, 16, 0, false, {1}}, {0, 24, 2, false, {3}}, {0, 8, 1, true, {3}}};
  return graph;
}

} // namespace

TEST_CASE("a good schedule has no error, and its figures") {
  TaskGraph graph = overlapped();
  REQUIRE(checkTaskGraph(graph) == "");
  Timeline line = simulate(graph, {0, 10, 10, 42});
  CHECK(line.error == "");
  CHECK(line.makespan == 47);
  CHECK(line.busy == std::vector<int64_t>{25, 30});
  CHECK(line.peak == std::vector<int64_t>{40});
  // The second kernel hides 10 of the 30.
  CHECK(exposed(graph, {0, 10, 10, 42}, 1, 0) == 20);
  CHECK(exposed(graph, {0, 10, 50, 65}, 1, 0) == 30);
}

TEST_CASE("every broken rule is named") {
  TaskGraph graph = overlapped();
  CHECK_THAT(simulate(graph, {0, 9, 10, 42}).error,
             Contains("'reduce' starts at 9, but what it needs of 'first' is there at 10"));
  CHECK_THAT(simulate(graph, {0, 10, 10, 41}).error, Contains("'update' starts at 41")); // the lag
  CHECK_THAT(simulate(graph, {0, 10, 9, 42}).error,
             Contains("'second' starts at 9, but 'first' holds 'rank 0' until 10"));
  CHECK_THAT(simulate(graph, {0, -1, 10, 42}).error, Contains("'reduce' starts at -1"));
  CHECK_THAT(simulate(graph, {0, 10, 10}).error, Contains("3 start times for 4 tasks"));
  graph.pools[0].limit = 39;
  CHECK_THAT(simulate(graph, {0, 10, 10, 42}).error, Contains("at 10 pool 'rank 0' holds 40 bytes, the limit is 39"));
}

TEST_CASE("at one instant memory is freed before it is taken") {
  TaskGraph graph;
  graph.resources = {"rank 0"};
  graph.pools = {{"rank 0", 10}};
  graph.tasks = {{"a", 5, {0}, {}}, {"b", 5, {0}, {}}};
  graph.buffers = {{0, 10, 0, false, {}}, {0, 10, 1, false, {}}};
  CHECK(simulate(graph, {0, 5}).error == "");
  CHECK(simulate(graph, {0, 5}).peak[0] == 10);
}
