//===- ToolTest.cpp - tessera-solve as a person uses it ------------------------------------------===//
#include "LayeredGraph.h"
#include "RandomGraph.h"

#include "strategies/space/StrategyGraphIO.h"

#include <catch2/catch.hpp>

#include <cstdio>
#include <sys/wait.h>
#include <unistd.h>

using namespace tessera::strategies;

namespace {

struct Outcome {
  int code;
  std::string text; // stdout and stderr
};

Outcome runSolve(const std::string &arguments, const std::string &input = "") {
  FILE *pipe = popen((input + TESSERA_SOLVE " " + arguments + " 2>&1").c_str(), "r");
  REQUIRE(pipe);
  std::string text;
  char buffer[4096];
  while (size_t n = fread(buffer, 1, sizeof(buffer), pipe))
    text.append(buffer, n);
  return {WEXITSTATUS(pclose(pipe)), text};
}

std::string readAll(const std::string &path) {
  FILE *file = fopen(path.c_str(), "rb");
  if (!file)
    return "(missing)";
  char buffer[4096];
  std::string text(buffer, fread(buffer, 1, sizeof(buffer), file));
  fclose(file);
  return text;
}

struct TemporaryFile {
  std::string path = "/tmp/tessera-solve-test-" + std::to_string(getpid()) + ".json";
  explicit TemporaryFile(const StrategyGraph &g) {
    std::string error;
    REQUIRE(writeStrategyGraph(g, path, error));
  }
  ~TemporaryFile() {
    remove(path.c_str());
    remove((path + ".choice").c_str());
  }
};

StrategyGraph example() {
  StrategyGraph g;
  g.addNode({.costs = {3, 1}, .usages = {1, 9}, .liveTo = 2});
  g.addNode({.costs = {1, 3}, .usages = {2, 2}, .liveTo = 2});
  g.addEdge(0, 1, {0, 5, 5, 0});
  g.memoryLimit = 5;
  return g;
}

} // namespace

TEST_CASE("tessera-solve prints the result and writes the choice") {
  TemporaryFile file(example());
  Outcome run = runSolve(file.path + " --seconds 5 --threads 2 --output " + file.path + ".choice");
  INFO(run.text);
  CHECK(run.code == 0);
  CHECK(run.text.find("cost         4\nlower bound  4\ngap          0.0000 % (optimal)\n"
                      "memory peak  3 of 5\ntime") == 0);
  CHECK(readAll(file.path + ".choice") == "[0,0]\n");
  Outcome json = runSolve(file.path + " --seconds 5 --json");
  INFO(json.text);
  CHECK(json.code == 0);
  CHECK(json.text.find("{\n \"cost\": 4,\n \"lower_bound\": 4,\n \"gap\": 0.0,\n \"optimal\": true,\n"
                       " \"memory_peak\": 3,\n \"memory_limit\": 5,\n") == 0);
}

TEST_CASE("tessera-solve says why it has no answer") {
  StrategyGraph g = example();
  g.memoryLimit = 2;
  TemporaryFile file(g);
  Outcome run = runSolve(file.path + " --output " + file.path + ".choice");
  CHECK(run.code == 1);
  CHECK(run.text.find("tessera-solve: error: " + file.path + ": no choice fits") == 0);
  CHECK(readAll(file.path + ".choice") == "(missing)");
  CHECK(runSolve("/nonexistent.json").code == 1);
  CHECK(runSolve("/nonexistent.json").text == "tessera-solve: error: /nonexistent.json: cannot be opened\n");
  CHECK(runSolve("").code == 2);
  CHECK(runSolve(file.path + " --seconds -1").code == 2);
  for (const char *option : {"--seconds", "--work", "--gap"}) {
    Outcome nan = runSolve(file.path + " " + option + " nan");
    CHECK(nan.code == 2); // not a budget that never ends
    CHECK(nan.text.find("tessera-solve: " + std::string(option) + ": nan is no number from 0 to") == 0);
  }
  CHECK(runSolve(file.path + " --threads 0").code == 2);
  CHECK(runSolve(file.path + " --searcher magic").code == 2);
  CHECK(runSolve(file.path + " --bogus").code == 2);
  StrategyGraph data = example();
  {
    TemporaryFile without(data);
    Outcome run = runSolve(without.path + " --searcher data");
    CHECK(run.code == 1);
    CHECK(run.text.find("does not say which options are data parallel") != std::string::npos);
  }
  data.dataParallel = {1, 0};
  {
    TemporaryFile large(data);
    Outcome run = runSolve(large.path + " --searcher data");
    CHECK(run.code == 1);
    CHECK(run.text.find("data parallelism does not fit: memory at time 0 is 11, the limit is 5") != std::string::npos);
  }
  TemporaryFile good(example());
  Outcome unwritable = runSolve(good.path + " --output " + good.path + "/choice"); // in what is no folder
  CHECK(unwritable.code == 1);
  CHECK(unwritable.text.find("error: " + good.path + "/choice: cannot be written") != std::string::npos);
}

TEST_CASE("the time that reading takes is part of the budget") {
  StrategyGraph g = LayeredGraph(60, 16, 5).graph;
  g.memoryLimit = leastPeak(g) * 12 / 10;
  TemporaryFile file(g);
  Outcome run = runSolve("/dev/stdin --seconds 1", "(sleep 1; cat " + file.path + ") | ");
  INFO(run.text);
  REQUIRE(run.code == 0);
  CHECK(std::stod(run.text.substr(run.text.find("time") + 4)) < 0.9);
}

