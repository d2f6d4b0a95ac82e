// Schedulers and the bound are compared with every order of small problems, and with pipelines whose optima are
// proven.
#include "strategies/time/Schedule.h"
#include "strategies/time/Bound.h"
#include "strategies/time/Decode.h"
#include "strategies/time/Simulate.h"
#include "strategies/time/TaskGraphIO.h"
#include "test/unit/time/SmallGraphs.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <random>

using namespace tessera::strategies;

namespace {

/// The pipeline's tasks in the form of ../../../strategies/time/TaskGraph.h.
TaskGraph pipeline(const nlohmann::json &json) {
  const int stages = json["p"], batches = json["m"];
  TaskGraph graph;
  auto id = [&](int kind, int stage, int batch) { return (kind * stages + stage) * batches + batch; };
  auto of = [&](const char *key, int stage) { return json[key][size_t(stage)].get<int64_t>(); };
  const char *kinds[] = {"F", "B", "W"};
  graph.tasks.resize(size_t(3 * stages * batches));
  for (int s = 0; s < stages; ++s) {
    graph.resources.push_back("stage " + std::to_string(s));
    graph.pools.push_back({"stage " + std::to_string(s), of("limit", s)});
    for (int b = 0; b < batches; ++b) {
      for (int kind = 0; kind < 3; ++kind) {
        Task task{kinds[kind] + std::to_string(s) + "." + std::to_string(b), of(kinds[kind], s), {s}, {}};
        if (kind > 0)
          task.needs.push_back({id(kind - 1, s, b)});
        if (kind == 0 && s > 0)
          task.needs.push_back({id(0, s - 1, b), of("comm", s - 1)});
        if (kind == 1 && s + 1 < stages)
          task.needs.push_back({id(1, s + 1, b), of("comm", s)});
        if (b > 0) // micro-batches are alike
          task.needs.push_back({id(kind, s, b - 1)});
        graph.tasks[size_t(id(kind, s, b))] = std::move(task);
      }
      graph.buffers.push_back({s, of("act", s), id(0, s, b), false, {id(1, s, b)}});
      graph.buffers.push_back({s, of("wact", s), id(1, s, b), true, {id(2, s, b)}});
    }
  }
  return graph;
}

} // namespace

TEST_CASE("small problems are solved as well as by trying every order") {
  std::mt19937 random(7);
  int solved = 0, proven = 0;
  for (int i = 0; i < 300; ++i) {
    TaskGraph graph = randomGraph(random, 3 + i % 4);
    if (!checkTaskGraph(graph).empty())
      continue;
    std::vector<int> placed;
    StartTimes start(graph.tasks.size());
    int64_t best = bestOfAll(graph, placed, start, -1);
    Schedule found = schedule(graph, {.work = 0.0005});
    INFO("problem " << i);
    if (best < 0) {
      CHECK(found.start.empty());
      continue;
    }
    CHECK(found.lowerBound <= best);
    INFO(toJson(graph) << " best " << best);
    REQUIRE(!found.start.empty());
    Timeline line = simulate(graph, found.start);
    CHECK(line.error == "");
    CHECK(line.makespan == found.makespan);
    CHECK(found.makespan >= best);
    CHECK((found.given < 0 || found.given >= found.makespan));
    ++solved;
    proven += found.makespan == best;
  }
  CHECK(solved > 200);
  // Tasks without a resource are never delayed, and what a task makes at its end is set aside from its start, unless
  // it frees as much: that costs the optimum now and then.
  CHECK(100 * proven >= 98 * solved);
}

TEST_CASE("pipelines reach their proven optima") {
  std::ifstream file(TESSERA_TEST_DIR "/pipelines.json");
  nlohmann::json instances = nlohmann::json::parse(file);
  REQUIRE(instances.size() == 20);
  int reached = 0;
  for (const auto &instance : instances) {
    TaskGraph graph = pipeline(instance);
    INFO(instance["name"]);
    REQUIRE(checkTaskGraph(graph) == "");
    const auto best = instance["best"].get<int64_t>();
    Schedule found = schedule(graph, {.work = 0.05});
    REQUIRE(simulate(graph, found.start).error == "");
    CHECK(found.lowerBound <= best);
    CHECK(found.makespan >= best);
    CHECK(double(found.makespan) <= 1.02 * double(best));
    reached += found.makespan == best;
  }
  CHECK(reached >= 18);
}

TEST_CASE("the same options give the same schedule, and a stop ends it") {
  std::mt19937 random(3);
  TaskGraph graph;
  do
    graph = randomGraph(random, 30);
  while (!checkTaskGraph(graph).empty() || schedule(graph, {.work = 0}).start.empty());
  CHECK(schedule(graph, {.work = 0.01}).start == schedule(graph, {.work = 0.01}).start);
  std::atomic<bool> stop = true;
  Schedule found = schedule(graph, {.work = 1000, .stop = &stop});
  CHECK(simulate(graph, found.start).error == "");
}

