// Orders with names: closed forms, and the figures that were published for them.
#include "strategies/pipeline/NamedOrders.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

using namespace tessera::strategies;

namespace {

/// Of the device that takes longest, from its first task to its last.
int64_t idle(const Pipeline &pipeline, const PipelineOrder &order, int64_t work) {
  const PipelineRun run = runInOrder(pipeline, order);
  CHECK(run.error == "");
  return run.longestSpan - work;
}

/// The part of the longest span in which nothing is done.
double bubble(const Pipeline &pipeline, const PipelineOrder &order, double work) {
  const PipelineRun run = runInOrder(pipeline, order);
  CHECK(run.error == "");
  return (double(run.longestSpan) - work) / double(run.longestSpan);
}

} // namespace

TEST_CASE("idle time of equal stages is what the papers say") {
  constexpr int64_t t = 12; // of every action
  for (int p = 1; p <= 8; ++p)
    for (int m = 2 * p; m <= 6 * p; ++m) {
      INFO(p << " devices, " << m << " micro-batches");
      EvenPipeline even{.devices = p, .microBatches = m, .forward = t, .input = t, .weight = t, .held = 60, .kept = 60};
      const Pipeline parted = evenPipeline(even), whole = withWholeBackward(parted);
      const int64_t work = 3 * t * m;
      CHECK(idle(whole, gpipe(whole), work) == (p - 1) * 3 * t);
      CHECK(idle(whole, oneForwardOneBackward(whole), work) == (p - 1) * 3 * t);
      CHECK(idle(parted, zeroBubble1(parted), work) == (p - 1) * t);
      CHECK(idle(parted, zeroBubble2(parted), work) == 0);
      CHECK(runInOrder(whole, gpipe(whole)).peak[0] == 60 * m);
      CHECK(runInOrder(whole, oneForwardOneBackward(whole)).peak[0] == 60 * p);
      CHECK(runInOrder(parted, zeroBubble1(parted)).peak[0] == 60 * p);
      CHECK(runInOrder(parted, zeroBubble2(parted)).peak[0] == 60 * (2 * p - 1));
      even.chunks = 2;
      even.returns = true;
      const Pipeline there = evenPipeline(even);
      CHECK(idle(there, zeroBubbleV(there), work) == 0);
      CHECK(runInOrder(there, zeroBubbleV(there)).peak[0] == 60 * p);
    }
}

TEST_CASE("idle time and memory of equal stages, several on a device, are what the paper says") {
  constexpr int64_t t = 12; // of every action of a device
  for (int p = 1; p <= 8; ++p)
    for (int m = p; m <= 6 * p; m += p)
      for (int v : {2, 3, 4, 6}) {
        INFO(p << " devices, " << m << " micro-batches, " << v << " stages on each");
        const Pipeline parted = evenPipeline({.devices = p,
                                              .microBatches = m,
                                              .chunks = v,
                                              .forward = t,
                                              .input = t,
                                              .weight = t,
                                              .held = 60,
                                              .kept = 60});
        const Pipeline whole = withWholeBackward(parted);
        CHECK(idle(whole, interleaved(whole), 3 * t * m) == (p - 1) * 3 * t / v);
        CHECK(runInOrder(whole, interleaved(whole)).peak[0] == std::min(60 * m, 60 * p + 60 * (p - 1) / v));
      }
}

TEST_CASE("few micro-batches take their number and the stages behind") {
  for (int p = 1; p <= 8; ++p)
    for (int m = 1; m <= p; ++m) {
      const Pipeline parted = evenPipeline({.devices = p, .microBatches = m, .forward = 7, .input = 9, .weight = 4});
      const Pipeline whole = withWholeBackward(parted);
      CHECK(runInOrder(whole, oneForwardOneBackward(whole)).makespan == (m + p - 1) * 20);
      CHECK(runInOrder(parted, zeroBubble1(parted)).makespan <= (m + p - 1) * 16 + 4 * m);
    }
}

