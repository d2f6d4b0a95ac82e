// No schedule is shorter than the bound, and what knows of resources comes nearer than the longest paths.
#include "strategies/time/Bound.h"
#include "strategies/time/Decode.h"
#include "strategies/time/RaisePaths.h"
#include "test/unit/time/SmallGraphs.h"

#include <catch2/catch.hpp>

using namespace tessera::strategies;

namespace {

int64_t bestOfAll(const TaskGraph &graph) {
  std::vector<int> placed;
  StartTimes start(graph.tasks.size());
  return bestOfAll(graph, placed, start, -1);
}

/// Two kernels, and two messages that need both.
TaskGraph twoAndTwo() {
  TaskGraph graph;
  graph.resources = {"processor", "link"};
  graph.tasks = {{"a", 10, {0}, {}}, {"b", 10, {0}, {}}, {"c", 10, {1}, {{0}, {1}}}, {"d", 10, {1}, {{0}, {1, 3}}}};
  return graph;
}

} // namespace

TEST_CASE("what comes before a task on one resource comes one after the other") {
  TaskGraph graph = twoAndTwo();
  const Paths paths = raisedPaths(graph);
  CHECK(paths.head == std::vector<int64_t>{0, 0, 20, 20}); // d: 3 behind b, which may be the first
  CHECK(paths.tail == std::vector<int64_t>{30, 30, 10, 10});
  CHECK(lowerBound(graph) == 40);
  CHECK(bestOfAll(graph) == 40);
  // Behind a start that waits, and with a task between the resource and what needs it.
  graph.tasks[0].needs.push_back({4, 5});
  graph.tasks[1].needs.push_back({4, 7});
  graph.tasks.push_back({"start", 2, {}, {}});
  graph.tasks.push_back({"between", 4, {}, {{2}, {3}}});
  graph.tasks.push_back({"end", 1, {}, {{5}}});
  const Paths more = raisedPaths(graph);
  CHECK(more.head == std::vector<int64_t>{7, 9, 27, 27, 0, 47, 51});
  CHECK(lowerBound(graph) == 52);
  CHECK(bestOfAll(graph) == 52);
}

TEST_CASE("of the tasks before a task the late ones may say more than all") {
  TaskGraph graph;
  graph.resources = {"processor", "link"};
  graph.tasks = {{"first", 1, {0}, {}},         {"message", 50, {1}, {{0}}},       {"a", 10, {0}, {{1}}},
                 {"b", 10, {0}, {{1}}},         {"their sum", 5, {1}, {{2}, {3}}}, {"another", 5, {1}, {{2}, {3}}},
                 {"update", 1, {0}, {{4}, {5}}}};
  CHECK(raisedPaths(graph).head[4] == 71); // with the first, whose head is 0, all of the processor takes 21
  CHECK(lowerBound(graph) == bestOfAll(graph));
}

TEST_CASE("no order of a small problem is shorter than the bound") {
  std::mt19937 random(11);
  int solved = 0, reached = 0, higher = 0;
  for (int i = 0; i < 1500; ++i) {
    TaskGraph graph = randomGraph(random, 4 + i % 4);
    if (i % 2) // without limits of memory
      graph.buffers.clear();
    if (!checkTaskGraph(graph).empty())
      continue;
    const int64_t best = bestOfAll(graph);
    if (best < 0)
      continue;
    INFO("problem " << i);
    const int64_t bound = lowerBound(graph);
    CHECK(bound <= best);
    const Paths before = longestPaths(graph), after = raisedPaths(graph);
    bool raises = false;
    for (size_t t = 0; t < graph.tasks.size(); ++t) {
      CHECK(after.head[t] >= before.head[t]);
      CHECK(after.tail[t] >= before.tail[t]);
      CHECK(after.head[t] + after.tail[t] <= best);
      raises |= after.head[t] > before.head[t] || after.tail[t] > before.tail[t];
    }
    ++solved;
    reached += bound == best;
    higher += raises;
  }
  CHECK(solved > 1400);
  CHECK(higher > 500);
  CHECK(solved - reached < 125); // by the longest paths alone 137 are missed
}

TEST_CASE("of large problems, too, heads and tails hold in every schedule") {
  std::mt19937 random(5);
  for (int tasks : {300, 6000}) { // of which 2 and 64 are looked at together
    TaskGraph graph;
    graph.resources = {"processor", "link", "another link"};
    for (int t = 0; t < tasks; ++t) {
      const int resource = random() % 3 ? 0 : 1 + int(random() % 2);
      Task task{"", 1 + int64_t(random() % 9), {resource}, {}};
      for (int i = 0; i < 3 && t > 0; ++i)
        task.needs.push_back({std::max(0, t - 1 - int(random() % 20)), random() % 4 ? 0 : int64_t(random() % 3)});
      graph.tasks.push_back(std::move(task));
    }
    REQUIRE(checkTaskGraph(graph).empty());
    const Paths before = longestPaths(graph), paths = raisedPaths(graph);
    Decoder decoder(graph);
    REQUIRE(decoder.greedy(before.tail));
    size_t broken = 0, higher = 0;
    for (size_t t = 0; t < graph.tasks.size(); ++t) {
      broken += decoder.start()[t] < paths.head[t] || decoder.start()[t] + paths.tail[t] > decoder.makespan();
      higher += paths.head[t] > before.head[t] && paths.tail[t] > before.tail[t];
    }
    CHECK(broken == 0);
    CHECK(higher > graph.tasks.size() / 2);
    CHECK(lowerBound(graph) <= decoder.makespan());
  }
}

TEST_CASE("a graph that would take too long keeps its paths") {
  TaskGraph graph = twoAndTwo();
  while (graph.tasks.size() < 100'000)
    graph.tasks.push_back({"", 1, {0}, {{int(graph.tasks.size()) - 1}}});
  CHECK(raisedPaths(graph).head == longestPaths(graph).head);
}