TEST_CASE("what takes long does not begin just before something urgent") {
  TaskGraph graph;
  graph.resources = {"processor", "link"};
  graph.tasks = {{"gradient", 10, {0}, {}},
                 {"its sum", 100, {1}, {{0}}},
                 {"statistic", 15, {0}, {{0}}},
                 {"its sum", 5, {1}, {{2}}},
                 {"the rest", 100, {0}, {{3}}}};
  const std::vector<int64_t> tails = {130, 100, 120, 105, 100};
  Decoder decoder(graph);
  REQUIRE(decoder.greedy(tails));
  CHECK(decoder.makespan() == 215);
  REQUIRE(decoder.run(insertedOrders(graph, tails)));
  CHECK(decoder.start() == StartTimes{0, 30, 10, 25, 30});
}

TEST_CASE("inserted tasks keep the rules, and fill the gaps between those that came first") {
  std::mt19937 random(23);
  int better = 0, worse = 0;
  for (int round = 0; round < 500; ++round) {
    TaskGraph graph = randomGraph(random, 5 + int(random() % 30));
    graph.buffers.clear();
    std::vector<int64_t> priorities;
    for (size_t t = 0; t < graph.tasks.size(); ++t)
      priorities.push_back(int64_t(random() % 20));
    Decoder decoder(graph);
    REQUIRE(decoder.run(insertedOrders(graph, priorities)));
    CHECK(simulate(graph, decoder.start()).error.empty());
    const int64_t inserted = decoder.makespan();
    REQUIRE(decoder.greedy(priorities));
    better += inserted < decoder.makespan();
    worse += inserted > decoder.makespan();
  }
  CHECK(better > 40);
  CHECK(worse < 400);
}

TEST_CASE("what starts early leaves memory for what comes first") {
  TaskGraph graph;
  graph.resources = {"processor", "link"};
  graph.pools = {{"memory", 10}};
  graph.tasks = {{"first", 10, {0}, {}},
                 {"second", 10, {0}, {{0}}},
                 {"third", 10, {0}, {{1}}},
                 {"fetch", 10, {1}, {}},
                 {"fourth", 10, {0}, {{2}, {3}}}};
  graph.buffers = {{0, 4, 0, false, {1}}, {0, 6, 1, false, {2}}, {0, 4, 3, false, {4}}};
  Decoder decoder(graph);
  const std::vector<int64_t> priorities = {5, 4, 3, 2, 1};
  CHECK(!decoder.greedy(priorities)); // beside the first task; then nothing is left for the second
  REQUIRE(decoder.cautious(priorities, taskOrder(graph)));
  CHECK(decoder.start() == StartTimes{0, 10, 20, 20, 30});
  graph.pools[0].limit = 9; // the second task needs 10
  CHECK(!Decoder(graph).cautious(priorities, taskOrder(graph)));
}

TEST_CASE("a cautious schedule ends wherever one task after the other fits") {
  std::mt19937 random(17);
  int stuck = 0;
  for (int round = 0; round < 2000; ++round) {
    TaskGraph graph = randomGraph(random, 3 + int(random() % 12));
    for (MemoryPool &pool : graph.pools)
      pool.limit = -1;
    const std::vector<int> order = taskOrder(graph);
    StartTimes inLine(graph.tasks.size());
    int64_t end = 0;
    for (int t : order) {
      for (const Need &need : graph.tasks[size_t(t)].needs)
        end = std::max(end, inLine[size_t(need.task)] + graph.tasks[size_t(need.task)].duration + need.lag);
      inLine[size_t(t)] = end;
      end += graph.tasks[size_t(t)].duration;
    }
    TaskGraph early = graph; // what a task makes at its end counts from its start on
    for (TaskBuffer &buffer : early.buffers)
      buffer.fromEnd = false;
    const std::vector<int64_t> peak = simulate(early, inLine).peak;
    std::vector<int64_t> priorities;
    for (size_t t = 0; t < graph.tasks.size(); ++t)
      priorities.push_back(int64_t(random() % 20));
    for (size_t pool = 0; pool < peak.size(); ++pool)
      graph.pools[pool].limit = peak[pool];
    Decoder decoder(graph);
    stuck += !decoder.greedy(priorities);
    REQUIRE(decoder.cautious(priorities, order));
    CHECK(simulate(graph, decoder.start()).error.empty());
    if (peak[0] == 0)
      continue;
    --graph.pools[0].limit;
    CHECK(!Decoder(graph).cautious(priorities, order));
  }
  CHECK(stuck > 20);
}
