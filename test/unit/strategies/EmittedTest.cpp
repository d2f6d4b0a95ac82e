// The report prices the collectives that partition emits, operator by operator, for every
// strategy that is enumerated.
#include "Programs.h"

#include "compiler/partition/Passes.h"
#include "dialects/dist/DistOps.h"
#include "strategies/space/Enumerate.h"

#include "mlir/Pass/PassManager.h"

using namespace tessera::strategies;
namespace dist = tessera::dist;
namespace compiler = tessera::compiler;
using mlir::cast;

namespace {

using Line = std::string;

Line line(const std::string &kind, const std::string &axes, const Shape &in, const Shape &out) {
  std::string text = kind + " " + axes;
  for (const Shape *s : {&in, &out}) {
    text += " [";
    for (int64_t d : *s)
      text += std::to_string(d) + " ";
    text += "]";
  }
  return text;
}

std::vector<Line> priced(const FunctionReport &f) {
  std::vector<Line> lines;
  auto add = [&](const std::vector<CollectiveReport> &list) {
    for (const CollectiveReport &c : list)
      lines.push_back(line(c.kind, c.axes, c.localIn, c.localOut));
  };
  for (const OperatorReport &op : f.operators)
    add(op.collectives);
  add(f.boundary);
  llvm::sort(lines);
  return lines;
}

std::vector<Line> emitted(Module &m, const CostModel &model, llvm::StringRef function) {
  mlir::PassManager manager(&m.context);
  manager.addPass(compiler::createDecomposeStatsPass());
  manager.addPass(compiler::createInsertReshardsPass());
  manager.addPass(compiler::createLocalizePass([&](const Mesh &) { return model.collectiveCost(); }, model.sumRules()));
  REQUIRE(mlir::succeeded(manager.run(*m.module)));
  std::vector<Line> lines;
  m.func(function).walk([&](dist::CollectiveOp op) {
    dist::Collective c = op.getCollective(model.mesh());
    std::string axes;
    for (int axis : c.axes)
      axes += (axes.empty() ? "" : ",") + model.mesh().axisName(axis).str();
    lines.push_back(line(dist::stringify(c.kind).str(), axes, c.localIn, c.localOut));
  });
  llvm::sort(lines);
  return lines;
}

std::string single(const std::string &args, const std::string &op, const std::string &result) {
  return "func.func @infer(" + args + ") -> (" + result +
         " {graph.role = \"output\", graph.name = \"y\"}) {\n  %y = " + op + "\n  return %y : " + result + "\n}";
}

} // namespace

TEST_CASE("every enumerated strategy is priced as it is emitted") {
  std::string conv = "{strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, "
                     "groups = 1 : i64}";
  std::vector<std::string> programs = {
      single("%a: tensor<8x4xf32>, %b: tensor<4x12xf32>",
             "graph.matmul %a, %b : (tensor<8x4xf32>, tensor<4x12xf32>) -> tensor<8x12xf32>", "tensor<8x12xf32>"),
      single("%a: tensor<4x4x8x8xf32>, %b: tensor<8x4x3x3xf32>",
             "graph.conv %a, %b " + conv + " : (tensor<4x4x8x8xf32>, tensor<8x4x3x3xf32>) -> tensor<4x8x8x8xf32>",
             "tensor<4x8x8x8xf32>"),
      single("%a: tensor<4x8x6xf32>",
             "graph.reduce_max %a {dims = array<i64: 1>, keepdims = false} : (tensor<4x8x6xf32>) "
             "-> tensor<4x6xf32>",
             "tensor<4x6xf32>"),
      single("%a: tensor<8x4xf32>, %b: tensor<4xf32>",
             "graph.add %a, %b : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>", "tensor<8x4xf32>"),
      single("%a: tensor<4x8xf32>", "graph.softmax %a {dim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>",
             "tensor<4x8xf32>"),
      single("%a: tensor<4x8x2xf32>, %b: tensor<4x8x2xf32>",
             "graph.softmax_grad %a, %b {dim = 1 : i64} : (tensor<4x8x2xf32>, tensor<4x8x2xf32>) "
             "-> tensor<4x8x2xf32>",
             "tensor<4x8x2xf32>"),
      single("%a: tensor<8x6xf32>", "graph.reshape %a : (tensor<8x6xf32>) -> tensor<2x4x6xf32>", "tensor<2x4x6xf32>"),
  };
  AssignOptions options = optionsFor("data=2,model=2", "data");
  CostModel model(options.mesh, options.topology);
  int compared = 0;
  for (const std::string &text : programs) {
    Module parsed(text);
    Program program = llvm::cantFail(Program::analyse(parsed.func("infer")));
    const OperatorClass &cls = *program.operators[0].cls;
    for (const Strategy &s : enumerateStrategies(cls, options.mesh)) {
      if (!s.partial.empty())
        continue; // arguments are never partial
      Module m(text);
      INFO(text << "\nstrategy " << dist::strategyText(s, cls.rule, options.mesh));
      mlir::func::FuncOp func = m.func("infer");
      mlir::Operation *op = &func.getBody().front().front();
      dist::setMesh(*m.module, options.mesh);
      dist::setStrategy(op, cls.rule, options.mesh, s);
      // Arguments arrive whole and the result leaves whole: reshards on both sides.
      auto whole = [&](mlir::Type type) {
        return dist::ShardingAttr::get(&m.context, options.mesh,
                                       Sharding::replicated(cast<mlir::RankedTensorType>(type).getRank()));
      };
      for (unsigned a = 0; a < func.getNumArguments(); ++a)
        func.setArgAttr(a, dist::kShardingAttr, whole(func.getArgumentTypes()[a]));
      func.setResultAttr(0, dist::kShardingAttr, whole(func.getResultTypes()[0]));
      FunctionReport report = llvm::cantFail(priceFunction(func, model));
      CHECK(priced(report) == emitted(m, model, "infer"));
      ++compared;
    }
  }
  CHECK(compared > 200);
}

