// Emission decides where updates are written, which tensors share memory and what is stored. The plan
// then computes the program. Programs are local ones, as text.
#include "compiler/emit/PlanWriter.h"
#include "compiler/emit/Plans.h"
#include "dialects/dist/DistDialect.h"
#include "dialects/dist/DistOps.h"
#include "dialects/graph/Graph.h"
#include "dialects/graph/flow/Messages.h"
#include "runtime/executor/Executor.h"
#include "runtime/launch/Launcher.h"
#include "runtime/plan/PlanFile.h"

#include "mlir/Parser/Parser.h"

#include <catch2/catch.hpp>
#include <set>

using namespace mlir;
using namespace tessera;
using Catch::Matchers::Contains;

namespace {

struct Module {
  MLIRContext context;
  OwningOpRef<ModuleOp> op;

  explicit Module(const std::string &text) {
    DialectRegistry registry;
    registry.insert<func::FuncDialect, dist::DistDialect, graph::GraphDialect>();
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    op = parseSourceString<ModuleOp>(text, ParserConfig(&context));
    REQUIRE(op);
  }
  std::vector<plan::Plan> plans() {
    auto plans = compiler::buildPlans(*op, {.model = "test"});
    if (!plans)
      FAIL(llvm::toString(plans.takeError()));
    return std::move(*plans);
  }
  std::string error() {
    auto plans = compiler::buildPlans(*op, {.model = "test"});
    return plans ? "" : llvm::toString(plans.takeError());
  }
};

std::vector<std::string> stepNames(const plan::Program &program) {
  std::vector<std::string> names;
  for (const plan::Step &step : program.steps())
    names.push_back(step.name());
  return names;
}

const plan::Binding &binding(const plan::Plan &plan, plan::Role role, const std::string &name) {
  for (const plan::Binding &b : plan.bindings())
    if (b.role() == role && b.name() == name)
      return b;
  throw std::runtime_error("no binding " + name);
}

/// Runs the first program on one rank with the given contents of INPUT, PARAMETER and STATE bindings; returns
/// what all bindings hold then.
std::map<std::string, std::vector<float>> run(const plan::Plan &plan,
                                              const std::map<std::string, std::vector<float>> &contents) {
  std::map<std::string, std::vector<float>> after;
  rt::Status status = rt::runRanks(1, [&](rt::World &world) -> rt::Status {
    auto backend = rt::createBackend("reference");
    if (!backend)
      return backend.status();
    auto executor = rt::Executor::create(plan, **backend, world, {});
    if (!executor)
      return executor.status();
    for (const plan::Binding &b : plan.bindings())
      if (auto it = contents.find(b.name()); it != contents.end() && b.role() != plan::OUTPUT)
        TESSERA_RETURN_IF_ERROR((*executor)->loaded().upload(b.buffer(), it->second.data()));
    TESSERA_RETURN_IF_ERROR((*executor)->run(0));
    for (int b = 0; b < plan.bindings_size(); ++b) {
      if (plan.bindings(b).role() == plan::INPUT) // its memory may have been used again
        continue;
      std::vector<char> bytes;
      TESSERA_RETURN_IF_ERROR((*executor)->fetch(b, bytes));
      const float *values = reinterpret_cast<const float *>(bytes.data());
      after[plan.bindings(b).name()].assign(values, values + bytes.size() / sizeof(float));
    }
    return rt::Status();
  });
  if (!status.ok())
    FAIL(status.message());
  return after;
}

} // namespace

