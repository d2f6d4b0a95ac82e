#include "Programs.h"

using namespace tessera::strategies;

TEST_CASE("mode data cuts the batch and reduces gradients at once") {
  Module m(kMlp);
  AssignReport report;
  REQUIRE(assign(m, optionsFor("data=2,model=2", "data"), &report) == "");
  CHECK(m.arg("train", 0) == "[data+model, -]");
  CHECK(m.arg("train", 1) == "[data+model, -]");
  for (unsigned a : {2u, 3u, 4u})
    CHECK(m.arg("train", a) == "[-, -]");
  CHECK(m.strategy("train", "fc1") == "m=data+model");
  CHECK(m.strategy("train", "relu") == m.strategy("train", "relu.grad"));
  CHECK(m.strategy("train", "fc1.grad_w") == "k=data+model -> [-, -]");
  CHECK(m.strategy("train", "fc2.grad_w") == "k=data+model -> [-, -]");
  CHECK(m.strategy("train", "w1.update") == "");
  CHECK(m.result("train", 0) == "[]");
  CHECK(m.result("train", 1) == "[-, -]");
  CHECK(m.arg("eval", 0) == "[data+model, -]");
  CHECK(m.result("eval", 0) == "[data+model, -]");

  // Only the loss and the two gradients are communicated, by all-reduces of 1, 96 and 48 elements.
  const FunctionReport *train = report.find("train");
  REQUIRE(train);
  std::vector<std::string> seen;
  double bytes = 0;
  for (const OperatorReport &op : train->operators)
    for (const CollectiveReport &c : op.collectives) {
      seen.push_back(op.name + " " + c.kind + " " + c.axes);
      bytes += c.bytesSent;
    }
  CHECK(seen == std::vector<std::string>{"loss/sum all-reduce data,model", "fc2.grad_w all-reduce data,model",
                                         "fc1.grad_w all-reduce data,model"});
  CHECK(bytes == Approx((1 + 48 + 96) * 4 * 2 * 3.0 / 4.0));
  CHECK(train->numCollectives == 3);
  CHECK(train->boundary.empty());
  CHECK(train->persistentBytes == (96 + 48 + 96) * 4);
  CHECK(report.find("eval")->numCollectives == 0);
}

TEST_CASE("other functions are left out where the first one needs more memory than it may") {
  for (const char *mode : {"data", "auto"}) {
    INFO(mode);
    Module whole(kMlp), some(kMlp), none(kMlp);
    AssignOptions options = optionsFor("data=2,model=2", mode);
    AssignReport report;
    REQUIRE(assign(whole, options, &report) == "");
    REQUIRE(report.functions.size() == 2);
    const int64_t needed = report.functions.front().peakBytes;
    options.firstWithin = needed;
    REQUIRE(assign(some, options, &report) == "");
    CHECK(report.functions.size() == 2);
    options.firstWithin = needed - 1;
    REQUIRE(assign(none, options, &report) == "");
    REQUIRE(report.functions.size() == 1);
    CHECK(report.functions.front().name == "train");
    CHECK(report.functions.front().peakBytes == needed);
    CHECK(none.arg("train", 2) == whole.arg("train", 2));
  }
}

TEST_CASE("the report has the costs of what the module's attributes say") {
  for (const char *mode : {"data", "semi-auto", "auto"}) {
    INFO(mode);
    Module m(kMlp);
    const AssignOptions options = optionsFor("data=2,model=2", mode);
    AssignReport report;
    REQUIRE(assign(m, options, &report) == "");
    const std::shared_ptr<Prices> prices = pricesOf(options);
    const CostModel &model = prices->model;
    for (const FunctionReport &function : report.functions) {
      const FunctionReport again = llvm::cantFail(priceFunction(m.func(function.name.c_str()), model, joinOf(options)));
      CHECK(again.compute == function.compute);
      CHECK(again.communication == function.communication);
      CHECK(again.peakBytes == function.peakBytes);
      CHECK(again.persistentBytes == function.persistentBytes);
      REQUIRE(again.operators.size() == function.operators.size());
      for (size_t i = 0; i < again.operators.size(); ++i)
        CHECK(again.operators[i].strategy == function.operators[i].strategy);
    }
  }
}

