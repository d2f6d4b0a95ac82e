// Orders that are searched: kept to every rule, never worse than those with names, and as good as what was published.
#include "strategies/pipeline/FindOrder.h"
#include "strategies/pipeline/NamedOrders.h"
#include "strategies/pipeline/OrderBound.h"
#include "strategies/time/Simulate.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

using namespace tessera::strategies;
using Json = nlohmann::json;

namespace {

Json read(const std::string &name) {
  std::ifstream file(TESSERA_TEST_DIR "/" + name);
  return Json::parse(file);
}

/// The judge's view of what was found.
void check(const Pipeline &pipeline, const FoundOrder &found) {
  const TaskGraph graph = pipelineTasks(pipeline);
  REQUIRE(checkTaskGraph(graph) == "");
  const Timeline line = simulate(graph, found.run.start);
  CHECK(line.error == "");
  CHECK(line.makespan == found.run.makespan);
  CHECK(line.peak == found.run.peak);
}

} // namespace

TEST_CASE("pipelines with limits of memory reach their proven optima") {
  int reached = 0, instances = 0;
  for (const Json &instance : read("../time/pipelines.json")) {
    INFO(instance["name"]);
    Pipeline pipeline;
    pipeline.devices = instance["p"];
    pipeline.microBatches = instance["m"];
    for (int s = 0; s < pipeline.devices; ++s) {
      auto of = [&](const char *key) { return instance[key][size_t(s)].get<int64_t>(); };
      pipeline.stages.push_back({s, of("F"), of("B"), of("W"), of("act"), of("wact")});
      pipeline.limits.push_back(of("limit"));
      if (s + 1 < pipeline.devices)
        pipeline.transfers.push_back(of("comm"));
    }
    const FoundOrder found = findOrder(pipeline, Goal::Makespan);
    REQUIRE(!found.order.empty());
    check(pipeline, found);
    const auto best = instance["best"].get<int64_t>();
    CHECK(found.lowerBound <= best);
    CHECK(found.run.makespan >= best);
    CHECK(double(found.run.makespan) <= 1.01 * double(best));
    reached += found.run.makespan == best;
    ++instances;
  }
  CHECK(instances == 20);
  CHECK(reached >= 18);
}

TEST_CASE("in the memory of zb-1p and zb-2p nothing more is idle than was published") {
  for (const Json &row : read("zero_bubble.json")) {
    INFO(row["model"] << ", " << row["m"] << " micro-batches");
    auto ns = [&](const char *key) { return int64_t(std::llround(row[key].get<double>() * 1e6)); };
    // What a layer keeps, per number of sequence, micro-batch and width: 34 + 5 a s / h, and 32 for the Weight action.
    constexpr int64_t held = 1'000'000;
    const double perNumber = 34 + 5 * row["heads"].get<double>() * 1024 / row["hidden"].get<double>();
    const int p = row["p"];
    Pipeline pipeline = evenPipeline({.devices = p,
                                      .microBatches = row["m"],
                                      .forward = ns("F"),
                                      .input = ns("B"),
                                      .weight = ns("W"),
                                      .transfer = ns("comm"),
                                      .held = held,
                                      .kept = int64_t(double(held) * 32 / perNumber)});
    const PipelineStage &stage = pipeline.stages[0];
    const double work = double(pipeline.microBatches) * double(stage.forward + stage.input + stage.weight);
    for (int times : {1, 2}) {
      pipeline.limits.assign(size_t(p), times * p * held);
      const FoundOrder found = findOrder(pipeline, Goal::LongestSpan);
      REQUIRE(!found.order.empty());
      check(pipeline, found);
      const double idle = (double(found.run.longestSpan) - work) / double(found.run.longestSpan);
      // The paper has four digits, and does not say what memory a Weight action holds.
      CHECK(idle <= row["bubble"]["zb-" + std::to_string(times) + "p"].get<double>() + 1.5e-4);
    }
  }
}

TEST_CASE("the bound counts the way to the last stage and back") {
  for (int p : {1, 2, 4, 7})
    for (int m : {p, p + 3, 4 * p}) {
      INFO(p << " stages, " << m << " micro-batches");
      Pipeline pipeline =
          evenPipeline({.devices = p, .microBatches = m, .forward = 5, .input = 5, .weight = 5, .held = 2});
      pipeline.limits.assign(size_t(p), 2 * p);
      CHECK(spanBound(pipeline) == 15 * m + 5 * (p - 1));
      CHECK(runInOrder(pipeline, zeroBubble1(pipeline)).longestSpan == spanBound(pipeline));
      pipeline.limits.assign(size_t(p), 2);
      CHECK(spanBound(pipeline) == 15 * m + 10 * (p - 1));
      pipeline.limits.assign(size_t(p), -1);
      CHECK(spanBound(pipeline) == 15 * m + std::max(0, 10 * p - 5 - 5 * m));
    }
}

TEST_CASE("uneven pipelines: no worse than any order with a name") {
  std::mt19937 random(5);
  auto upTo = [&](int most) { return int64_t(random() % unsigned(most)); };
  for (int i = 0; i < 24; ++i) {
    Pipeline pipeline;
    pipeline.devices = 1 + int(upTo(5));
    pipeline.microBatches = 1 + int(upTo(12));
    const int chunks = 1 + int(upTo(3));
    for (int s = 0; s < pipeline.devices * chunks; ++s) {
      pipeline.stages.push_back({s % pipeline.devices, 1 + upTo(20), 1 + upTo(20), upTo(20), upTo(50), upTo(50)});
      if (s > 0)
        pipeline.transfers.push_back(upTo(10));
    }
    pipeline.limits.assign(size_t(pipeline.devices), -1);
    INFO("pipeline " << i);
    for (Goal goal : {Goal::Makespan, Goal::LongestSpan}) {
      const FoundOrder found = findOrder(pipeline, goal);
      REQUIRE(!found.order.empty());
      check(pipeline, found);
      const int64_t value = goal == Goal::Makespan ? found.run.makespan : found.run.longestSpan;
      CHECK(found.lowerBound <= value);
      if (chunks == 1)
        for (auto *named : {gpipe, oneForwardOneBackward, zeroBubble1, zeroBubble2}) {
          const PipelineRun run = runInOrder(pipeline, named(pipeline));
          CHECK(value <= (goal == Goal::Makespan ? run.makespan : run.longestSpan));
        }
      CHECK(findOrder(pipeline, goal).run.start == found.run.start);
    }
    // A limit below what one micro-batch takes: nothing fits. A limit that fits is kept.
    int64_t one = 0;
    for (const PipelineStage &stage : pipeline.stages)
      if (stage.device == 0)
        one += std::max(stage.held, stage.kept);
    pipeline.limits[0] = pipeline.stages[0].held - 1;
    if (pipeline.limits[0] >= 0)
      CHECK(findOrder(pipeline, Goal::Makespan).order.empty());
    pipeline.limits[0] = one;
    const FoundOrder found = findOrder(pipeline, Goal::Makespan);
    if (chunks == 1)
      REQUIRE(!found.order.empty());
    if (!found.order.empty()) {
      check(pipeline, found);
      CHECK(found.lowerBound <= found.run.makespan);
    }
  }
}
