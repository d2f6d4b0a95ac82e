// Files of problems and plans of stages.
#include "strategies/pipeline/stages/StageProblemIO.h"

#include <catch2/catch.hpp>

using namespace tessera::strategies;

namespace {

std::string errorOf(const std::string &text) {
  std::string error;
  CHECK(!parseStageProblem(text, "s.json", error));
  return error;
}

const std::string kDevices = R"("devices": [{"count": 2}])";

} // namespace

TEST_CASE("a problem of stages is read as it is written") {
  std::string error;
  const std::optional<StageProblem> problem = parseStageProblem(
      R"({"micro_batches": 8, "goal": "batch", "in_flight": "zb-h2", "stages": 2, "most_replicas": 4,
          "devices": [{"count": 4, "memory": 1000, "bandwidth": 2.5}, {"count": 1}],
          "ways": [{"size": 2}, {"devices": 1}],
          "nodes": [{"forward": 3, "input": 4, "weight": 2, "fixed": 40, "held": 10, "synced": 7, "stage": 1},
                    {"ways": [{"variants": [{"forward": 8, "held": 10}, {"forward": 11}], "synced": 1}, null]}],
          "values": [{"from": 0, "to": [1], "bytes": 6, "sent": [0, 4]},
                     {"from": 1, "to": [0], "order": "backward"}]})",
      "s.json", error);
  INFO(error);
  REQUIRE(problem);
  CHECK(problem->microBatches == 8);
  CHECK(problem->goal == StageGoal::Batch);
  CHECK(problem->inFlight == InFlight::ZeroBubble2);
  CHECK(problem->stages == 2);
  CHECK(problem->mostReplicas == 4);
  CHECK(problem->devices[0].memory == 1000);
  CHECK(problem->devices[0].bandwidth == 2.5);
  CHECK(problem->devices[1].memory == -1);
  CHECK(problem->ways[0].size == 2);
  CHECK(problem->ways[1].devices == 1);
  CHECK(problem->nodes[0].stage == 1);
  CHECK(problem->nodes[1].stage == -1);
  CHECK(problem->nodes[0].ways.size() == 2);
  CHECK(problem->nodes[0].ways[1].variants[0].time() == 9);
  CHECK(problem->nodes[0].ways[1].synced == 7);
  CHECK(problem->nodes[1].ways[0].variants.size() == 2);
  CHECK(problem->nodes[1].ways[1].variants.empty());
  CHECK(problem->values[0].sent == std::vector<int64_t>{0, 4});
  CHECK(problem->values[1].order == ValueOrder::Backward);
  const std::optional<StageProblem> plain =
      parseStageProblem("{" + kDevices + R"(, "nodes": [{}, {}]})", "s.json", error);
  REQUIRE(plain);
  CHECK(plain->ways.size() == 1);
  CHECK(plain->microBatches == 1);
}

TEST_CASE("places of stages are read as they are written") {
  const std::string head = R"({"micro_batches": 4, "stages": 2, "devices": [{"count": 2, "memory": 9}],
    "nodes": [{}, {}], "places": )";
  std::string error;
  const std::optional<StageProblem> problem =
      parseStageProblem(head + R"([{"stages": [1, 0], "in_flight": [[4, 0], [3, 1]]}]})", "s.json", error);
  INFO(error);
  REQUIRE(problem);
  REQUIRE(problem->places.size() == 1);
  CHECK(problem->places[0].stages == std::vector<int>{1, 0});
  CHECK(problem->places[0].inFlight == std::vector<std::vector<int>>{{4, 0}, {3, 1}});
  auto errorWith = [&](const std::string &places) { return errorOf(head + places + "}"); };
  CHECK(errorWith("3") == "s.json: 'places' is no list");
  CHECK(errorWith("[3]") == "s.json: place 0 is no object");
  CHECK(errorWith(R"([{"stages": [0, 1], "in_flight": [3]}])") ==
        "s.json: place 0: a moment of 'in_flight' is no list");
  CHECK(errorWith(R"([{"stages": [0, 1], "in_flight": [[3]]}])") == "s.json: place 0 has 2 stages, but a moment of 1");
  CHECK(errorWith(R"([{"stages": [0, 1], "in_flight": [[5, 1]]}])") == "s.json: place 0 holds 5 micro-batches of 4");
  CHECK(errorWith(R"([{"stages": [0, 2], "in_flight": [[3, 1]]}])") ==
        "s.json: place 0 has stage 2, which there is not or which another place has");
  CHECK(errorWith(R"([{"stages": [0, 1], "in_flight": [[3, 0]]}])") ==
        "s.json: place 0 holds no micro-batch of stage 1 at any moment");
  CHECK(errorWith(R"([{"stages": [0], "in_flight": [[3]]}])") == "s.json: stage 1 lies in no place");
  CHECK(errorOf("{" + kDevices + R"(, "nodes": [{}, {}], "places": [{}]})") ==
        "s.json: places need a number of stages");
  CHECK(errorOf("{" + kDevices + R"(, "nodes": [{}, {}], "stages": 1, "most_replicas": 2,
        "places": [{"stages": [0], "in_flight": [[1]]}]})") ==
        "s.json: stages that lie in places have one way and one replica");
  CHECK(errorOf("{" + kDevices + R"(, "nodes": [{"variants": [{}, {}]}], "stages": 1,
        "places": [{"stages": [0], "in_flight": [[1]]}]})") ==
        "s.json: node 0 has several variants, but stages that lie in places have none to choose");
}

