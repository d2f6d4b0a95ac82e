//===- GraphIOTest.cpp - strategy graphs as files ---------------------------------------------===//
#include "RandomGraph.h"

#include "strategies/space/StrategyGraphIO.h"

#include <catch2/catch.hpp>

#include <cstdio>
#include <unistd.h>

using namespace tessera::strategies;

namespace {

bool same(const StrategyGraph &a, const StrategyGraph &b) {
  bool ok = a.name == b.name && a.nodes.size() == b.nodes.size() && a.edges.size() == b.edges.size() &&
            a.aliases == b.aliases && a.memoryLimit == b.memoryLimit && a.dataParallel == b.dataParallel;
  for (size_t i = 0; ok && i < a.nodes.size(); ++i)
    ok = a.nodes[i].name == b.nodes[i].name && a.nodes[i].costs == b.nodes[i].costs &&
         a.nodes[i].usages == b.nodes[i].usages && a.nodes[i].liveFrom == b.nodes[i].liveFrom &&
         a.nodes[i].liveTo == b.nodes[i].liveTo;
  for (size_t e = 0; ok && e < a.edges.size(); ++e)
    ok = a.edges[e].from == b.edges[e].from && a.edges[e].to == b.edges[e].to && a.edges[e].costs == b.edges[e].costs;
  return ok;
}

std::string errorOf(const std::string &text) {
  std::string error;
  std::optional<StrategyGraph> graph = parseStrategyGraph(text, "g.json", error);
  return graph ? "" : error;
}

std::string withNodes(const std::string &nodes, const std::string &edges, const std::string &rest = "") {
  return R"({"problem":{"nodes":{)" + nodes + R"(},"edges":{)" + edges + "}" + rest + "}}";
}

const std::string kTwo = R"("intervals":[[0,2],[1,3]],"costs":[[1,2],[3,4,5]],)"
                         R"("usages":[[7,8],[1,1,1]])";
const std::string kEdge = R"("nodes":[[0,1]],"costs":[[0,1,2,3,4,5]])";

} // namespace

TEST_CASE("graphs survive text, plain files and gzip files") {
  std::mt19937_64 random(7);
  std::string path = "/tmp/tessera-graph-io-" + std::to_string(getpid()) + ".json";
  for (int i = 0; i < 50; ++i) {
    StrategyGraph g = randomGraph(random, {.nodes = 9, .memory = i % 2 * 0.5, .aliases = true});
    g.name = i % 3 ? "a \"quoted\" \\ name\n" : "";
    for (const StrategyNode &node : g.nodes)
      if (i % 4 == 0)
        g.dataParallel.push_back(int32_t(random() % node.costs.size()));
    if (i % 5 == 0)
      for (StrategyNode &node : g.nodes)
        node.name = "op/" + std::to_string(&node - g.nodes.data());
    std::string error;
    std::optional<StrategyGraph> back = parseStrategyGraph(toJson(g), "g", error);
    INFO(error);
    REQUIRE(back);
    REQUIRE(same(g, *back));
    for (std::string file : {path, path + ".gz"}) {
      REQUIRE(writeStrategyGraph(g, file, error));
      back = readStrategyGraph(file, error);
      REQUIRE(back);
      REQUIRE(same(g, *back));
      remove(file.c_str());
    }
  }
}

TEST_CASE("keys may come in any order, unknown ones are skipped") {
  std::string error;
  auto graph =
      parseStrategyGraph(R"( {"version":[1,{"x":null}],"problem":{"usage_limit":9,"edges":{)" + kEdge +
                             R"(},"nodes":{)" + kTwo + R"(},"note":"\u00e9 -1.5e3","more":[true,false,-2.5e-3]}} )",
                         "g", error);
  INFO(error);
  REQUIRE(graph);
  CHECK(graph->memoryLimit == 9);
  CHECK(graph->edges.at(0).costs.size() == 6);
  CHECK(graph->nodes.at(1).liveFrom == 1);
}

