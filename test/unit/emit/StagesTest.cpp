// The plans of a pipeline: messages, calls, and places for the micro-batches that are under way.
#include "compiler/emit/Plans.h"
#include "dialects/dist/DistDialect.h"
#include "dialects/graph/Graph.h"

#include "mlir/Parser/Parser.h"

#include <catch2/catch.hpp>

using namespace mlir;
using namespace tessera;
using Catch::Matchers::Contains;

namespace {

/// Two stages: y = x w v, with gradients of w and v. `first` and `second` are the calls.
std::string stages(const std::string &first, const std::string &second) {
  return R"(
    module {
      module @stage0 attributes {dist.stage = 0 : i64, dist.stages = 2 : i64} {
        func.func @train(%x: tensor<6xf32> {graph.role = "input", graph.name = "x", graph.ordinal = 0 : i64},
                         %w: tensor<2xf32> {graph.role = "parameter", graph.name = "w", graph.update = 1 : i64})
            -> (tensor<f32> {graph.role = "loss", graph.name = "loss"}, tensor<2xf32> {graph.role = "update", graph.name = "w"})
            attributes {graph.micro_batches = 3 : i64, dist.calls = array<i64: )" +
         first + R"(>} {
          %r = graph.micro_rows %x {graph.name = "rows", graph.section = "forward", parts = 3 : i64} : (tensor<6xf32>) -> tensor<2xf32>
          %h = graph.mul %r, %w {graph.name = "h", graph.section = "forward"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
          dist.send %h {graph.name = "h", channel = 0 : i64, graph.section = "forward", peer = 1 : i64} : tensor<2xf32>
          %dh = dist.receive {graph.name = "dh", channel = 1 : i64, graph.section = "weight", peer = 1 : i64} : tensor<2xf32>
          %g = graph.mul %r, %dh {graph.name = "g", graph.section = "weight"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
          %s = graph.accumulate %g {graph.name = "sum", graph.section = "weight", parts = 3 : i64} : (tensor<2xf32>) -> tensor<2xf32>
          %u = graph.sub %w, %s {graph.name = "step", graph.section = "end"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
          %l = dist.receive {graph.name = "l", channel = 2 : i64, graph.section = "end", peer = 1 : i64} : tensor<f32>
          return %l, %u : tensor<f32>, tensor<2xf32>
        }
      }
      module @stage1 attributes {dist.stage = 1 : i64, dist.stages = 2 : i64} {
        func.func @train(%v: tensor<2xf32> {graph.role = "parameter", graph.name = "v", graph.update = 1 : i64})
            -> (tensor<f32> {graph.role = "loss", graph.name = "loss"}, tensor<2xf32> {graph.role = "update", graph.name = "v"})
            attributes {graph.micro_batches = 3 : i64, dist.calls = array<i64: )" +
         second + R"(>} {
          %h = dist.receive {graph.name = "h", channel = 0 : i64, graph.section = "forward", peer = 0 : i64} : tensor<2xf32>
          %y = graph.mul %h, %v {graph.name = "y", graph.section = "forward"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
          %t = graph.reduce_sum %y {graph.name = "t", graph.section = "forward", dims = array<i64: 0>, keepdims = false} : (tensor<2xf32>) -> tensor<f32>
          %l = graph.accumulate %t {graph.name = "l", graph.section = "forward", parts = 3 : i64} : (tensor<f32>) -> tensor<f32>
          dist.send %l {graph.name = "l", channel = 2 : i64, graph.section = "end", peer = 0 : i64} : tensor<f32>
          %dh = graph.mul %y, %v {graph.name = "dh", graph.section = "input"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
          dist.send %dh {graph.name = "dh", channel = 1 : i64, graph.section = "input", peer = 0 : i64} : tensor<2xf32>
          %g = graph.mul %h, %y {graph.name = "g", graph.section = "weight"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
          %s = graph.accumulate %g {graph.name = "sum", graph.section = "weight", parts = 3 : i64} : (tensor<2xf32>) -> tensor<2xf32>
          %u = graph.sub %v, %s {graph.name = "step", graph.section = "end"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
          return %l, %u : tensor<f32>, tensor<2xf32>
        }
      }
    })";
}

struct Plans {
  std::vector<plan::Plan> plans;
  std::string error;

  explicit Plans(const std::string &text) {
    DialectRegistry registry;
    registry.insert<func::FuncDialect, dist::DistDialect, graph::GraphDialect>();
    MLIRContext context(registry);
    context.loadAllAvailableDialects();
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, ParserConfig(&context));
    REQUIRE(module);
    auto made = compiler::buildPlans(*module, {.model = "test"});
    if (made)
      plans = std::move(*made);
    else
      error = llvm::toString(made.takeError());
  }
};

std::string callsOf(const plan::Program &program) {
  std::string text;
  for (const plan::Call &call : program.calls())
    text += (text.empty() ? "" : " ") + std::to_string(call.section()) + "." + std::to_string(call.index());
  return text;
}

// Section and index, as strategies name them: 1 forward, 2 input, 3 weight. All of gpipe, and of 1f1b.
const char *const kAll = "0,0, 1,0, 1,1, 1,2, 2,0, 3,0, 2,1, 3,1, 2,2, 3,2, 4,0";
const char *const kFirst = "0,0, 1,0, 1,1, 2,0, 3,0, 1,2, 2,1, 3,1, 2,2, 3,2, 4,0";
const char *const kLast = "0,0, 1,0, 2,0, 3,0, 1,1, 2,1, 3,1, 1,2, 2,2, 3,2, 4,0";

} // namespace

TEST_CASE("each stage of a pipeline has steps, sections and calls of its own") {
  Plans made(stages(kFirst, kLast));
  REQUIRE(made.error == "");
  REQUIRE(made.plans.size() == 2);
  for (int rank : {0, 1}) {
    const plan::Plan &plan = made.plans[size_t(rank)];
    CHECK(plan.rank() == uint32_t(rank));
    CHECK(plan.stages() == 2);
    REQUIRE(plan.mesh_size() == 1);
    CHECK(plan.mesh(0).name() == "stage");
    CHECK(plan.mesh(0).size() == 2);
    CHECK(plan.global_batch() == 6); // also where no input is read
  }
  // The first stage sends nothing back: its section of index 2 has no steps and is not called.
  CHECK(callsOf(made.plans[0].programs(0)) == "0.0 1.0 1.1 3.0 1.2 3.1 3.2 4.0");
  CHECK(callsOf(made.plans[1].programs(0)) == "0.0 1.0 2.0 3.0 1.1 2.1 3.1 1.2 2.2 3.2 4.0");
  const plan::Step &send = made.plans[0].programs(0).steps(3);
  REQUIRE(send.has_send());
  CHECK(send.send().peer() == 1);
  CHECK(send.send().channel() == 0);
  const plan::Step &receive = made.plans[1].programs(0).steps(2);
  REQUIRE(receive.has_receive());
  CHECK(receive.receive().peer() == 0);
}

TEST_CASE("a frame has as many places as micro-batches are between its sections") {
  auto frames = [](const plan::Plan &plan) {
    std::string text;
    for (const plan::Frame &frame : plan.frames())
      text += (text.empty() ? "" : ", ") + std::to_string(frame.slots()) + " x " + std::to_string(frame.bytes());
    return text;
  };
  Plans inTurn(stages(kFirst, kLast)), all(stages(kAll, kAll));
  REQUIRE(inTurn.error == "");
  REQUIRE(all.error == "");
  // The rows, for the gradient of w.
  CHECK(frames(inTurn.plans[0]) == "2 x 64");
  CHECK(frames(all.plans[0]) == "3 x 64");
  // h and y, both until the gradient of v.
  CHECK(frames(inTurn.plans[1]) == "1 x 128");
  CHECK(frames(all.plans[1]) == "3 x 128");
  CHECK(all.plans[0].arena_bytes() == inTurn.plans[0].arena_bytes() + 64);
}

TEST_CASE("a stage with micro-batches needs calls that exist") {
  CHECK_THAT(Plans(stages("5,0", kLast)).error, Contains("calls section 5 with index 0"));
  CHECK_THAT(Plans(stages("1,3", kLast)).error, Contains("calls section 1 with index 3"));
}
