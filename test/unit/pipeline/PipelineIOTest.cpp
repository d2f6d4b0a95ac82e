// Files of pipelines and orders.
#include "strategies/pipeline/PipelineIO.h"
#include "strategies/pipeline/NamedOrders.h"

#include <catch2/catch.hpp>

using namespace tessera::strategies;

namespace {

std::string errorOf(const std::string &text) {
  std::string error;
  CHECK(!parsePipeline(text, "p.json", error));
  return error;
}

} // namespace

TEST_CASE("a pipeline is read as it is written") {
  std::string error;
  const std::optional<Pipeline> pipeline =
      parsePipeline(R"({"micro_batches": 8, "stages": [{"forward": 10, "input": 11, "weight": 8, "held": 4, "kept": 2},
                       {"device": 0, "forward": 12}], "transfers": [3], "limits": [32]})",
                    "p.json", error);
  REQUIRE(pipeline);
  CHECK(pipeline->devices == 1);
  CHECK(pipeline->microBatches == 8);
  CHECK(pipeline->stages[0].input == 11);
  CHECK(pipeline->stages[0].kept == 2);
  CHECK(pipeline->stages[1].forward == 12);
  CHECK(pipeline->transfers == std::vector<int64_t>{3});
  CHECK(pipeline->limits == std::vector<int64_t>{32});
  const std::optional<Pipeline> plain = parsePipeline(R"({"micro_batches": 1, "stages": [{}, {}]})", "p.json", error);
  REQUIRE(plain);
  CHECK(plain->devices == 2);
  CHECK(plain->transfers == std::vector<int64_t>{0});
  CHECK(plain->limits == std::vector<int64_t>{-1, -1});
}

TEST_CASE("a bad pipeline is told in a sentence") {
  CHECK(errorOf("{") == "p.json: is no JSON");
  CHECK(errorOf("[[[[[[[[1]]]]]]]]") == "p.json: the JSON is nested too deeply");
  CHECK(errorOf("[]") == "p.json: the file's content is no object");
  CHECK(errorOf("{}") == "p.json: the pipeline: 'micro_batches' is missing");
  CHECK(errorOf(R"({"micro_batches": 0, "stages": [{}]})") ==
        "p.json: a pipeline needs a device, a micro-batch and a stage at least");
  CHECK(errorOf(R"({"micro_batches": 2, "stages": [{"forward": 1.5}]})") ==
        "p.json: stage 0: 'forward' is no whole number");
  CHECK(errorOf(R"({"micro_batches": 2, "stages": [{"forward": -1}]})") ==
        "p.json: stage 0 has a time or bytes that are negative or too large");
  CHECK(errorOf(R"({"micro_batches": 2, "stages": [{"device": 99999999}]})") ==
        "p.json: stage 0: 'device' is out of range");
  CHECK(errorOf(R"({"micro_batches": 2, "stages": [{}], "transfers": [1]})") ==
        "p.json: 1 stages need 0 transfers, not 1");
  CHECK(errorOf(R"({"micro_batches": 9999999, "stages": [{}]})") == "p.json: more than 10000000 tasks");
}

TEST_CASE("an order is a table with a line for each device") {
  const Pipeline pipeline = evenPipeline({.devices = 2, .microBatches = 2});
  CHECK(toCsv(zeroBubble1(pipeline)) == "0F0,0F1,0I0,0W0,0I1,0W1\n1F0,1I0,1F1,1I1,1W0,1W1\n");
}