TEST_CASE("tessera-solve prints its version and its help") {
  CHECK(runSolve("--version").text.find("tessera-solve ") == 0);
  Outcome help = runSolve("--help");
  CHECK(help.code == 0);
  for (const char *option : {"--seconds", "--threads", "--output", "--searcher", "--seed", "--gap", "--work"})
    CHECK(help.text.find(option) != std::string::npos);
}

TEST_CASE("tessera-solve cuts a network into stages") {
  const std::string path = "/tmp/tessera-solve-test-" + std::to_string(getpid()) + "-stages";
  auto solve = [&](const std::string &json, const std::string &options) {
    FILE *file = fopen((path + ".json").c_str(), "wb");
    REQUIRE(file);
    fputs(json.c_str(), file);
    fclose(file);
    return runSolve(path + ".json --stages " + options);
  };
  const std::string net = R"("micro_batches": 4, "nodes": [{"forward": 5, "held": 2}, {"forward": 3, "held": 2},
    {"forward": 4, "held": 2}], "values": [{"from": 0, "to": [1, 2], "bytes": 2}, {"from": 1, "to": [2], "bytes": 1}])";
  Outcome o = solve(R"({"devices": [{"count": 2, "memory": 8, "bandwidth": 1}], )" + net + "}", "--output " + path);
  INFO(o.text);
  CHECK(o.code == 0);
  CHECK(o.text.find("    0      1    0         1             7             7           2             4\n"
                    "    1      2    0         1             9             9           1             4\n") !=
        std::string::npos);
  CHECK(o.text.find("bottleneck   9\nbatch        43\n"
                    "lower bound  9 of the bottleneck; gap 0.0000 % (optimal)\n"
                    "downsets     4 of 3 units\n") != std::string::npos);
  CHECK(readAll(path) == "{\"stages\": [\n"
                         "  {\"nodes\": [0], \"variants\": [0], \"way\": 0, \"replicas\": 1},\n"
                         "  {\"nodes\": [1,2], \"variants\": [0,0], \"way\": 0, \"replicas\": 1}]}\n");
  o = solve(R"({"devices": [{"count": 1, "memory": 5}], )" + net + "}", "");
  CHECK(o.code == 1);
  CHECK(o.text == "tessera-solve: error: " + path + ".json: no cuts fit the devices and their memory (proven)\n");
  // Both stages in one place: two micro-batches of one node and one of two need 8 bytes at once.
  const std::string places = R"({"stages": 2, "places": [{"stages": [0, 1], "in_flight": [[2, 1], [1, 1]]}], )" + net;
  o = solve(R"({"devices": [{"count": 2, "memory": 8, "bandwidth": 1}], )" + places.substr(1) + "}", "");
  CHECK(o.text.find("place 0      8 bytes of all its stages\nbottleneck   9\n") != std::string::npos);
  o = solve(R"({"devices": [{"count": 2, "memory": 7, "bandwidth": 1}], )" + places.substr(1) + "}", "");
  CHECK(o.text == "tessera-solve: error: " + path + ".json: no cuts fit the devices and their memory (proven)\n");
  o = solve("{" + net + "}", "");
  CHECK(o.code == 1);
  CHECK(o.text == "tessera-solve: error: " + path + ".json: a problem has 1 to 4 kinds of devices\n");
  o = solve("{}", "--pipeline");
  CHECK(o.code == 2);
  remove((path + ".json").c_str());
  remove(path.c_str());
}

TEST_CASE("tessera-solve finds the order of a pipeline") {
  const std::string path = "/tmp/tessera-solve-test-" + std::to_string(getpid()) + "-pipeline";
  auto solve = [&](const std::string &json, const std::string &options) {
    FILE *file = fopen((path + ".json").c_str(), "wb");
    REQUIRE(file);
    fputs(json.c_str(), file);
    fclose(file);
    return runSolve(path + ".json --pipeline " + options);
  };
  const std::string stage = R"({"forward": 10, "input": 10, "weight": 10, "held": 2, "kept": 1})";
  const std::string stages = R"({"micro_batches": 6, "stages": [)" + stage + "," + stage + "]";
  Outcome o = solve(stages + "}", "--output " + path + ".csv");
  INFO(o.text);
  CHECK(o.code == 0);
  CHECK(o.text.find("1f1b                  210   14.29 %") != std::string::npos);
  CHECK(o.text.find("found                 190    5.26 %") != std::string::npos);
  CHECK(o.text.find("lower bound  190 of the makespan; gap 0.0000 % (optimal)") != std::string::npos);
  CHECK(readAll(path + ".csv").starts_with("0F0,"));
  o = solve(stages + "}", "--json");
  CHECK(o.text.find("\"lower_bound\": 190,\n \"of\": \"makespan\"") != std::string::npos);
  CHECK(o.text.find("\"name\": \"found\",\n   \"makespan\": 190,") != std::string::npos);
  o = solve(stages + "}", "--span");
  CHECK(o.text.find("lower bound  180 of the longest span; gap 0.0000 % (optimal)") != std::string::npos);
  o = solve(stages + R"(, "limits": [1, 1]})", "");
  CHECK(o.code == 1);
  CHECK(o.text == "tessera-solve: error: " + path + ".json: found no order that fits the limits of memory\n");
  o = solve(stages + R"(, "limits": [1]})", "");
  CHECK(o.code == 1);
  CHECK(o.text == "tessera-solve: error: " + path + ".json: 2 devices need as many limits of memory, not 1\n");
  remove((path + ".json").c_str());
  remove((path + ".csv").c_str());
}
