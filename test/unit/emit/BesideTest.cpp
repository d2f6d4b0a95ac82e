// Collectives beside kernels: the places of what is in flight, and what waits for what. Programs are local ones, as
// text.
#include "compiler/emit/Plans.h"
#include "dialects/dist/DistDialect.h"
#include "dialects/graph/Graph.h"
#include "runtime/plan/PlanInfo.h"

#include "mlir/Parser/Parser.h"

#include <catch2/catch.hpp>

using namespace mlir;
using namespace tessera;

namespace {

/// The plan of rank 0 of two. `beside` stands for the attribute in the text, or for nothing.
plan::Plan planOf(std::string body, bool beside, const std::string &results) {
  const std::string mark = "BESIDE";
  for (size_t at; (at = body.find(mark)) != std::string::npos;)
    body.replace(at, mark.size(), beside ? ", dist.beside" : "");
  std::string text = R"(
    module attributes {dist.mesh = #dist.mesh<"data=2">} {
      func.func @infer(%x: tensor<64x64xf32> {graph.role = "input", graph.name = "x", dist.sharding = #dist.sharding<"[-, -]">}) -> ()";
  text += results + ") {" + body + "}}";
  MLIRContext context;
  DialectRegistry registry;
  registry.insert<func::FuncDialect, dist::DistDialect, graph::GraphDialect>();
  context.appendDialectRegistry(registry);
  context.loadAllAvailableDialects();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, ParserConfig(&context));
  REQUIRE(module);
  auto plans = compiler::buildPlans(*module, {.model = "test"}); // they pass the checker
  if (!plans)
    FAIL(llvm::toString(plans.takeError()));
  return (*plans)[0];
}

std::string output(const std::string &name, const std::string &type) {
  return "tensor<" + type + "> {graph.role = \"output\", graph.name = \"" + name +
         "\", dist.sharding = #dist.sharding<\"[-, -]\">}";
}

int stepOf(const plan::Plan &plan, const std::string &name) {
  const plan::Program &program = plan.programs(0);
  for (int s = 0; s < program.steps_size(); ++s)
    if (program.steps(s).name() == name)
      return s;
  throw std::runtime_error("no step " + name);
}

std::vector<int> waits(const plan::Plan &plan, const std::string &name) {
  const auto &waits = plan.programs(0).steps(stepOf(plan, name)).waits();
  return {waits.begin(), waits.end()};
}

/// Whether the results of two steps, of one buffer each, share bytes.
bool overlap(const plan::Plan &plan, const std::string &a, const std::string &b) {
  auto range = [&](const std::string &name) {
    for (const plan::Buffer &buffer : plan.buffers())
      if (buffer.name() == name)
        return std::pair(buffer.offset(),
                         buffer.offset() + rt::bytesOf(rt::toVector(buffer.shape()), buffer.dtype()).value());
    throw std::runtime_error("no buffer " + name);
  };
  const auto first = range(a), second = range(b);
  return first.first < second.second && second.first < first.second;
}

} // namespace

TEST_CASE("what a collective reads keeps its place until a kernel waits for it") {
  const std::string body = R"(
    %a = graph.relu %x {graph.name = "a"} : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %s = dist.collective "reduce-scatter" %a {axes = ["data"], dim = 0 : i64, reduction = "sum", graph.name = "s" BESIDE} : (tensor<64x64xf32>) -> tensor<32x64xf32>
    %b = graph.matmul %x, %x {graph.name = "b"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %y = graph.exp %s {graph.name = "y"} : (tensor<32x64xf32>) -> tensor<32x64xf32>
    %c = graph.matmul %b, %b {graph.name = "c"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    return %y, %c : tensor<32x64xf32>, tensor<64x64xf32>)";
  const std::string results = output("y", "32x64xf32") + ", " + output("c", "64x64xf32");
  const plan::Plan line = planOf(body, false, results), beside = planOf(body, true, results);
  CHECK(overlap(line, "a", "b")); // its place is free at once
  CHECK(!overlap(beside, "a", "b"));
  CHECK((overlap(beside, "a", "c") || overlap(beside, "x", "c"))); // free again behind the wait
  CHECK(beside.arena_bytes() > line.arena_bytes());
  CHECK(beside.programs(0).steps(stepOf(beside, "s.reduce-scatter")).resource() == plan::COMMUNICATION);
  CHECK(waits(beside, "s.reduce-scatter") == std::vector<int>{stepOf(beside, "a.relu")});
  CHECK(waits(beside, "b.matmul").empty());
  CHECK(waits(beside, "y.exp") == std::vector<int>{stepOf(beside, "s.reduce-scatter")});
  CHECK(waits(beside, "c.matmul").empty()); // y has waited
  for (const plan::Step &step : line.programs(0).steps())
    CHECK((step.resource() == plan::COMPUTE && step.waits().empty()));
}

TEST_CASE("who waits for a collective waits for those before it") {
  // The first sum is read last. Nothing has to wait for it, since the second one has been waited for.
  const std::string body = R"(
    %a = graph.relu %x {graph.name = "a"} : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %sa = dist.collective "reduce-scatter" %a {axes = ["data"], dim = 0 : i64, reduction = "sum", graph.name = "sa" BESIDE} : (tensor<64x64xf32>) -> tensor<32x64xf32>
    %b = graph.neg %x {graph.name = "b"} : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %sb = dist.collective "reduce-scatter" %b {axes = ["data"], dim = 0 : i64, reduction = "sum", graph.name = "sb" BESIDE} : (tensor<64x64xf32>) -> tensor<32x64xf32>
    %y = graph.exp %sb {graph.name = "y"} : (tensor<32x64xf32>) -> tensor<32x64xf32>
    %c = graph.matmul %x, %x {graph.name = "c"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %z = graph.exp %sa {graph.name = "z"} : (tensor<32x64xf32>) -> tensor<32x64xf32>
    return %y, %c, %z : tensor<32x64xf32>, tensor<64x64xf32>, tensor<32x64xf32>)";
  const std::string results =
      output("y", "32x64xf32") + ", " + output("c", "64x64xf32") + ", " + output("z", "32x64xf32");
  const plan::Plan beside = planOf(body, true, results);
  CHECK((overlap(beside, "a", "c") || overlap(beside, "b", "c")));
  CHECK(waits(beside, "y.exp") == std::vector<int>{stepOf(beside, "sb.reduce-scatter")});
  CHECK(waits(beside, "c.matmul").empty());
  CHECK(waits(beside, "z.exp").empty());
}

TEST_CASE("a sum beside kernels is made in place") {
  const std::string body = R"(
    %a = graph.relu %x {graph.name = "a"} : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %sa = dist.collective "all-reduce" %a {axes = ["data"], reduction = "sum", graph.name = "sa", dist.message = 0 : i64 BESIDE} : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %b = graph.neg %x {graph.name = "b"} : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %sb = dist.collective "all-reduce" %b {axes = ["data"], reduction = "sum", graph.name = "sb", dist.message = 1 : i64 BESIDE} : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %y = graph.exp %sa {graph.name = "y"} : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %z = graph.exp %sb {graph.name = "z"} : (tensor<64x64xf32>) -> tensor<64x64xf32>
    return %y, %z : tensor<64x64xf32>, tensor<64x64xf32>)";
  const std::string results = output("y", "64x64xf32") + ", " + output("z", "64x64xf32");
  const plan::Plan beside = planOf(body, true, results);
  CHECK(overlap(beside, "a", "sa"));
  CHECK(overlap(beside, "sa", "y"));
  CHECK(overlap(beside, "b", "sb"));
  CHECK(beside.arena_bytes() == planOf(body, false, results).arena_bytes());
}

TEST_CASE("a list of gathers or scatters lies anywhere, and no result lies where another operand does") {
  const std::string body = R"(
    %a = graph.relu %x {graph.name = "a"} : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %b = graph.neg %x {graph.name = "b"} : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %sa = dist.collective "reduce-scatter" %a {axes = ["data"], dim = 0 : i64, reduction = "sum", graph.name = "sa", dist.message = 0 : i64 BESIDE} : (tensor<64x64xf32>) -> tensor<32x64xf32>
    %sb = dist.collective "reduce-scatter" %b {axes = ["data"], dim = 1 : i64, reduction = "sum", graph.name = "sb", dist.message = 0 : i64 BESIDE} : (tensor<64x64xf32>) -> tensor<64x32xf32>
    %m = graph.matmul %x, %x {graph.name = "m"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %ga = dist.collective "all-gather" %sa {axes = ["data"], dim = 0 : i64, graph.name = "ga", dist.message = 1 : i64 BESIDE} : (tensor<32x64xf32>) -> tensor<64x64xf32>
    %gb = dist.collective "all-gather" %sb {axes = ["data"], dim = 1 : i64, graph.name = "gb", dist.message = 1 : i64 BESIDE} : (tensor<64x32xf32>) -> tensor<64x64xf32>
    %y = graph.add %ga, %m {graph.name = "y"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %z = graph.exp %gb {graph.name = "z"} : (tensor<64x64xf32>) -> tensor<64x64xf32>
    return %y, %z : tensor<64x64xf32>, tensor<64x64xf32>)";
  const std::string results = output("y", "64x64xf32") + ", " + output("z", "64x64xf32");
  for (bool isBeside : {false, true}) {
    const plan::Plan plan = planOf(body, isBeside, results);
    auto at = [&](const std::string &name) -> const plan::Collective & {
      return plan.programs(0).steps(stepOf(plan, name)).collective();
    };
    CHECK(at("sa.reduce-scatter").along() == 1);
    CHECK(at("sb.reduce-scatter").along() == 0);
    CHECK(at("ga.all-gather").along() == 1);
    CHECK(at("ga.all-gather").joined() == 0);
    for (auto [a, b] : {std::pair("sa", "b"), {"sa", "sb"}, {"sb", "a"}, {"ga", "sb"}, {"gb", "sa"}, {"ga", "gb"}})
      CHECK(!overlap(plan, a, b));
    if (!isBeside)
      continue;
    CHECK(waits(plan, "sb.reduce-scatter").empty()); // the first of a list waits for all
    CHECK(waits(plan, "sa.reduce-scatter") == std::vector<int>{stepOf(plan, "b.neg")});
    CHECK(waits(plan, "y.add") == std::vector<int>{stepOf(plan, "gb.all-gather")});
  }
}
