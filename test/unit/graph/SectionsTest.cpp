// What runs once and what runs for each micro-batch, and what that means for loops, order and memory.
#include "dialects/graph/flow/Sections.h"

#include "dialects/dist/DistDialect.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/GraphAttributes.h"
#include "dialects/graph/flow/Fusion.h"
#include "dialects/graph/flow/Order.h"
#include "strategies/pipeline/Pipeline.h"

#include "mlir/Parser/Parser.h"

#include <catch2/catch.hpp>

#include <functional>

using namespace mlir;
using namespace tessera;
using graph::Section;

namespace {

/// x has the rows of three micro-batches; w is a parameter, m a state that is carried.
constexpr const char *kProgram = R"(
func.func @train(%x: tensor<12x4xf32> {graph.role = "input", graph.name = "x"},
                 %w: tensor<4x4xf32> {graph.role = "parameter", graph.name = "w", graph.update = 0 : i64},
                 %m: tensor<4xf32> {graph.role = "state", graph.name = "m", graph.update = 1 : i64})
    -> (tensor<4x4xf32> {graph.role = "update", graph.name = "w"},
        tensor<4xf32> {graph.role = "update", graph.name = "m"}) {
  %t = graph.transpose %w {perm = array<i64: 1, 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %e = graph.exp %w : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %k = graph.neg %m : (tensor<4xf32>) -> tensor<4xf32>
  %r = graph.micro_rows %x {parts = 3 : i64} : (tensor<12x4xf32>) -> tensor<4x4xf32>
  %y = graph.matmul %r, %t : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %c = graph.reduce_sum %y {dims = array<i64: 0>, keepdims = false} : (tensor<4x4xf32>) -> tensor<4xf32>
  %n = graph.add %k, %c : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s = graph.accumulate %y {parts = 3 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %u = graph.sub %e, %s : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %u, %n : tensor<4x4xf32>, tensor<4xf32>
})";

struct Parsed {
  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  Parsed() {
    context.loadDialect<func::FuncDialect, graph::GraphDialect, dist::DistDialect>();
    module = parseSourceString<ModuleOp>(kProgram, ParserConfig(&context));
    REQUIRE(module);
  }
  func::FuncOp func() { return *module->getOps<func::FuncOp>().begin(); }
};

} // namespace

TEST_CASE("sections follow from data flow") {
  Parsed p;
  const graph::FunctionFlow program(p.func());
  CHECK(program.parts == 3);
  std::string text;
  for (auto [i, op] : llvm::enumerate(program.operators)) {
    const Section section = program.flow.steps[i].section;
    text += op->getName().stripDialect().str() + (section == Section::Begin  ? " begin, "
                                                  : section == Section::Body ? " body, "
                                                                             : " end, ");
    CHECK(program.times(int(i)) == (section == Section::Body ? 3 : 1));
  }
  // exp does not depend on micro-batches, and the body does not need it. neg reads a state that is carried.
  CHECK(text == "transpose begin, exp end, neg body, micro_rows body, matmul body, reduce_sum body, add body, "
                "accumulate body, sub end, ");
  CHECK(succeeded(graph::verifySections(p.func())));
}

TEST_CASE("loops and the order of execution keep sections apart") {
  Parsed p;
  const graph::FunctionFlow program(p.func());
  // neg and add are one loop, exp and sub another; the accumulation and sub have the same points, but other sections.
  CHECK(graph::formLoops(program.flow) == std::vector<int>{0, 1, 2, 3, 4, 5, 2, 5, 1});
  const graph::LoopedFlow looped(program.flow, graph::formLoops(program.flow));
  const std::vector<int> order = graph::executionOrder(looped.flow);
  REQUIRE(order.size() == looped.flow.steps.size());
  for (size_t i = 1; i < order.size(); ++i)
    CHECK(looped.flow.steps[size_t(order[i - 1])].section <= looped.flow.steps[size_t(order[i])].section);
}

TEST_CASE("what the body reads lives until its end, and a sum from its start on") {
  Parsed p;
  const graph::FunctionFlow program(p.func());
  const std::vector<int> order = graph::executionOrder(program.flow);
  const std::vector<graph::Lifetime> lives = graph::lifetimes(program.flow, order);
  auto life = [&](const char *name) {
    for (auto [v, value] : llvm::enumerate(program.tensors))
      if (Operation *op = value.getDefiningOp(); op && op->getName().stripDialect() == name)
        return lives[v];
    return graph::Lifetime();
  };
  int64_t first = -1, last = -1;
  for (auto [time, step] : llvm::enumerate(order))
    if (program.flow.steps[size_t(step)].section == Section::Body) {
      first = first < 0 ? int64_t(time) : first;
      last = int64_t(time);
    }
  CHECK(first == 1);
  CHECK(lives[0].last == last); // x
  CHECK(life("transpose").first == 0);
  CHECK(life("transpose").last == last);
  CHECK(life("accumulate").first == first);
  CHECK(life("accumulate").last > last);
  CHECK(life("micro_rows").last < last);
}

TEST_CASE("the sections of a rank with several stages have names and places") {
  MLIRContext context;
  context.loadDialect<func::FuncDialect>();
  OpBuilder builder(&context);
  OwningOpRef<func::FuncOp> op =
      func::FuncOp::create(builder, builder.getUnknownLoc(), "f", builder.getFunctionType({}, {}));
  std::string text;
  for (size_t place = 0; place < graph::sectionsOf(3); ++place) {
    const Section section = graph::sectionAt(place, 3);
    CHECK(graph::placeOf(section, 3) == place);
    graph::setSection(*op, section);
    CHECK(graph::sectionOf(*op) == section);
    text += op.get()->getAttrOfType<StringAttr>(graph::kSectionAttr).str() + ", ";
  }
  CHECK(text == "begin, forward, forward 1, forward 2, input 2, weight 2, input 1, weight 1, input, weight, end, ");
  for (int chunk : {0, 1, graph::kMostChunks - 1})
    for (Section section : {graph::forwardOf(chunk), graph::inputOf(chunk), graph::weightOf(chunk)}) {
      CHECK(graph::chunkOf(section) == chunk);
      CHECK(graph::isForward(section) == (section == graph::forwardOf(chunk)));
      CHECK(graph::isWeight(section) == (section == graph::weightOf(chunk)));
      CHECK(graph::sectionAt(graph::placeOf(section, graph::kMostChunks), graph::kMostChunks) == section);
    }
}

TEST_CASE("what surely runs before is what a pipeline's tasks say") {
  using namespace strategies;
  for (bool returns : {false, true}) {
    const StagePlaces places{2, returns ? 2 : 3, returns};
    const Pipeline pipeline =
        evenPipeline({.devices = places.devices, .chunks = places.chunks, .returns = places.returns});
    const TaskGraph tasks = pipelineTasks(pipeline);
    // Whether one task needs another, through any others.
    std::function<bool(int, int)> needs = [&](int task, int other) {
      return llvm::any_of(tasks.tasks[size_t(task)].needs,
                          [&](const Need &need) { return need.task == other || needs(need.task, other); });
    };
    for (int device = 0; device < places.devices; ++device) {
      std::vector<std::pair<Section, int>> sections; // of the device, with their tasks
      for (int s = 0; s < places.stages(); ++s)
        if (const int chunk = places.chunkOf(s); places.deviceOf(s) == device)
          for (auto [action, section] :
               {std::pair(Action::Forward, graph::forwardOf(chunk)), std::pair(Action::Input, graph::inputOf(chunk)),
                std::pair(Action::Weight, graph::weightOf(chunk))})
            sections.emplace_back(section, taskOf(pipeline, {action, s, 0}));
      for (auto [first, task] : sections) {
        CHECK(graph::surelyBefore(Section::Begin, first));
        CHECK(graph::surelyBefore(first, Section::End));
        for (auto [then, other] : sections) {
          INFO(returns << ", device " << device << ": " << int(first) << ", " << int(then));
          CHECK(graph::surelyBefore(first, then) == needs(other, task));
          CHECK((!graph::surelyBefore(first, then) || first < then)); // the order of their numbers is one of them
        }
      }
    }
  }
}
