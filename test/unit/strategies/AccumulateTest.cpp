// Sums over micro-batches are handed on partial and reduced once. Their search takes the time of one micro-batch.
#include "Programs.h"

#include "dialects/graph/GraphOrigin.h"
#include "strategies/graph/BuildGraph.h"
#include "strategies/search/wide/SearchWide.h"

#include "llvm/Support/FormatVariadic.h"

using namespace tessera;
using namespace tessera::strategies;

namespace {

constexpr const char *kRows = "tensor<16384x512xf32>", *kWeights = "tensor<512x512xf32>", *kNumber = "tensor<f32>";

/// Two layers with gradients for every micro-batch, an operator `between` behind each gradient, and an update by the
/// sum of all. It is cheapest to cut the batch, so gradients are partial.
std::string program(int micros, const std::string &between = "") {
  std::string text, sums[2];
  auto line = [&](const std::string &to, const std::string &kind, const std::string &a, const std::string &b,
                  const std::string &attributes, const char *left, const char *right, const char *result) {
    text += "  " + to + " = graph." + kind + " " + a + ", " + b + " {" + attributes + "} : (" + left + ", " + right +
            ") -> " + result + "\n";
  };
  text = "func.func @train(";
  for (int m = 0; m < micros; ++m)
    text += llvm::formatv("%x{0}: {1} {{graph.role = \"input\", graph.name = \"x{0}\"}, ", m, kRows);
  text += llvm::formatv("%w0: {0} {{graph.role = \"parameter\", graph.name = \"w0\", graph.update = 0 : i64}, "
                        "%w1: {0} {{graph.role = \"parameter\", graph.name = \"w1\", graph.update = 1 : i64}) -> ("
                        "{0} {{graph.role = \"update\", graph.name = \"w0\"}, "
                        "{0} {{graph.role = \"update\", graph.name = \"w1\"}) {{\n"
                        "  %rate = graph.constant dense<0.5> : tensor<f32>\n",
                        kWeights);
  for (int m = 0; m < micros; ++m) {
    const std::string n = std::to_string(m);
    auto named = [&](const std::string &name, bool prefixed = true) {
      return (m ? "graph.micro_batch = " + n + " : i64, " : "") + "graph.name = \"" +
             (prefixed ? graph::microBatchPrefix(m) : "") + name + "\"";
    };
    line("%y" + n, "matmul", "%x" + n, "%w0", named("fc0"), kRows, kWeights, kRows);
    line("%z" + n, "matmul", "%y" + n, "%w1", named("fc1"), kRows, kWeights, kRows);
    line("%e" + n, "matmul", "%z" + n, "%w1", "transpose_b = true, " + named("fc1.grad_a"), kRows, kWeights, kRows);
    const std::string operands[2][2] = {{"%x" + n, "%e" + n}, {"%y" + n, "%z" + n}};
    for (int layer : {0, 1}) {
      const std::string l = std::to_string(layer);
      std::string gradient = "%d" + l + n;
      line(gradient, "matmul", operands[layer][0], operands[layer][1],
           "transpose_a = true, " + named("fc" + l + ".grad_b"), kRows, kRows, kWeights);
      if (!between.empty()) {
        line("%s" + l + n, between, gradient, "%rate", named("scale" + l), kWeights, kNumber, kWeights);
        gradient = "%s" + l + n;
      }
      if (m) {
        line("%a" + l + n, "add", sums[layer], gradient,
             named("w" + l + ".accumulate" + (m > 1 ? "." + std::to_string(m - 1) : ""), false), kWeights, kWeights,
             kWeights);
        gradient = "%a" + l + n;
      }
      sums[layer] = gradient;
    }
  }
  for (int layer : {0, 1}) {
    const std::string l = std::to_string(layer);
    line("%u" + l, "mul", sums[layer], "%rate", "graph.name = \"u" + l + "\"", kWeights, kNumber, kWeights);
    line("%v" + l, "sub", "%w" + l, "%u" + l, "graph.name = \"v" + l + "\"", kWeights, kWeights, kWeights);
  }
  return text + llvm::formatv("  return %v0, %v1 : {0}, {0}\n}", kWeights).str();
}

/// Options for the search's own choice. Mode auto takes the answer of a named searcher as it is.
AssignOptions searched(const std::string &mesh) {
  AssignOptions options = optionsFor(mesh, "auto");
  options.searcher = "exact";
  options.topology = llvm::cantFail(Topology::load("8xh100"));
  return options;
}

int64_t reductions(const FunctionReport &function) {
  int64_t count = 0;
  auto look = [&](const std::vector<CollectiveReport> &list) {
    for (const CollectiveReport &c : list)
      count += c.kind == "all-reduce" || c.kind == "reduce-scatter";
  };
  for (const OperatorReport &op : function.operators)
    look(op.collectives);
  look(function.boundary);
  return count;
}

} // namespace