TEST_CASE("a bad problem of stages is told in a sentence") {
  auto with = [](const std::string &rest) { return "{" + kDevices + ", " + rest + "}"; };
  CHECK(errorOf("{") == "s.json: is no JSON");
  CHECK(errorOf("[[[[[[[[[[1]]]]]]]]]]") == "s.json: the JSON is nested too deeply");
  CHECK(errorOf("[]") == "s.json: the file's content is no object");
  CHECK(errorOf("{}") == "s.json: a problem has 1 to 4 kinds of devices");
  CHECK(errorOf(R"({"devices": [{}]})") == "s.json: device kind 0: 'count' is missing");
  CHECK(errorOf(R"({"devices": [{"count": 1, "bandwidth": -1}]})") ==
        "s.json: device kind 0 has a number that is out of range");
  CHECK(errorOf(R"({"devices": [{"count": 1, "bandwidth": "x"}]})") ==
        "s.json: device kind 0: 'bandwidth' is no number");
  CHECK(errorOf(with(R"("nodes": [])")) == "s.json: there is no node");
  CHECK(errorOf(with(R"("ways": [{"devices": 1}], "nodes": [{}])")) ==
        "s.json: way 0 needs a known kind of device, and one device at least");
  CHECK(errorOf(with(R"("nodes": [{"forward": -1}])")) == "s.json: node 0 has a number that is negative or too large");
  CHECK(errorOf(with(R"("nodes": [{"forward": 1.5}])")) == "s.json: node 0: 'forward' is no whole number");
  CHECK(errorOf(with(R"("nodes": [{"ways": [{}, {}]}])")) == "s.json: node 0 needs an entry for each of the 1 ways");
  CHECK(errorOf(with(R"("nodes": [{"ways": [null]}])")) == "s.json: node 0 can be run in no way");
  CHECK(errorOf(with(R"("nodes": [{"forward": 9007199254740992}, {}], "micro_batches": 2000)")) ==
        "s.json: the numbers are too large to be added up");
  CHECK(errorOf(with(R"("nodes": [{}], "values": [{"from": 0, "to": [1]}])")) ==
        "s.json: value 0 names a node that there is not");
  CHECK(errorOf(with(R"("nodes": [{}], "values": [{"from": 0, "to": [0], "sent": [1, 2]}])")) ==
        "s.json: value 0 needs an entry for each of the 1 ways");
  CHECK(errorOf(with(R"("nodes": [{}], "values": [{"from": 0, "order": "up"}])")) ==
        "s.json: value 0: 'order' is not 'forward', 'backward' or 'any'");
  CHECK(errorOf(with(R"("nodes": [{}], "goal": "speed")")) ==
        "s.json: the problem: 'goal' is not 'bottleneck' or 'batch'");
  CHECK(errorOf(with(R"("nodes": [{}], "stages": 2)")) == "s.json: 1 nodes make no 2 stages");
  CHECK(errorOf(with(R"("nodes": [{}, {"stage": 2}], "stages": 2)")) == "s.json: node 1 is bound to stage 2 of 2");
  CHECK(errorOf(with(R"("nodes": [{}, {}], "stages": 2, "stage_ways": [0])")) ==
        "s.json: 1 stages are bound to ways, of 2");
  CHECK(errorOf(with(R"("nodes": [{}, {}], "stages": 2, "stage_ways": [0, 1])")) ==
        "s.json: a stage is bound to way 1 of 1");
  CHECK(errorOf(with(R"("nodes": [{}], "stage_ways": [0])")) == "s.json: 1 stages are bound to ways, of 0");
  CHECK(errorOf(with(R"("nodes": [{"stage": 0}])")) == "s.json: node 0 is bound to stage 0 of 0");
  CHECK(errorOf(with(R"("nodes": [{}], "micro_batches": 0)")) ==
        "s.json: a problem needs one micro-batch and one replica at least");
}

TEST_CASE("a plan of stages is one JSON object") {
  CHECK(toJson({{.nodes = {0, 2}, .variants = {0, 1}, .way = 1, .replicas = 2}}) ==
        "{\"stages\": [\n  {\"nodes\": [0,2], \"variants\": [0,1], \"way\": 1, \"replicas\": 2}]}\n");
}