TEST_CASE("an update is written into its parameter") {
  Module module(R"(
    func.func @train(%w: tensor<4xf32> {graph.role = "parameter", graph.name = "w", graph.update = 0 : i64},
                     %g: tensor<4xf32> {graph.role = "input", graph.name = "g"})
        -> (tensor<4xf32> {graph.role = "update", graph.name = "w"}) {
      %n = graph.sub %w, %g {graph.name = "step"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      return %n : tensor<4xf32>
    })");
  plan::Plan plan = module.plans()[0];
  REQUIRE(stepNames(plan.programs(0)) == std::vector<std::string>{"step.sub"});
  CHECK(plan.programs(0).steps(0).kernel().outputs(0) == binding(plan, plan::PARAMETER, "w").buffer());
  CHECK(plan.buffers_size() == 2);
  CHECK(run(plan, {{"w", {1, 2, 3, 4}}, {"g", {1, 1, 2, 2}}}).at("w") == std::vector<float>{0, 1, 1, 2});
}

TEST_CASE("an update waits for later readers of the old value") {
  Module module(R"(
    func.func @train(%w: tensor<2x2xf32> {graph.role = "parameter", graph.name = "w", graph.update = 1 : i64})
        -> (tensor<2x2xf32> {graph.role = "output", graph.name = "y"}, tensor<2x2xf32> {graph.role = "update", graph.name = "w"}) {
      %n = graph.add %w, %w {graph.name = "double"} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
      %y = graph.matmul %w, %n {graph.name = "late"} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
      return %y, %n : tensor<2x2xf32>, tensor<2x2xf32>
    })");
  plan::Plan plan = module.plans()[0];
  CHECK(stepNames(plan.programs(0)) == std::vector<std::string>{"double.add", "late.matmul", "update w"});
  auto after = run(plan, {{"w", {1, 2, 3, 4}}});
  CHECK(after.at("w") == std::vector<float>{2, 4, 6, 8});
  CHECK(after.at("y") == std::vector<float>{14, 20, 30, 44});
}

TEST_CASE("two states change places, and an output sees the old value") {
  Module module(R"(
    func.func @train(%a: tensor<2xf32> {graph.role = "state", graph.name = "a", graph.update = 1 : i64},
                     %b: tensor<2xf32> {graph.role = "state", graph.name = "b", graph.update = 2 : i64},
                     %k: tensor<2xf32> {graph.role = "state", graph.name = "kept", graph.update = 3 : i64, graph.fill = 2.5 : f64})
        -> (tensor<2xf32> {graph.role = "output", graph.name = "old"}, tensor<2xf32> {graph.role = "update", graph.name = "a"},
            tensor<2xf32> {graph.role = "update", graph.name = "b"}, tensor<2xf32> {graph.role = "update", graph.name = "kept"}) {
      return %a, %b, %a, %k : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
    })");
  plan::Plan plan = module.plans()[0];
  CHECK(binding(plan, plan::STATE, "kept").fill() == 2.5);
  auto after = run(plan, {{"a", {1, 2}}, {"b", {3, 4}}, {"kept", {5, 6}}});
  CHECK(after.at("a") == std::vector<float>{3, 4});
  CHECK(after.at("b") == std::vector<float>{1, 2});
  CHECK(after.at("old") == std::vector<float>{1, 2});
  CHECK(after.at("kept") == std::vector<float>{5, 6});
}

TEST_CASE("a step calls its body for each micro-batch, and sums are added up in place") {
  // n is carried: n = 2 n + rows. m is the old n: it sees the n of the micro-batch before.
  Module module(R"(
    func.func @train(%x: tensor<6xf32> {graph.role = "input", graph.name = "x"},
                     %w: tensor<2xf32> {graph.role = "parameter", graph.name = "w", graph.update = 1 : i64},
                     %n: tensor<2xf32> {graph.role = "state", graph.name = "n", graph.update = 2 : i64},
                     %m: tensor<2xf32> {graph.role = "state", graph.name = "m", graph.update = 3 : i64})
        -> (tensor<2xf32> {graph.role = "output", graph.name = "sum"},
            tensor<2xf32> {graph.role = "update", graph.name = "w"},
            tensor<2xf32> {graph.role = "update", graph.name = "n"},
            tensor<2xf32> {graph.role = "update", graph.name = "m"}) {
      %e = graph.neg %w {graph.name = "once"} : (tensor<2xf32>) -> tensor<2xf32>
      %r = graph.micro_rows %x {graph.name = "rows", parts = 3 : i64} : (tensor<6xf32>) -> tensor<2xf32>
      %g = graph.mul %r, %e {graph.name = "g"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      %k = graph.add %n, %n {graph.name = "twice"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      %o = graph.add %k, %r {graph.name = "new"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      %s = graph.accumulate %g {graph.name = "sum", parts = 3 : i64} : (tensor<2xf32>) -> tensor<2xf32>
      %u = graph.sub %w, %s {graph.name = "step"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      return %s, %u, %o, %n : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
    })");
  plan::Plan plan = module.plans()[0];
  const plan::Program &program = plan.programs(0);
  CHECK(stepNames(program) == std::vector<std::string>{"once.neg", "zeros for sum", "rows.micro_rows", "g.mul",
                                                       "twice.add", "new.add", "sum.add", "save n", "update n",
                                                       "update m", "step.sub"});
  CHECK(std::vector<uint32_t>(program.section_ends().begin(), program.section_ends().end()) ==
        std::vector<uint32_t>{2, 10, 11});
  REQUIRE(program.calls_size() == 5);
  for (int call = 0; call < 5; ++call) {
    CHECK(program.calls(call).section() == (call == 0 ? 0u : call == 4 ? 2u : 1u));
    CHECK(program.calls(call).index() == (call == 0 || call == 4 ? 0u : uint32_t(call - 1)));
  }
  const plan::Kernel &sum = program.steps(6).kernel();
  CHECK(sum.name() == "add");
  CHECK(sum.inputs(0) == sum.outputs(0));
  auto after = run(plan, {{"x", {1, 2, 3, 10, 20, 30}}, {"w", {-1, -2}}, {"n", {1, 1}}, {"m", {0, 0}}});
  CHECK(after.at("sum") == std::vector<float>{6, 120}); // rows 1 10, 2 20, 3 30
  CHECK(after.at("w") == std::vector<float>{-7, -122});
  CHECK(after.at("n") == std::vector<float>{19, 118});
  CHECK(after.at("m") == std::vector<float>{8, 44});
}

TEST_CASE("views and equal constants take no memory, large splats no plan bytes") {
  Module module(R"(
    func.func @infer(%x: tensor<4x1024xf32> {graph.role = "input", graph.name = "x"})
        -> (tensor<4096xf32> {graph.role = "output", graph.name = "y"}, tensor<4096xf32> {graph.role = "output", graph.name = "z"}) {
      %v = graph.reshape %x : (tensor<4x1024xf32>) -> tensor<4096xf32>
      %one = graph.constant dense<1.0> : tensor<1xf32>
      %uno = graph.constant dense<1.0> : tensor<1xf32>
      %many = graph.constant {graph.name = "many"} dense<3.0> : tensor<4096xf32>
      %y = graph.add %v, %one : (tensor<4096xf32>, tensor<1xf32>) -> tensor<4096xf32>
      %w = graph.mul %many, %uno : (tensor<4096xf32>, tensor<1xf32>) -> tensor<4096xf32>
      %z = graph.add %y, %w : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
      return %y, %z : tensor<4096xf32>, tensor<4096xf32>
    })");
  plan::Plan plan = module.plans()[0];
  int constants = 0, views = 0;
  for (const plan::Buffer &b : plan.buffers()) {
    constants += !b.constant().empty();
    views += b.alias_of_plus_one() != 0;
    CHECK(b.constant().size() <= 4);
  }
  CHECK(constants == 1);
  CHECK(views == 1);
  // x gives its place to y, the splat to its product and that to z.
  CHECK(plan.arena_bytes() == 64 + 2 * 4096 * 4);
  auto after = run(plan, {{"x", std::vector<float>(4096, 2)}});
  CHECK(after.at("y") == std::vector<float>(4096, 3));
  CHECK(after.at("z") == std::vector<float>(4096, 6));
}

TEST_CASE("programs share parameters by name and activations' memory") {
  Module module(R"(
    func.func @train(%w: tensor<64xf32> {graph.role = "parameter", graph.name = "w"}, %x: tensor<64xf32> {graph.role = "input", graph.name = "x"})
        -> (tensor<64xf32> {graph.role = "output", graph.name = "y"}) {
      %y = graph.add %w, %x : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
      return %y : tensor<64xf32>
    }
    func.func @eval(%w: tensor<64xf32> {graph.role = "parameter", graph.name = "w"}, %x: tensor<64xf32> {graph.role = "input", graph.name = "x"})
        -> (tensor<64xf32> {graph.role = "output", graph.name = "y"}) {
      %y = graph.mul %w, %x : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
      return %y : tensor<64xf32>
    })");
  compiler::MemoryReport report;
  auto plans = llvm::cantFail(compiler::buildPlans(*module.op, {.model = "test"}, &report));
  CHECK(plans[0].programs_size() == 2);
  CHECK(plans[0].arena_bytes() == 2 * 256); // w; x and y in one place, in both programs
  CHECK(report.parameterBytes == 256);
  CHECK(report.activationBytes == 256);
  CHECK_THAT(report.str(), Contains("parameters 256 B"));
}

TEST_CASE("a rank's plan does not depend on those written before it") {
  const bool beside = GENERATE(false, true);
  Module module(R"(
    module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
      func.func @infer(%x: tensor<4x3xf32> {graph.role = "input", graph.name = "x", dist.sharding = #dist.sharding<"[data, model]">, dist.global_shape = array<i64: 7, 6>})
          -> (tensor<2x3xf32> {graph.role = "output", graph.name = "y", dist.sharding = #dist.sharding<"[data+model, -]">, dist.global_shape = array<i64: 7, 3>}) {
        %g = dist.collective "all-gather" %x {axes = ["model"], dim = 1 : i64} : (tensor<4x3xf32>) -> tensor<4x6xf32>
        %s = dist.collective "slice" %g {axes = ["model"], dim = 0 : i64} : (tensor<4x6xf32>) -> tensor<2x6xf32>
        %y = graph.slice %s {starts = array<i64: 0, 0>, limits = array<i64: 2, 3>, strides = array<i64: 1, 1>,
                             dist.per_rank = [{}, {starts = array<i64: 0, 3>, limits = array<i64: 2, 6>}, {},
                                              {starts = array<i64: 0, 1>, limits = array<i64: 2, 4>}]}
            : (tensor<2x6xf32>) -> tensor<2x3xf32>
        return %y : tensor<2x3xf32>
      }
    })");
  if (beside)
    module.op->walk([](dist::CollectiveOp op) { op->setAttr(graph::kBesideAttr, UnitAttr::get(op.getContext())); });
  auto layout = llvm::cantFail(compiler::buildPlanLayout(*module.op));
  const compiler::EmitOptions options{.model = "test"};
  compiler::PlanWriter writer(layout, options);
  std::set<std::string> different;
  for (int64_t rank : {2, 0, 3, 1, 2}) {
    const plan::Plan &plan = *llvm::cantFail(writer.write(rank));
    std::string bytes = rt::serialize(plan);
    CHECK(plan.programs(0).steps(0).resource() == (beside ? plan::COMMUNICATION : plan::COMPUTE));
    CHECK(plan.programs(0).steps(1).waits_size() == beside); // its operator differs from rank to rank
    compiler::PlanWriter fresh(layout, options);
    CHECK(bytes == rt::serialize(*llvm::cantFail(fresh.write(rank))));
    different.insert(bytes);
  }
  CHECK(different.size() == 4);
}

TEST_CASE("ranks have their own boxes, groups and bounds") {
  Module module(R"(
    module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
      func.func @infer(%x: tensor<4x3xf32> {graph.role = "input", graph.name = "x", dist.sharding = #dist.sharding<"[data, model]">, dist.global_shape = array<i64: 8, 6>})
          -> (tensor<2x6xf32> {graph.role = "output", graph.name = "y", dist.sharding = #dist.sharding<"[data+model, -]">, dist.global_shape = array<i64: 8, 6>}) {
        %g = dist.collective "all-gather" %x {axes = ["model"], dim = 1 : i64} : (tensor<4x3xf32>) -> tensor<4x6xf32>
        %y = dist.collective "slice" %g {axes = ["model"], dim = 0 : i64} : (tensor<4x6xf32>) -> tensor<2x6xf32>
        return %y : tensor<2x6xf32>
      }
    })");
  std::vector<plan::Plan> plans = module.plans();
  REQUIRE(plans.size() == 4);
  for (uint32_t rank = 0; rank < 4; ++rank) {
    const plan::Plan &plan = plans[rank];
    CHECK(plan.rank() == rank);
    CHECK(plan.global_batch() == 8);
    REQUIRE(plan.groups_size() == 1);
    CHECK(plan.groups(0).name() == "model");
    CHECK(plan.groups(0).ranks(0) == rank / 2 * 2);
    const plan::Binding &x = binding(plan, plan::INPUT, "x");
    CHECK(x.global_shape(1) == 6);
    CHECK(x.offset(0) == rank / 2 * 4);
    CHECK(x.offset(1) == rank % 2 * 3);
    CHECK(binding(plan, plan::OUTPUT, "y").offset(0) == rank * 2);
    const plan::Kernel &slice = plan.programs(0).steps(1).kernel();
    CHECK(slice.name() == "slice");
    CHECK(slice.attributes(1).name() == "starts");
    CHECK(slice.attributes(1).ints().values(0) == rank % 2 * 2);
  }
}

TEST_CASE("the plan has the limit of an input's values") {
  Module module(R"(
    func.func @infer(%ids: tensor<4xi64> {graph.role = "input", graph.name = "ids", graph.id_limit = 300 : i64},
                     %x: tensor<4xi64> {graph.role = "input", graph.name = "x"})
        -> (tensor<4xi64> {graph.role = "output", graph.name = "y"}) {
      %y = graph.add %ids, %x : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
      return %y : tensor<4xi64>
    })");
  plan::Plan plan = module.plans()[0];
  CHECK(binding(plan, plan::INPUT, "ids").id_limit() == 300);
  CHECK(binding(plan, plan::INPUT, "x").id_limit() == 0);
}

TEST_CASE("the plan has the name under which a state is logged") {
  Module module(R"(
    func.func @train(%scale: tensor<f32> {graph.role = "state", graph.name = "s/scale", graph.log_as = "scale", graph.update = 0 : i64},
                     %good: tensor<f32> {graph.role = "state", graph.name = "s/good", graph.update = 1 : i64})
        -> (tensor<f32> {graph.role = "update", graph.name = "s/scale"}, tensor<f32> {graph.role = "update", graph.name = "s/good"}) {
      return %scale, %good : tensor<f32>, tensor<f32>
    })");
  plan::Plan plan = module.plans()[0];
  CHECK(binding(plan, plan::STATE, "s/scale").log_as() == "scale");
  CHECK(binding(plan, plan::STATE, "s/good").log_as() == "");
}

TEST_CASE("a conversion in a loop keeps digits, unless it rounds") {
  Module module(R"(
    func.func @infer(%x: tensor<2xf32> {graph.role = "input", graph.name = "x"})
        -> (tensor<2xf32> {graph.role = "output", graph.name = "kept"},
            tensor<2xf32> {graph.role = "output", graph.name = "rounded"}) {
      %kept, %rounded = graph.fused(%x) : (tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
      ^bb0(%v: tensor<2xf32>):
        %k = graph.cast %v : (tensor<2xf32>) -> tensor<2xbf16>
        %kw = graph.cast %k : (tensor<2xbf16>) -> tensor<2xf32>
        %r = graph.cast %v {graph.rounds} : (tensor<2xf32>) -> tensor<2xbf16>
        %rw = graph.cast %r : (tensor<2xbf16>) -> tensor<2xf32>
        graph.yield %kw, %rw : tensor<2xf32>, tensor<2xf32>
      }
      return %kept, %rounded : tensor<2xf32>, tensor<2xf32>
    })");
  auto after = run(module.plans()[0], {{"x", {1.001f, 257}}});
  CHECK(after.at("kept") == std::vector<float>{1.001f, 257});
  CHECK(after.at("rounded") == std::vector<float>{1, 256});
}

TEST_CASE("a step says whether it makes infinities of finite operands") {
  Module module(R"(
    module attributes {dist.mesh = #dist.mesh<"data=2">} {
      func.func @infer(%x: tensor<4xf32> {graph.role = "input", graph.name = "x", dist.sharding = #dist.sharding<"[-]">},
                       %on: tensor<4xi1> {graph.role = "input", graph.name = "on", dist.sharding = #dist.sharding<"[-]">})
          -> (tensor<7xf32> {graph.role = "output", graph.name = "y", dist.sharding = #dist.sharding<"[-]">},
              tensor<5xf32> {graph.role = "output", graph.name = "z", dist.sharding = #dist.sharding<"[-]">}) {
        %m = graph.fused(%on, %x) : (tensor<4xi1>, tensor<4xf32>) -> tensor<4xf32> {
        ^bb0(%o: tensor<4xi1>, %v: tensor<4xf32>):
          %none = graph.constant dense<0xFF800000> : tensor<f32>
          %s = graph.select %o, %v, %none : (tensor<4xi1>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
          graph.yield %s : tensor<4xf32>
        }
        %e = graph.exp %m {graph.name = "exp"} : (tensor<4xf32>) -> tensor<4xf32>
        %h = dist.collective "halo" %e {axes = ["data"], dim = 0, halo_lo = 1, halo_hi = 1, fill = 0xFFF0000000000000 : f64} : (tensor<4xf32>) -> tensor<6xf32>
        %y = graph.pad %h {lo = array<i64: 1>, hi = array<i64: 0>, inner = array<i64: 0>, value = 0xFFF0000000000000 : f64} : (tensor<6xf32>) -> tensor<7xf32>
        %z = graph.pad %e {lo = array<i64: 1>, hi = array<i64: 0>, inner = array<i64: 0>, value = 0.0 : f64} : (tensor<4xf32>) -> tensor<5xf32>
        return %y, %z : tensor<7xf32>, tensor<5xf32>
      }
    })");
  std::vector<bool> found;
  plan::Plan plan = module.plans()[0];
  for (const plan::Step &step : plan.programs(0).steps())
    found.push_back(step.makes_infinity());
  CHECK(found == std::vector<bool>{true, false, true, true, false}); // the mask, exp, the halo, a pad and another
}

TEST_CASE("an operator that cannot be emitted is one clear error") {
  Module twice(R"(
    module attributes {dist.mesh = #dist.mesh<"data=2">} {
      func.func @train(%w: tensor<4xf32> {graph.role = "parameter", graph.name = "w", dist.sharding = #dist.sharding<"[-]">})
          -> (tensor<4xf32> {graph.role = "output", graph.name = "y", dist.sharding = #dist.sharding<"[-]">}) { return %w : tensor<4xf32> }
      func.func @eval(%w: tensor<4xf32> {graph.role = "parameter", graph.name = "w", dist.sharding = #dist.sharding<"[data]">})
          -> (tensor<4xf32> {graph.role = "output", graph.name = "y", dist.sharding = #dist.sharding<"[data]">}) { return %w : tensor<4xf32> }
    })");
  CHECK_THAT(twice.error(), Contains("parameter 'w' is [data] here and [-] in another program"));

  Module role(R"(
    func.func @infer(%x: tensor<4xf32> {graph.role = "guest", graph.name = "x"}) -> (tensor<4xf32> {graph.role = "output", graph.name = "y"}) {
      return %x : tensor<4xf32>
    })");
  CHECK_THAT(role.error(), Contains("argument 'x' has the unknown role 'guest'"));

  Module type(R"(
    func.func @infer(%x: tensor<4xi16> {graph.role = "input", graph.name = "x"}) -> (tensor<4xi16> {graph.role = "output", graph.name = "y"}) {
      return %x : tensor<4xi16>
    })");
  CHECK_THAT(type.error(), Contains("'x' has the type tensor<4xi16>, which plans do not have"));

  Module update(R"(
    func.func @train(%w: tensor<4xf32> {graph.role = "parameter", graph.name = "w", graph.update = 3 : i64}) -> (tensor<4xf32> {graph.role = "output", graph.name = "y"}) {
      return %w : tensor<4xf32>
    })");
  CHECK_THAT(update.error(), Contains("'w' is updated by a result that does not exist"));
}