TEST_CASE("whole programs are priced as they are emitted") {
  for (const char *mode : {"data", "semi-auto", "auto"})
    for (const char *mesh : {"data=2", "data=2,model=2", "a=4,b=2"}) {
      INFO(mode << " " << mesh);
      Module m(kMlp);
      std::string user = std::string(mode) == "data" ? "" : R"([{"op": "fc1", "in": [[1, 2], [2, 1]]}])";
      AssignOptions options = optionsFor(mesh, mode, user);
      const std::shared_ptr<Prices> prices = pricesOf(options);
      const CostModel &model = prices->model;
      AssignReport report;
      REQUIRE(assign(m, options, &report) == "");
      std::vector<Line> expected = priced(*report.find("train"));
      CHECK(expected == emitted(m, model, "train"));
    }
}

TEST_CASE("collectives over several axes are planned apart where the step takes less time so, and emitted as priced") {
  // Four devices a machine: `b` is within one, and `a` reaches over two.
  AssignOptions options = optionsFor("a=4,b=2", "data");
  options.join = llvm::cantFail(parseJoin("auto"));
  options.join.overlap = Overlapping::Auto;
  int apart = 0, inOne = 0;
  for (const char *between : {"1e6", "1e7", "1e8"}) {
    INFO(between);
    options.topology = llvm::cantFail(Topology::parse(
        std::string(R"({"devices": 8, "flops": {"f32": 1e9}, "memory_bandwidth": 1e10, "memory": 1000000,
                        "beside": {"slowdown": 0}, "links": [{"devices": 4, "latency": 1e-9, "bandwidth": 1e9},
                        {"devices": 8, "latency": 1e-9, "bandwidth": )") +
            between + "}]}",
        "two links"));
    const std::shared_ptr<Prices> prices = pricesOf(options);
    Module m(kMlp);
    AssignReport report;
    REQUIRE(assign(m, options, &report) == "");
    mlir::func::FuncOp train = m.func("train");
    const bool isApart = train->hasAttr(dist::kApartAttr);
    (isApart ? apart : inOne) += 1;
    auto predicted = [&](bool other) {
      Module copy(kMlp);
      REQUIRE(assign(copy, options) == "");
      if (other)
        copy.func("train")->setAttr(dist::kApartAttr, mlir::UnitAttr::get(&copy.context));
      else
        copy.func("train")->removeAttr(dist::kApartAttr);
      return llvm::cantFail(priceFunction(copy.func("train"), prices->model, joinOf(options))).predicted();
    };
    CHECK(report.predicted() == std::min(predicted(true), predicted(false)));
    CHECK(report.predicted() == predicted(isApart));
    AssignOptions again = options;
    again.user = llvm::cantFail(UserStrategies::parse(saveStrategies(*m.module), "saved.json"));
    again.mode = "auto";
    Module saved(kMlp);
    AssignReport reportOfSaved;
    REQUIRE(assign(saved, again, &reportOfSaved) == "");
    CHECK(reportOfSaved.predicted() == report.predicted());
    CHECK(priced(report.functions.front()) == emitted(m, prices->model, "train"));
    CHECK(!m.func("train")->hasAttr(dist::kApartAttr));
  }
  CHECK(apart > 0);
  CHECK(inOne > 0);
}
