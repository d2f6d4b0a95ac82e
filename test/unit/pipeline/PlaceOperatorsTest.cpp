// The stage of every operator of a local program whose forward pass is cut.
#include "compiler/pipeline/PlaceOperators.h"
#include "compiler/pipeline/Calls.h"

#include "dialects/dist/DistOps.h"
#include "dialects/graph/Graph.h"

#include "mlir/Parser/Parser.h"

#include <catch2/catch.hpp>
#include <map>

using namespace mlir;
using namespace tessera;

namespace {

/// By name of operators and arguments: the stage; -1: every stage that reads it.
std::map<std::string, int64_t> stagesOf(const std::string &text, const compiler::PipelineOptions &options = {},
                                        int64_t limit = 0) {
  MLIRContext context;
  context.loadDialect<func::FuncDialect, graph::GraphDialect, dist::DistDialect>();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  REQUIRE(module);
  const strategies::Topology topology = llvm::cantFail(strategies::Topology::load("8xa100"));
  const strategies::CostModel all(*dist::Mesh::parse("stage=2,data=2"), topology);
  const strategies::CostModel stage(*dist::Mesh::parse("data=2"), topology);
  llvm::Error e = compiler::placeOperators(
      *module, {all, stage, limit, options.places(2), {}, compiler::placesOf(options, 2, /*microBatches=*/4)});
  const std::string error = e ? llvm::toString(std::move(e)) : "";
  REQUIRE(error == "");
  std::map<std::string, int64_t> stages;
  for (func::FuncOp func : module->getOps<func::FuncOp>()) {
    for (unsigned a = 0; a < func.getNumArguments(); ++a)
      if (auto number = func.getArgAttrOfType<IntegerAttr>(a, dist::kStageAttr))
        stages[graph::argName(func, a).str()] = number.getInt();
    for (Operation &op : func.getBody().front().without_terminator()) {
      auto number = op.getAttrOfType<IntegerAttr>(dist::kStageAttr);
      stages[graph::nameOf(&op)] = number ? number.getInt() : -1;
    }
  }
  return stages;
}

} // namespace

