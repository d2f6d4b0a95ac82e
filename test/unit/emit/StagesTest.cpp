// The plans of a pipeline: messages, calls, and places for the micro-batches that are under way.
#include "compiler/emit/Plans.h"
#include "dialects/dist/DistDialect.h"
#include "dialects/dist/Text.h"
#include "dialects/dist/exchange/MeshBoxes.h"
#include "dialects/graph/Graph.h"
#include "runtime/executor/Executor.h"
#include "runtime/launch/Launcher.h"

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

namespace {

constexpr const char *kFirstMesh = "data=2,model=2", *kSecondMesh = "cols=3";

/// h = relu(x) on four ranks, y = h + x on three. `boxes`: attributes of the message between them.
std::string unevenStages(const std::string &boxes) {
  auto argument = [](const char *sharding) {
    return std::string(R"({graph.role = "input", graph.name = "x", graph.ordinal = 0 : i64, dist.sharding = )") +
           "#dist.sharding<\"" + sharding + "\">, dist.global_shape = array<i64: 8, 6>}";
  };
  return std::string(
             "module {\n  module @stage0 attributes {dist.stage = 0 : i64, dist.stages = 2 : i64, dist.mesh = ") +
         "#dist.mesh<\"" + kFirstMesh + "\">} {\n    func.func @infer(%x: tensor<4x3xf32> " +
         argument("[data, model]") + R"() {
          %h = graph.relu %x {graph.name = "h"} : (tensor<4x3xf32>) -> tensor<4x3xf32>
          dist.send %h {graph.name = "h", channel = 5 : i64, peer = 1 : i64)" +
         boxes + R"(} : tensor<4x3xf32>
          return
        }
      }
      module @stage1 attributes {dist.stage = 1 : i64, dist.stages = 2 : i64, dist.mesh = #dist.mesh<")" +
         kSecondMesh + "\">} {\n    func.func @infer(%x: tensor<8x2xf32> " + argument("[-, cols]") +
         R"() -> (tensor<8x2xf32> {graph.role = "output", graph.name = "y", graph.ordinal = 0 : i64,
            dist.sharding = #dist.sharding<"[-, cols]">, dist.global_shape = array<i64: 8, 6>}) {
          %h = dist.receive {graph.name = "h", channel = 5 : i64, peer = 0 : i64)" +
         boxes + R"(} : tensor<8x2xf32>
          %y = graph.add %h, %x {graph.name = "y"} : (tensor<8x2xf32>, tensor<8x2xf32>) -> tensor<8x2xf32>
          return %y : tensor<8x2xf32>
        }
      }
    })";
}

std::string boxesOfH() {
  const dist::Mesh first = cantFail(dist::Mesh::parse(kFirstMesh)), second = cantFail(dist::Mesh::parse(kSecondMesh));
  std::string text;
  for (int64_t number :
       dist::numbersOf(dist::boxesBetween({8, 6}, first, cantFail(dist::parseSharding("[data, model]", first)), second,
                                          cantFail(dist::parseSharding("[-, cols]", second)))))
    text += (text.empty() ? "" : ", ") + std::to_string(number);
  return ", dist.boxes = array<i64: " + text + ">";
}

/// The rank's block of [8, 6] with numbers of both signs.
std::vector<float> blockOf(const plan::Plan &plan, const plan::Binding &binding, bool result) {
  const plan::Buffer &buffer = plan.buffers(int(binding.buffer()));
  std::vector<float> values;
  for (int64_t row = binding.offset(0); row < binding.offset(0) + buffer.shape(0); ++row)
    for (int64_t column = binding.offset(1); column < binding.offset(1) + buffer.shape(1); ++column) {
      const auto x = float((row * 6 + column) * 5 % 7 - 3);
      values.push_back(result ? std::max(x, 0.0F) + x : x);
    }
  return values;
}

} // namespace

TEST_CASE("stages with meshes of their own send each other boxes") {
  Plans made(unevenStages(boxesOfH()));
  REQUIRE(made.error == "");
  REQUIRE(made.plans.size() == 7);
  for (uint32_t rank = 0; rank < 7; ++rank) {
    const plan::Plan &plan = made.plans[rank];
    CHECK(plan.rank() == rank);
    CHECK(plan.version() == 9);
    CHECK(std::vector<uint32_t>(plan.stage_ranks().begin(), plan.stage_ranks().end()) == std::vector<uint32_t>{4, 3});
    CHECK(plan.mesh(0).name() == (rank < 4 ? "data" : "cols"));
    CHECK(plan.global_batch() == 8);
  }
  std::map<std::pair<uint32_t, uint32_t>, int64_t> sent; // elements
  for (uint32_t rank = 0; rank < 4; ++rank)
    for (const plan::PeerBox &box : made.plans[rank].programs(0).steps(1).send().boxes())
      sent[{rank, box.peer()}] = box.shape(0) * box.shape(1);
  using Sent = std::map<std::pair<uint32_t, uint32_t>, int64_t>;
  CHECK(sent ==
        Sent{{{0, 4}, 8}, {{0, 5}, 4}, {{1, 5}, 4}, {{1, 6}, 8}, {{2, 4}, 8}, {{2, 5}, 4}, {{3, 5}, 4}, {{3, 6}, 8}});

  for (const char *backend : {"reference", "cpu"}) {
    rt::Status status = rt::runRanks(7, [&](rt::World &world) -> rt::Status {
      const plan::Plan &plan = made.plans[size_t(world.rank())];
      auto device = rt::createBackend(backend);
      auto executor = rt::Executor::create(plan, **device, world, {});
      if (!executor)
        return executor.status();
      TESSERA_RETURN_IF_ERROR((*executor)->feed(0, blockOf(plan, plan.bindings(0), false).data()));
      TESSERA_RETURN_IF_ERROR((*executor)->run(0));
      if (plan.bindings_size() < 2)
        return {};
      std::vector<char> host;
      TESSERA_RETURN_IF_ERROR((*executor)->fetch(1, host));
      const auto *y = reinterpret_cast<const float *>(host.data());
      return std::vector<float>(y, y + host.size() / sizeof(float)) == blockOf(plan, plan.bindings(1), true)
                 ? rt::Status()
                 : rt::Status::error("another y");
    });
    CHECK(status.message() == "");
  }
}

TEST_CASE("stages with meshes of their own need boxes") {
  CHECK_THAT(Plans(unevenStages("")).error, Contains("'h' goes to a stage with another mesh, but has no boxes"));
  // A box too few: the checker finds it.
  std::string boxes = boxesOfH();
  boxes.resize(boxes.size() - 1);
  for (int number = 0; number < 8; ++number)
    boxes.resize(boxes.rfind(','));
  CHECK_THAT(Plans(unevenStages(boxes + ">")).error, Contains("does not cover"));
}
