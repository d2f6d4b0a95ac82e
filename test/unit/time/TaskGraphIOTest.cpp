#include "strategies/time/TaskGraphIO.h"

#include <catch2/catch.hpp>

using namespace tessera::strategies;
using Catch::Contains;

static std::string errorOf(const std::string &text) {
  std::string error;
  CHECK(!parseTaskGraph(text, "file.json", error));
  CHECK_THAT(error, Catch::StartsWith("file.json: "));
  return error;
}

TEST_CASE("a task graph comes back from its file") {
  TaskGraph graph;
  graph.resources = {"rank 0", "link"};
  graph.pools = {{"rank 0", 64}, {"host", -1}};
  graph.tasks = {{"a", 10, {0}, {}}, {"b", 30, {1, 0}, {{0, 0}}}, {"c", 0, {}, {{1, 7}, {0, 0}}}};
  graph.buffers = {{0, 16, 0, false, {1, 2}}, {1, 8, 1, true, {}}};
  std::string error;
  std::optional<TaskGraph> again = parseTaskGraph(toJson(graph), "again", error);
  REQUIRE(again);
  CHECK(toJson(*again) == toJson(graph));
  CHECK(again->tasks[2].needs[0].lag == 7);
  CHECK(again->buffers[1].fromEnd);
  CHECK(again->pools[1].limit < 0);
}

TEST_CASE("a bad file is one sentence") {
  CHECK_THAT(errorOf("{"), Contains("is no JSON"));
  CHECK_THAT(errorOf("[]"), Contains("is no object"));
  CHECK_THAT(errorOf(std::string(100, '[') + std::string(100, ']')), Contains("nested too deeply"));
  CHECK_THAT(errorOf(R"({"tasks": {}})"), Contains("'tasks' is no list"));
  CHECK_THAT(errorOf(R"({"tasks": [{"duration": 1.5}]})"), Contains("task 0: 'duration' is no whole number"));
  CHECK_THAT(errorOf(R"({"tasks": [{"duration": -1}]})"), Contains("the duration -1 is negative or too large"));
  CHECK_THAT(errorOf(R"({"tasks": [{"duration": 9223372036854775807}]})"), Contains("too large"));
  CHECK_THAT(errorOf(R"({"tasks": [{"duration": 18446744073709551615}]})"), Contains("no whole number"));
  CHECK_THAT(errorOf(R"({"tasks": [{"resources": [0]}]})"), Contains("there is no resource 0"));
  CHECK_THAT(errorOf(R"({"resources": ["r"], "tasks": [{"resources": [0, 0]}]})"), Contains("twice"));
  CHECK_THAT(errorOf(R"({"tasks": [{"needs": [3]}]})"), Contains("there is no task 3"));
  CHECK_THAT(errorOf(R"({"tasks": [{"name": "a", "needs": [1]}, {"needs": [0]}]})"), Contains("'a' needs itself"));
  CHECK_THAT(errorOf(R"({"tasks": [{}], "buffers": [{"pool": 0, "maker": 0}]})"), Contains("there is no pool 0"));
  CHECK_THAT(
      errorOf(
          R"({"pools": [{"limit": 3}], "tasks": [{"name": "a"}], "buffers": [{"pool": 0, "bytes": 4, "maker": 0}]})"),
      Contains("'a' alone takes more than the 3 bytes"));
  CHECK_THAT(errorOf(R"({"pools": [{}], "tasks": [{"name": "a"}, {"name": "b"}], )"
                     R"("buffers": [{"pool": 0, "maker": 0, "users": [1]}]})"),
             Contains("'b' uses it without needing its maker 'a'"));
  CHECK_THAT(errorOf(R"({"pools": [{"limit": -3}]})"), Contains("the limit is negative"));
  CHECK_THAT(errorOf(R"({"tasks": [{}], "buffers": [{"maker": 0}]})"), Contains("buffer 0: 'pool' is missing"));
}