TEST_CASE("published idle times of networks on A100") {
  std::ifstream file(TESSERA_TEST_DIR "/zero_bubble.json");
  for (const nlohmann::json &row : nlohmann::json::parse(file)) {
    INFO(row["model"] << ", " << row["m"] << " micro-batches");
    auto ns = [&](const char *key) { return int64_t(std::llround(row[key].get<double>() * 1e6)); };
    EvenPipeline even{.devices = row["p"],
                      .microBatches = row["m"],
                      .forward = ns("F"),
                      .input = ns("B"),
                      .weight = ns("W"),
                      .transfer = ns("comm")};
    const Pipeline parted = evenPipeline(even), whole = withWholeBackward(parted);
    const double work = double(even.microBatches) * double(even.forward + even.input + even.weight);
    const nlohmann::json &known = row["bubble"];
    CHECK(std::abs(bubble(whole, oneForwardOneBackward(whole), work) - known["1f1b"].get<double>()) < 1e-4);
    CHECK(std::abs(bubble(parted, zeroBubble1(parted), work) - known["zb-h1"].get<double>()) < 1e-4);
    CHECK(std::abs(bubble(parted, zeroBubble2(parted), work) - known["zb-h2"].get<double>()) < 1e-4);
    even.chunks = row["chunks"];
    Pipeline chunked = withWholeBackward(evenPipeline(even));
    for (size_t s = 0; s < chunked.transfers.size(); ++s)
      if (chunked.stages[s + 1].device < chunked.stages[s].device)
        chunked.transfers[s] = 0; // the paper's own simulation has none from the last device to the first
    CHECK(std::abs(bubble(chunked, interleaved(chunked), work) - known["interleaved"].get<double>()) < 0.004);
  }
}

TEST_CASE("what a device holds of its chunks at once") {
  // zb-v of two devices: the first runs ahead on the way there, or has one micro-batch back.
  const EvenPipeline v{.devices = 2, .microBatches = 4, .chunks = 2, .returns = true, .forward = 2};
  using Moments = std::vector<std::vector<int>>;
  CHECK(mostHeld(evenPipeline(v), zeroBubbleV(evenPipeline(v))) ==
        std::vector<Moments>{{{3, 1}, {4, 0}}, {{2, 2}, {3, 1}}});
  for (int devices : {2, 3, 4})
    for (bool returns : {false, true}) {
      const Pipeline pipeline = evenPipeline(
          {.devices = devices, .microBatches = 4 * devices, .chunks = 2, .returns = returns, .forward = 2});
      for (const NamedOrder &named : namedOrders(pipeline)) {
        INFO(named.name << " on " << devices);
        const std::vector<Moments> held = mostHeld(pipeline, named.order);
        const std::vector<int> most = mostInFlight(pipeline, named.order);
        for (size_t d = 0; d < held.size(); ++d) {
          int largest = 0;
          for (const std::vector<int> &moment : held[d])
            largest = std::max(largest, moment[0] + moment[1]);
          CHECK(largest == most[d]);
        }
      }
    }
  // One chunk: one number.
  const Pipeline plain = evenPipeline({.devices = 3, .microBatches = 6, .forward = 2});
  CHECK(mostHeld(plain, oneForwardOneBackward(plain)) == std::vector<Moments>{{{3}}, {{2}}, {{1}}});
}

TEST_CASE("an order that cannot be is told in a sentence") {
  const Pipeline pipeline = evenPipeline({.devices = 2, .microBatches = 2, .forward = 1, .input = 1, .weight = 1});
  PipelineOrder order = zeroBubble1(pipeline);
  REQUIRE(runInOrder(pipeline, order).error == "");
  PipelineOrder bad = order;
  std::swap(bad[1][0], bad[1][1]);
  CHECK(runInOrder(pipeline, bad).error == "device 0 waits for ever before input of micro-batch 0 in stage 0");
  bad = order;
  bad[0].pop_back();
  CHECK(runInOrder(pipeline, bad).error == "the order has 11 of 12 tasks");
  bad = order;
  bad[0].push_back(bad[0].front());
  CHECK(runInOrder(pipeline, bad).error == "forward of micro-batch 0 in stage 0 comes twice");
  bad = order;
  bad[0][0].stage = 1;
  CHECK(runInOrder(pipeline, bad).error == "forward of micro-batch 0 in stage 1 is not a task of device 0");
  Pipeline wrong = pipeline;
  wrong.transfers.clear();
  CHECK(checkPipeline(wrong) == "2 stages need 1 transfers, not 0");
  wrong = pipeline;
  wrong.stages[1].device = 2;
  CHECK(checkPipeline(wrong) == "stage 1 lies on device 2, which does not exist");
}
