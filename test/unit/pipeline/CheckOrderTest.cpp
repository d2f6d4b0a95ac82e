// Orders that somebody wrote: read, and refused with the line and what helps.
#include "strategies/pipeline/CheckOrder.h"
#include "strategies/pipeline/NamedOrders.h"
#include "strategies/pipeline/PipelineIO.h"

#include <catch2/catch.hpp>

#include <random>

using namespace tessera::strategies;

namespace {

const Pipeline kPipeline = evenPipeline({.devices = 2, .microBatches = 2});

PipelineOrder readOrder(const std::string &text) {
  std::string error;
  const std::optional<PipelineOrder> order = parseOrder(text, "o.csv", error);
  REQUIRE(order);
  return *order;
}

/// What is wrong with a file: of its form, or with the order for two devices and two micro-batches.
std::string errorOf(const std::string &text) {
  std::string error;
  const std::optional<PipelineOrder> order = parseOrder(text, "o.csv", error);
  return order ? checkOrder(kPipeline, *order, "o.csv") : error;
}

} // namespace

TEST_CASE("an order is read as it is written, with blanks, empty cells and whole backward passes") {
  for (const NamedOrder &named : namedOrders(kPipeline)) {
    const std::string text = toCsv(named.order);
    CHECK(toCsv(readOrder(text)) == text);
    CHECK(errorOf(text) == "");
  }
  CHECK(toCsv(readOrder("0F0, 0F1 ,,\t0B0,0B1\r\n1F0,1B0,1F1,1B1\r\n\n")) ==
        "0F0,0F1,0I0,0W0,0I1,0W1\n1F0,1I0,1W0,1F1,1I1,1W1\n");
}

TEST_CASE("what is no order is told with its line and what to write") {
  const std::string remedy = "' is no task; write 2F0 for the forward pass of micro-batch 0 in stage 2, 2I0 for the "
                             "gradients of its inputs, 2W0 for those of its weights";
  for (const char *cell : {"F", "0F", "F0", "0X0", "0F0x", "-1F0", "0F-1", "0f0", "0 F0", "9999999F0", "0F99999999"})
    CHECK(errorOf("0F0\n" + std::string(cell)) == "o.csv: line 2: '" + std::string(cell) + remedy);
  CHECK(errorOf(std::string(1000, '7')).size() < 250);
  for (const char *text : {"", "\n", "0F0\n\n1F0", "0F0\n,,", " "})
    CHECK(errorOf(text).find(" has no task; write a line for each place of the axis 'stage'") != std::string::npos);
}

TEST_CASE("an order that a pipeline cannot run in is told with its line and what helps") {
  const std::string first = "0F0,0F1,0I0,0W0,0I1,0W1", second = "1F0,1I0,1W0,1F1,1I1,1W1";
  CHECK(errorOf(first + "\n" + second) == "");
  CHECK(errorOf(first) == "o.csv: has 1 line for 2 places of the axis 'stage'; write a line for each");
  CHECK(errorOf(second + "\n" + first) == "o.csv: line 1: 1F0 is of stage 1, whose tasks belong in line 2");
  CHECK(errorOf(first + ",2F0\n" + second) == "o.csv: line 1: 2F0 is of stage 2; there are the stages 0 to 1");
  CHECK(errorOf(first + "\n" + second + ",1F2") ==
        "o.csv: line 2: 1F2 is of micro-batch 2; the step has the micro-batches 0 to 1 (--accumulate)");
  CHECK(errorOf(first + ",0W1\n" + second) == "o.csv: line 1: 0W1 comes twice; leave one out");
  CHECK(errorOf("0F0,0F1,0I0,0W0,0I1\n" + second) ==
        "o.csv: line 1: 0W1 is missing; every stage does F, I and W once for each of the 2 micro-batches");
  CHECK(errorOf("0F1,0F0,0I0,0W0,0I1,0W1\n" + second) ==
        "o.csv: line 1: 0F1 comes before 0F0; an action of a stage takes the micro-batches in order, each once");
  CHECK(errorOf(first + "\n1I0,1F0,1W0,1F1,1I1,1W1") ==
        "o.csv: line 2: 1I0 comes before 1F0, which it needs; put it behind");
  CHECK(errorOf(first + "\n1F0,1W0,1I0,1F1,1I1,1W1") ==
        "o.csv: line 2: 1W0 comes before 1I0, which it needs; put it behind");
  // Each line is right for itself: stage 0 wants the gradient of micro-batch 0 before it sends micro-batch 1, and
  // stage 1 wants both micro-batches before it sends a gradient.
  CHECK(errorOf("0F0,0I0,0W0,0F1,0I1,0W1\n1F0,1F1,1I0,1W0,1I1,1W1") ==
        "o.csv: the lines wait for each other for ever: line 1 at 0I0 for 1I0, line 2 at 1F1 for 0F1; move one of them "
        "behind what the others need of its line");
}

TEST_CASE("an order is refused if and only if it does not run") {
  // Random changes of good orders: what checkOrder lets pass runs, and what it refuses for its waiting does not.
  std::mt19937 random(3);
  const Pipeline pipeline = evenPipeline({.devices = 3, .microBatches = 4, .forward = 3, .input = 2, .weight = 1});
  size_t good = 0, bad = 0;
  for (int i = 0; i < 3000; ++i) {
    PipelineOrder order = i % 2 ? oneForwardOneBackward(pipeline) : zeroBubble2(pipeline);
    for (unsigned changes = random() % 4; changes > 0; --changes) {
      auto &tasks = order[random() % 3];
      const size_t from = random() % tasks.size(), to = random() % tasks.size();
      const PipelineTask task = tasks[from];
      tasks.erase(tasks.begin() + int64_t(from));
      tasks.insert(tasks.begin() + int64_t(to), task);
    }
    const std::string error = checkOrder(pipeline, order, "o.csv");
    const PipelineRun run = runInOrder(pipeline, order);
    ++(error.empty() ? good : bad);
    if (error.empty())
      CHECK(run.error == "");
    else if (error.find("takes the micro-batches in order") == std::string::npos)
      CHECK(run.error != "");
  }
  CHECK(good > 300);
  CHECK(bad > 300);
}

TEST_CASE("a step is the run and what is done once, and counts what is in flight") {
  const Pipeline pipeline = evenPipeline({.devices = 2, .microBatches = 4, .forward = 10, .input = 10, .weight = 10});
  const PipelineOrder order = oneForwardOneBackward(pipeline);
  const PipelineStep step = stepOf(pipeline, runInOrder(pipeline, order), {5, 20});
  CHECK(step.time == runInOrder(pipeline, order).makespan + 20);
  CHECK(step.busy == std::vector<int64_t>{125, 140});
  CHECK(step.bubble == Approx(1 - 265.0 / (2.0 * double(step.time))));
  CHECK(mostInFlight(pipeline, order) == std::vector<int>{2, 1});
  CHECK(mostInFlight(pipeline, gpipe(pipeline)) == std::vector<int>{4, 4});
}