TEST_CASE("axes that do not divide the batch are left out") {
  Module m(kMlp);
  REQUIRE(assign(m, optionsFor("a=3,b=2", "data")) == "");
  CHECK(m.arg("train", 0) == "[b, -]");
  CHECK(m.strategy("train", "fc1") == "m=b");
}

TEST_CASE("constants and broadcasts take the part that their users want") {
  Module m(R"(
func.func @infer(
    %x: tensor<8x6xf32> {graph.role = "input", graph.name = "x"},
    %b: tensor<6xf32> {graph.role = "parameter", graph.name = "b"},
    %s: tensor<i64> {graph.role = "step", graph.name = "step"})
    -> (tensor<8x6xf32> {graph.role = "output", graph.name = "y"}) {
  %c = graph.constant {graph.name = "c"} dense<0.5> : tensor<8x6xf32>
  %w = graph.broadcast %b {graph.name = "w"} : (tensor<6xf32>) -> tensor<8x6xf32>
  %r = graph.random %s {seed = 1 : i64, stream = 2 : i64, graph.name = "r"} : (tensor<i64>) -> tensor<8x6xf32>
  %wr = graph.mul %w, %r {graph.name = "wr"} : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
  %y0 = graph.mul %x, %c {graph.name = "y0"} : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
  %y = graph.add %y0, %wr {graph.name = "y"} : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
  return %y : tensor<8x6xf32>
}
)");
  REQUIRE(assign(m, optionsFor("data=4", "data")) == "");
  for (const char *name : {"c", "w", "r", "wr", "y0", "y"})
    CHECK(m.strategy("infer", name).find("=data") != std::string::npos);
  CHECK(m.arg("infer", 1) == "[-]");
}

TEST_CASE("a saved assignment gives the same strategies") {
  Module m(kMlp), n(kMlp);
  REQUIRE(assign(m, optionsFor("data=2,model=2", "data")) == "");
  std::string text = saveStrategies(*m.module);
  AssignReport report;
  REQUIRE(assign(n, optionsFor("data=2,model=2", "data", text), &report) == "");
  CHECK(report.mode == "saved");
  CHECK(saveStrategies(*n.module) == text);

  SECTION("another mesh") {
    Module o(kMlp);
    CHECK(assign(o, optionsFor("data=4", "data", text)) ==
          "strategy file test.json: it was saved for mesh data=2,model=2, not for data=4");
  }
  SECTION("another program") {
    Module o(R"(func.func @train() { return })");
    CHECK_THAT(assign(o, optionsFor("data=2,model=2", "data", text)),
               Catch::Contains("it was saved for another program"));
  }
  SECTION("a strategy that does not fit") {
    std::string broken = text;
    broken.replace(broken.find("m=data+model"), 12, "k=data,  n=x");
    Module o(kMlp);
    CHECK_THAT(assign(o, optionsFor("data=2,model=2", "data", broken)), Catch::Contains("operator 'fc1'"));
  }
  SECTION("an argument that is a partial sum") {
    std::string broken = text;
    broken.replace(broken.find("m=data+model"), 12, "| partial 0(model)");
    Module o(kMlp);
    CHECK_THAT(assign(o, optionsFor("data=2,model=2", "data", broken)),
               Catch::Contains("operator 'fc1' expects operand") &&
                   Catch::Contains("a tensor cannot become a partial sum"));
    broken = text;
    broken.replace(broken.find("[data+model, -]"), 15, "[data, -] sum(model)");
    CHECK_THAT(
        assign(o, optionsFor("data=2,model=2", "data", broken)),
        Catch::Contains("[data, -] sum(model) is a partial sum; arguments and results of a function must be complete"));
  }
}

TEST_CASE("options that cannot be met are refused") {
  Module m(kMlp);
  CHECK_THAT(assign(m, optionsFor("data=2", "pipeline")), Catch::Contains("unknown mode 'pipeline'"));
  AssignOptions options = optionsFor("data=16", "data");
  options.topology = llvm::cantFail(Topology::load("8xh100"));
  CHECK_THAT(assign(m, options), Catch::Contains("16 ranks") && Catch::Contains("8 devices"));
}