TEST_CASE("each bad file is one clear error") {
  auto check = [](const std::string &text, const std::string &part) {
    std::string error = errorOf(text);
    INFO(text);
    INFO(error);
    CHECK(error.find("g.json: ") == 0);
    CHECK(error.find(part) != std::string::npos);
    CHECK(error.find('\n') == std::string::npos);
  };
  check("", "expected '{'");
  check("[]", "expected '{'");
  check("{}", "no \"problem\"");
  check(R"({"problem":{}})", "no \"nodes\"");
  check(withNodes("", ""), "no \"costs\"");
  check(withNodes(R"("costs":[[]])", ""), "node 0 has no option");
  check(withNodes(R"("costs":[[1],[2]],"intervals":[[0,1]])", ""), "1 intervals");
  check(withNodes(R"("costs":[[1],[2]],"usages":[[1]])", ""), "1 lists of usages");
  check(withNodes(R"("costs":[[1,2]],"usages":[[1]])", ""), "2 costs but 1 usages");
  check(withNodes(R"("costs":[[1]],"usages":[[-1]])", ""), "negative usage");
  check(withNodes(R"("costs":[[-3]])", ""), "negative cost");
  check(withNodes(R"("costs":[[9223372036854775808]])", ""), "64 bits");
  check(withNodes(R"("costs":[[1.5]])", ""), "not a fraction");
  check(withNodes(R"("costs":[["1"]])", ""), "expected an integer");
  check(withNodes(R"("costs":[[1],[1]],"usages":[[9223372036854775807],[1]])", ""), "more than 64 bits hold");
  check(withNodes(R"("costs":[[1]],"intervals":[[-5,3]])", ""), "before time 0");
  check(withNodes(kTwo, R"("nodes":[[0,2]],"costs":[[0]])"), "names node 2 of 2");
  check(withNodes(kTwo, R"("nodes":[[0,-1]],"costs":[[0]])"), "out of range");
  check(withNodes(kTwo, R"("nodes":[[0,1]],"costs":[[0,1,2]])"), "2 x 3 options");
  check(withNodes(kTwo, R"("nodes":[[0,1]],"costs":[])"), "0 cost matrices");
  check(withNodes(kTwo, R"("nodes":[[0,1]],"costs":[[0,1,2,3,4,-5]])"), "negative cost");
  check(withNodes(kTwo, R"("nodes":[[0,1,1]],"costs":[[]])"), "expected ']'");
  check(withNodes(kTwo, kEdge, R"(,"usage_limit":-1)"), "memory limit -1 is negative");
  check(withNodes(kTwo, kEdge, R"(,"aliases":[[0,1]])"), "2 and 3 options");
  check(withNodes(kTwo, kEdge, R"(,"aliases":[[0,7]])"), "alias names node 7");
  check(withNodes(kTwo, kEdge, R"(,"data_parallel":[0])"), "1 options for 2 nodes");
  check(withNodes(kTwo, kEdge, R"(,"data_parallel":[0,3])"), "names option 3 of the 3 of node 1");
  check(withNodes(kTwo, kEdge, R"(,"data_parallel":[-1,0])"), "out of range");
  check(withNodes(kTwo, kEdge) + "x", "text after the end");
  check(R"({"problem":)" + std::string(100000, '['), "expected '{'");
  check(R"({"x":)" + std::string(100000, '['), "too deeply");
  check(R"({"problem)", "does not end");
  std::string whole = withNodes(kTwo, kEdge);
  for (size_t cut = 0; cut < whole.size(); ++cut)
    CHECK(errorOf(whole.substr(0, cut)) != "");
}

TEST_CASE("aliases may form trees, but no cycle") {
  auto with = [](const std::string &aliases) {
    return errorOf(withNodes(R"("costs":[[1],[2],[3],[4]])", "", R"(,"aliases":)" + aliases));
  };
  CHECK(with("[[0,1],[3,1],[2,0]]") == "");
  CHECK(with("[[0,1],[1,2],[2,0]]") == "g.json: the alias of nodes 2 and 0 closes a cycle of aliases: leave it out");
  CHECK(with("[[3,2],[1,1]]").find("nodes 1 and 1 closes a cycle") != std::string::npos);
  CHECK(with("[[0,1],[2,3],[1,0]]").find("nodes 1 and 0 closes a cycle") != std::string::npos);
}

TEST_CASE("a file that is missing, a folder, truncated or no gzip is an error") {
  std::string error;
  CHECK(!readStrategyGraph("/nonexistent/graph.json", error));
  CHECK(error == "/nonexistent/graph.json: cannot be opened");
  CHECK(!readStrategyGraph("/tmp", error));
  CHECK(error == "/tmp: is a directory, not a strategy graph");
  std::string path = "/tmp/tessera-graph-cut-" + std::to_string(getpid()) + ".json.gz";
  std::mt19937_64 random(3);
  REQUIRE(writeStrategyGraph(randomGraph(random, {.nodes = 60}), path, error));
  FILE *file = fopen(path.c_str(), "rb");
  std::string bytes(1 << 20, 0);
  bytes.resize(fread(bytes.data(), 1, bytes.size(), file));
  fclose(file);
  file = fopen(path.c_str(), "wb");
  fwrite(bytes.data(), 1, bytes.size() / 2, file);
  fclose(file);
  CHECK(!readStrategyGraph(path, error));
  CHECK(error.find(path) == 0);
  remove(path.c_str());
}