TEST_CASE("a parameter that may expire leaves the gradients of each stage where they are", "[pipeline]") {
  // Both stages read %w, as both ends of a language model read its table. What the backward pass reads of it shows it
  // anew for each micro-batch.
  std::map<std::string, int64_t> stages = stagesOf(R"(
module attributes {dist.mesh = #dist.mesh<"data=2">} {
  func.func @train(%x: tensor<8x4xf32> {graph.role = "input", graph.name = "x"},
                   %w: tensor<4x4xf32> {graph.role = "parameter", graph.name = "w", graph.update = 1 : i64})
      -> (tensor<f32> {graph.role = "loss", graph.name = "loss"},
          tensor<4x4xf32> {graph.role = "update", graph.name = "w"}) {
    %r = graph.micro_rows %x {parts = 2 : i64, graph.name = "rows"} : (tensor<8x4xf32>) -> tensor<4x4xf32>
    %k = graph.reshape %w {graph.keeps_copy, graph.name = "kept"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %f = graph.reshape %k {graph.anew = 2 : i64, graph.name = "forward"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %h = graph.matmul %r, %f {graph.name = "h", dist.stage = 0 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %y = graph.matmul %h, %f {graph.name = "y", dist.stage = 1 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %l = graph.reduce_sum %y {dims = array<i64: 0, 1>, keepdims = false, graph.name = "l", dist.stage = 1 : i64} : (tensor<4x4xf32>) -> tensor<f32>
    %loss = graph.accumulate %l {parts = 2 : i64, graph.name = "loss", dist.stage = 1 : i64} : (tensor<f32>) -> tensor<f32>
    %b = graph.reshape %k {graph.anew = 2 : i64, graph.name = "backward"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %dh = graph.matmul %y, %b {graph.grad_of = "y", graph.name = "dh"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %dw2 = graph.matmul %h, %y {graph.grad_of = "y", graph.name = "dw2"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %dx = graph.matmul %dh, %b {graph.grad_of = "h", graph.name = "dx"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %dw1 = graph.matmul %dx, %dh {graph.grad_of = "h", graph.name = "dw1"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %dw = graph.add %dw1, %dw2 {graph.name = "dw"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %s = graph.accumulate %dw {parts = 2 : i64, graph.name = "sum"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %u = graph.sub %w, %s {graph.name = "update"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %loss, %u : tensor<f32>, tensor<4x4xf32>
  }
})");
  CHECK(stages["w"] == 0);
  CHECK(stages["kept"] == 0);
  CHECK(stages["forward"] == -1);
  CHECK(stages["backward"] == -1);
  CHECK(stages["dh"] == 1);
  CHECK(stages["dw2"] == 1);
  CHECK(stages["dx"] == 0);
  CHECK(stages["dw1"] == 0);
}

TEST_CASE("stages of one rank share its memory", "[pipeline]") {
  // Six equal products, of which the first has four parameters. The limit leaves its rank room for one product more:
  // that of stage 0 there and back, where the sum of the last one is stage 3, and else that of stage 2.
  std::string text = R"(
module attributes {dist.mesh = #dist.mesh<"data=2">} {
  func.func @train(%x: tensor<8192x2048xf32> {graph.role = "input", graph.name = "x"})";
  auto parameter = [&](const std::string &name) {
    text += ",\n %" + name + ": tensor<2048x2048xf32> {graph.role = \"parameter\", graph.name = \"" + name + "\"}";
  };
  auto binary = [&](const std::string &kind, const std::string &name, const std::string &a, const std::string &b) {
    text += "    %" + name + " = graph." + kind + " %" + a + ", %" + b + " {graph.name = \"" + name +
            "\"} : (tensor<2048x2048xf32>, tensor<2048x2048xf32>) -> tensor<2048x2048xf32>\n";
  };
  for (const char *name : {"w0", "w1", "w2", "w3", "w4", "w5", "a", "b", "c"})
    parameter(name);
  text += R"() -> (tensor<f32> {graph.role = "loss", graph.name = "loss"}) {
    %rows = graph.micro_rows %x {parts = 4 : i64, graph.name = "rows"} : (tensor<8192x2048xf32>) -> tensor<2048x2048xf32>
)";
  binary("add", "ab", "a", "b");
  binary("add", "abc", "ab", "c");
  binary("add", "sum", "abc", "w0");
  binary("matmul", "y0", "rows", "sum");
  for (int i = 1; i < 6; ++i)
    binary("matmul", "y" + std::to_string(i), "y" + std::to_string(i - 1), "w" + std::to_string(i));
  text += R"(
    %l = graph.reduce_sum %y5 {dims = array<i64: 0, 1>, keepdims = false, graph.name = "l"} : (tensor<2048x2048xf32>) -> tensor<f32>
    %loss = graph.accumulate %l {parts = 4 : i64, graph.name = "loss"} : (tensor<f32>) -> tensor<f32>
    return %loss : tensor<f32>
  }
})";
  constexpr int64_t kBytes = 2048 * 2048 * 4;
  using Stages = std::vector<int64_t>;
  for (const auto &[schedule, expected] :
       {std::pair("zb-v", Stages{0, 0, 1, 1, 2, 2}), std::pair("interleaved:2", Stages{0, 1, 1, 2, 3, 3})}) {
    INFO(schedule);
    const compiler::PipelineOptions options =
        llvm::cantFail(compiler::parsePipeline(std::string("schedule=") + schedule));
    std::map<std::string, int64_t> stages = stagesOf(text, options, 5 * kBytes);
    Stages found;
    for (int i = 0; i < 6; ++i)
      found.push_back(stages["y" + std::to_string(i)]);
    CHECK(found == expected);
  }
}

TEST_CASE("a model file decides in which stage an operator is, in every function", "[pipeline]") {
  // No parameter holds the second product of @eval, which is cheaper in the first stage.
  const std::string body = R"(%x: tensor<4x4xf32> {graph.role = "input", graph.name = "x"},
       %w: tensor<4x4xf32> {graph.role = "parameter", graph.name = "w"}) -> (tensor<f32> {graph.role = "loss", graph.name = "loss"}) {
    %h = graph.matmul %x, %w {graph.name = "NAME.h", graph.given_stage = 0 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %s = graph.softmax %h {dim = 1 : i64, graph.name = "NAME.s", graph.given_stage = FIRST : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %y = graph.matmul %s, %s {graph.name = "NAME.y", graph.given_stage = 1 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %l = graph.reduce_sum %y {dims = array<i64: 0, 1>, keepdims = false, graph.name = "NAME.l"} : (tensor<4x4xf32>) -> tensor<f32>
    return %l : tensor<f32>
  }
)";
  for (int64_t first : {0, 1}) {
    std::string text = R"(module attributes {dist.mesh = #dist.mesh<"data=2">} {)";
    for (std::string name : {"train", "eval"}) {
      std::string function = "\n  func.func @" + name + "(" + body;
      for (const auto &[from, to] :
           {std::pair<std::string, std::string>("NAME", name), {"FIRST", std::to_string(first)}})
        for (size_t at; (at = function.find(from)) != std::string::npos;)
          function.replace(at, from.size(), to);
      text += function;
    }
    std::map<std::string, int64_t> stages = stagesOf(text + "}");
    CHECK(stages["w"] == 0);
    for (std::string name : {"train", "eval"}) {
      INFO(name << " " << first);
      CHECK(stages[name + ".h"] == 0);
      CHECK(stages[name + ".s"] == first);
      CHECK(stages[name + ".y"] == 1);
      CHECK(stages[name + ".l"] == 1);
    }
  }
}
