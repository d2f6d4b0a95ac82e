// Sums over micro-batches are handed on partial and reduced once. Their search takes the time of one micro-batch.
#include "Programs.h"

#include "strategies/graph/BuildGraph.h"
#include "strategies/search/wide/SearchWide.h"
#include "strategies/space/LiveRanges.h"

#include "llvm/Support/FormatVariadic.h"

using namespace tessera;
using namespace tessera::strategies;

namespace {

constexpr int64_t kRowsOfOne = 16384; // rows of a micro-batch
constexpr const char *kRows = "tensor<16384x512xf32>", *kWeights = "tensor<512x512xf32>", *kNumber = "tensor<f32>";

/// Two layers with gradients, for so many micro-batches, an operator `between` behind each gradient, and an update by
/// the sum over all. It is cheapest to cut the batch, so gradients are partial.
std::string program(int micros, const std::string &between = "") {
  const std::string batch = llvm::formatv("tensor<{0}x512xf32>", kRowsOfOne * micros).str();
  const std::string parts = "parts = " + std::to_string(micros) + " : i64";
  std::string text;
  auto line = [&](const std::string &to, const std::string &kind, const std::string &operands,
                  const std::string &attributes, const std::string &types, const std::string &result) {
    text +=
        "  " + to + " = graph." + kind + " " + operands + " {" + attributes + "} : (" + types + ") -> " + result + "\n";
  };
  auto two = [](const std::string &a, const std::string &b) { return a + ", " + b; };
  auto named = [](const std::string &name) { return "graph.name = \"" + name + "\""; };
  text = llvm::formatv("func.func @train(%batch: {1} {{graph.role = \"input\", graph.name = \"x\"}, "
                       "%w0: {0} {{graph.role = \"parameter\", graph.name = \"w0\", graph.update = 0 : i64}, "
                       "%w1: {0} {{graph.role = \"parameter\", graph.name = \"w1\", graph.update = 1 : i64}) -> ("
                       "{0} {{graph.role = \"update\", graph.name = \"w0\"}, "
                       "{0} {{graph.role = \"update\", graph.name = \"w1\"}) {{\n"
                       "  %rate = graph.constant dense<0.5> : tensor<f32>\n",
                       kWeights, batch);
  std::string x = "%batch";
  if (micros > 1) {
    x = "%x";
    line(x, "micro_rows", "%batch", parts + ", " + named("rows"), batch, kRows);
  }
  line("%y", "matmul", two(x, "%w0"), named("fc0"), two(kRows, kWeights), kRows);
  line("%z", "matmul", two("%y", "%w1"), named("fc1"), two(kRows, kWeights), kRows);
  line("%e", "matmul", two("%z", "%w1"), "transpose_b = true, " + named("fc1.grad_a"), two(kRows, kWeights), kRows);
  const std::string operands[2] = {two(x, "%e"), two("%y", "%z")};
  for (int layer : {0, 1}) {
    const std::string l = std::to_string(layer);
    std::string gradient = "%d" + l;
    line(gradient, "matmul", operands[layer], "transpose_a = true, " + named("fc" + l + ".grad_b"), two(kRows, kRows),
         kWeights);
    if (!between.empty()) {
      line("%s" + l, between, two(gradient, "%rate"), named("scale" + l), two(kWeights, kNumber), kWeights);
      gradient = "%s" + l;
    }
    if (micros > 1) {
      line("%a" + l, "accumulate", gradient, parts + ", " + named("w" + l + ".accumulate"), kWeights, kWeights);
      gradient = "%a" + l;
    }
    line("%u" + l, "mul", two(gradient, "%rate"), named("u" + l), two(kWeights, kNumber), kWeights);
    line("%v" + l, "sub", two("%w" + l, "%u" + l), named("v" + l), two(kWeights, kWeights), kWeights);
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
      count += c.kind == "all-reduce" || c.kind == "reduce-scatter" ? c.times : 0;
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

TEST_CASE("the search problem does not depend on the number of micro-batches") {
  auto built = [](int micros) {
    Module m(program(micros));
    AssignReport report;
    REQUIRE(assign(m, searched("x=4,y=2"), &report) == "");
    return report.find("train")->search;
  };
  const SearchReport few = built(2), many = built(12);
  CHECK(many.nodes == few.nodes);
  CHECK(many.edges == few.edges);
  CHECK(many.options == few.options);
}

TEST_CASE("what runs for every micro-batch costs as often, and a parameter is moved once for all") {
  for (int micros : {1, 2, 5}) {
    INFO(micros);
    Module m(program(micros));
    FunctionAssignment plan(llvm::cantFail(Program::analyse(m.func("train"))));
    CostModel model(llvm::cantFail(Mesh::parse("x=4,y=2")), llvm::cantFail(Topology::load("8xh100")));
    SharedShardings shared;
    BuiltGraph built = buildGraph(plan, model, nullptr, shared, int64_t(1) << 40);
    REQUIRE(built.wide.nodes.size() == built.groups.list.size());
    SearchOptions options;
    WideSolution found = searchWide(built.wide, options);
    narrow(built, std::move(found.dense));
    applyChoice(plan, model.mesh(), built, found.solution.choice);
    plan.finishResults();
    dist::setMesh(*m.module, model.mesh());
    REQUIRE(!plan.write(model.mesh()));
    FunctionReport report = llvm::cantFail(priceFunction(plan.program.func, model));
    Cost kernels = 0;
    for (size_t c = 0; c < built.groups.list.size(); ++c)
      kernels += (*built.options[c])[size_t(found.solution.choice[c])].compute();
    CHECK(report.communication == found.solution.cost - kernels);
    for (const OperatorReport &op : report.operators) {
      const bool once = op.kind == "constant" || op.kind == "mul" || op.kind == "sub";
      CHECK(op.times == (once ? 1 : micros));
      for (const CollectiveReport &c : op.collectives)
        if (op.kind == "accumulate" || c.kind == "all-gather")
          CHECK(c.times == 1);
    }
  }
}

TEST_CASE("a sum takes the memory in which it is added up, and behind the body that in which it is handed on") {
  Module m(program(4));
  FunctionAssignment plan(llvm::cantFail(Program::analyse(m.func("train"))));
  CostModel model(llvm::cantFail(Mesh::parse("x=8")), llvm::cantFail(Topology::load("8xh100")));
  BuiltGraph built = buildGraph(plan, model, nullptr, {}, /*memoryLimit=*/1);
  const LiveRange body = LiveRanges(plan.program).body();
  const int sum = plan.program.index.lookup(m.op("train", "w0.accumulate"));
  const size_t group = size_t(built.groups.ofOp[size_t(sum)]);
  REQUIRE(built.groups.list[group].ops.front() == sum);
  const int64_t whole = 512 * 512 * 4;
  int scattered = 0;
  for (size_t k = 0; k < built.options[group]->size(); ++k) {
    const Strategy &strategy = (*built.options[group])[k].strategy(0);
    int64_t carried = 0;
    for (const WideUse &use : built.wide.nodes[group].uses)
      if (use.liveFrom <= body.from && body.to < use.liveTo)
        carried += (*use.bytes)[k];
    if (strategy.partial.empty()) {
      const Sharding made =
          dist::naturalResult(model.mesh(), plan.program.operators[size_t(sum)].cls->rule, strategy, 0);
      CHECK(carried == whole / model.mesh().size(made.dims[0]) / model.mesh().size(made.dims[1]));
      continue;
    }
    CHECK(carried == whole);
    scattered += !strategy.results.empty() && !strategy.results.front().isReplicated();
  }
  CHECK(scattered > 0);
}