TEST_CASE("sums over micro-batches are handed on partial and reduced once") {
  for (const char *between : {"", "mul", "div"})
    for (const char *mesh : {"x=8", "x=4,y=2"})
      for (int micros : {2, 3, 6}) {
        INFO(between << ' ' << mesh << ' ' << micros);
        Module m(program(micros, between)), d(program(micros, between));
        AssignOptions options = searched(mesh);
        AssignReport found, data;
        REQUIRE(assign(m, options, &found) == "");
        options.mode = "data";
        options.searcher.clear();
        REQUIRE(assign(d, options, &data) == "");
        CHECK(found.find("train")->total() <= data.find("train")->total());
        CHECK(found.find("train")->search.optimal);
        // Each gradient has one reduction, or one along each axis.
        CHECK(reductions(*found.find("train")) <= 2 * options.mesh.numAxes());
        // A micro-batch's operators have the strategies of the first one's, whatever their number.
        for (int micro = 1; micro < micros; ++micro)
          for (const char *name : {"fc0", "fc1", "fc1.grad_a", "fc0.grad_b"})
            CHECK(m.strategy("train", graph::microBatchPrefix(micro) + name) == m.strategy("train", name));
        if (micros == 6)
          CHECK(m.strategy("train", "w0.accumulate.1") == m.strategy("train", "w0.accumulate.3"));
      }
}

TEST_CASE("the sum is reduced into a cut where its reader wants one") {
  // The user says how the update lies, and one reduce-scatter serves it.
  Module m(program(4));
  AssignOptions options = searched("x=8");
  options.user = llvm::cantFail(
      UserStrategies::parse(R"([{"op": "v*", "in": [["x", null], ["x", null]], "out": [["x", null]]}])", "test.json"));
  AssignReport report;
  REQUIRE(assign(m, options, &report) == "");
  CHECK(m.strategy("train", "v0") == "b0=x");
  CHECK(reductions(*report.find("train")) == 2);
}

TEST_CASE("the search problem does not grow with the number of micro-batches") {
  auto built = [](int micros) {
    Module m(program(micros));
    AssignReport report;
    REQUIRE(assign(m, searched("x=4,y=2"), &report) == "");
    return report.find("train")->search;
  };
  const SearchReport few = built(4), many = built(12);
  // Every micro-batch has its own input.
  CHECK(many.nodes - few.nodes == 8);
  CHECK(many.edges - few.edges <= 2 * 8);
}

TEST_CASE(
    "a node of several micro-batches costs what its groups cost, and a value that all of them read is moved once") {
  for (int micros : {1, 2, 5}) {
    INFO(micros);
    Module m(program(micros));
    FunctionAssignment plan(llvm::cantFail(Program::analyse(m.func("train"))));
    CostModel model(llvm::cantFail(Mesh::parse("x=4,y=2")), llvm::cantFail(Topology::load("8xh100")));
    SharedShardings shared;
    BuiltGraph built = buildGraph(plan, model, nullptr, shared, int64_t(1) << 40);
    std::vector<int32_t> groups(built.wide.nodes.size(), 0);
    for (int32_t n : built.node)
      ++groups[size_t(n)];
    CHECK(groups == built.groupsOf);
    SearchOptions options;
    WideSolution found = searchWide(built.wide, options);
    narrow(built, found.kept, found.offers);
    applyChoice(plan, model.mesh(), built, found.solution.choice);
    plan.finishResults();
    dist::setMesh(*m.module, model.mesh());
    REQUIRE(!plan.write(model.mesh()));
    FunctionReport report = llvm::cantFail(priceFunction(plan.program.func, model));
    Cost kernels = 0;
    for (size_t c = 0; c < built.node.size(); ++c)
      kernels += (*built.options[c])[size_t(found.solution.choice[size_t(built.node[c])])].compute();
    CHECK(report.communication == found.solution.cost - kernels);
  }
}
