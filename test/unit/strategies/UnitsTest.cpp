// Blocks of whole heads: where units come from, how far they travel, what is enumerated and what a user may write.
#include "strategies/space/Units.h"
#include "Programs.h"
#include "strategies/space/Enumerate.h"
#include "strategies/space/Propagate.h"

using namespace tessera::strategies;
namespace dist = tessera::dist;

/// Three heads of four columns: a projection, heads, something by element, and a projection back.
static const char *kHeads = R"(
func.func @infer(%x: tensor<8x6xf32> {graph.role = "input", graph.name = "x"},
                 %w: tensor<6x12xf32> {graph.role = "parameter", graph.name = "w"},
                 %o: tensor<12x6xf32> {graph.role = "parameter", graph.name = "o"})
    -> (tensor<8x6xf32> {graph.role = "output", graph.name = "y"}) {
  %q = graph.matmul %x, %w {graph.name = "q"} : (tensor<8x6xf32>, tensor<6x12xf32>) -> tensor<8x12xf32>
  %e = graph.exp %q {graph.name = "exp"} : (tensor<8x12xf32>) -> tensor<8x12xf32>
  %h = graph.reshape %e {graph.name = "split"} : (tensor<8x12xf32>) -> tensor<8x3x4xf32>
  %t = graph.tanh %h {graph.name = "tanh"} : (tensor<8x3x4xf32>) -> tensor<8x3x4xf32>
  %m = graph.reshape %t {graph.name = "merge"} : (tensor<8x3x4xf32>) -> tensor<8x12xf32>
  %y = graph.matmul %m, %o {graph.name = "out"} : (tensor<8x12xf32>, tensor<12x6xf32>) -> tensor<8x6xf32>
  return %y : tensor<8x6xf32>
})";

static const OperatorInfo &operatorOf(const Program &program, llvm::StringRef name) {
  for (const OperatorInfo &info : program.operators)
    if (info.name == name)
      return info;
  FAIL("no operator " << name.str());
  return program.operators.front();
}

static std::vector<int64_t> unitsOf(const Program &program, llvm::StringRef name, llvm::StringRef factor) {
  const OperatorClass &cls = *operatorOf(program, name).cls;
  const auto &units = cls.units[size_t(cls.rule.findFactor(factor))];
  return {units.begin(), units.end()};
}

TEST_CASE("units travel from reshapes to the products before and behind them") {
  Module m(kHeads);
  Program program = llvm::cantFail(Program::analyse(m.func("infer")));
  CHECK(unitsOf(program, "q", "n") == std::vector<int64_t>{4});
  CHECK(unitsOf(program, "q", "m").empty());
  CHECK(unitsOf(program, "q", "k").empty());
  CHECK(unitsOf(program, "exp", "b1") == std::vector<int64_t>{4});
  CHECK(unitsOf(program, "out", "k") == std::vector<int64_t>{4});
  CHECK(unitsOf(program, "out", "n").empty());
  mlir::func::FuncOp func = m.func("infer");
  const Mesh two = llvm::cantFail(Mesh::parse("model=2")), three = llvm::cantFail(Mesh::parse("model=3"));
  auto args = [&](unsigned a) { return argumentUnits(program, two, func.getArgument(a)); };
  CHECK((args(1)[0].empty() && args(1)[1] == llvm::SmallVector<int64_t, 2>{4}));
  CHECK(argumentUnits(program, three, func.getArgument(1))[1].empty()); // no unit is needed there
  CHECK((args(2)[0] == llvm::SmallVector<int64_t, 2>{4} && args(2)[1].empty()));
}

static std::vector<std::string> cutsOf(const Program &program, llvm::StringRef name, const char *mesh,
                                       llvm::StringRef factor) {
  const OperatorClass &cls = *operatorOf(program, name).cls;
  const Mesh on = llvm::cantFail(Mesh::parse(mesh));
  std::vector<std::string> texts;
  for (const Strategy &s : enumerateStrategies(cls, on)) {
    CHECK(!dist::verifyStrategy(cls.rule, s, on, cls.operandShapes, cls.resultShapes));
    std::string text = dist::strategyText(s, cls.rule, on);
    if (s.results.empty() && s.linear < 0 && llvm::StringRef(text).starts_with((factor + "=").str()))
      texts.push_back(text);
  }
  return texts;
}

TEST_CASE("a product is cut into plain blocks and into blocks of whole heads, where they differ") {
  Module m(kHeads);
  Program program = llvm::cantFail(Program::analyse(m.func("infer")));
  using Texts = std::vector<std::string>;
  CHECK(cutsOf(program, "q", "model=2", "n") == Texts{"n=model", "n=model/4"});
  CHECK(cutsOf(program, "q", "model=3", "n") == Texts{"n=model"});
  CHECK(cutsOf(program, "q", "model=4", "n") == Texts{"n=model"}); // four ranks are too many for three heads
  CHECK(cutsOf(program, "q", "a=2,b=3", "n") == Texts{"n=b", "n=a", "n=a/4", "n=a+b"});
  CHECK(cutsOf(program, "out", "model=2", "k") == Texts{"k=model", "k=model/4"});
  auto shardings = enumerateShardings({6, 12}, llvm::cantFail(Mesh::parse("model=2")), 0, {{}, {4}});
  std::vector<std::string> texts;
  for (const Sharding &s : shardings)
    texts.push_back(s.str(llvm::cantFail(Mesh::parse("model=2"))));
  CHECK(texts == Texts{"[-, -]", "[model, -]", "[-, model]", "[-, model/4]"});
}

TEST_CASE("what is known of a dimension reaches its factors only with the very blocks") {
  Module m(kHeads);
  Program program = llvm::cantFail(Program::analyse(m.func("infer")));
  const OperatorClass &cls = *operatorOf(program, "split").cls;
  auto from = [&](const char *text, const char *on) {
    Mesh mesh = llvm::cantFail(Mesh::parse(on));
    Sharding known = llvm::cantFail(dist::parseSharding(text, mesh));
    Strategy s = strategyFrom(cls, mesh, {&known}, {nullptr});
    CHECK(!dist::verifyStrategy(cls.rule, s, mesh, cls.operandShapes, cls.resultShapes));
    return dist::naturalResult(mesh, cls.rule, s, 0).str(mesh);
  };
  CHECK(from("[-, model/4]", "model=2") == "[-, model, -]");
  CHECK(from("[-, model]", "model=2") == "[-, -, -]"); // six columns are no whole heads
  CHECK(from("[-, model/2]", "model=5") == "[-, -, -]");
  CHECK(from("[-, model]", "model=3") == "[-, model, -]");
  const OperatorClass &back = *operatorOf(program, "merge").cls;
  Mesh mesh = llvm::cantFail(Mesh::parse("model=2"));
  Sharding heads = llvm::cantFail(dist::parseSharding("[-, model, -]", mesh));
  Strategy s = strategyFrom(back, mesh, {&heads}, {nullptr});
  CHECK(dist::naturalResult(mesh, back.rule, s, 0).str(mesh) == "[-, model/4]");
}

static std::string assign(Module &m, const std::string &mesh, const std::string &user) {
  return assign(m, optionsFor(mesh, "semi-auto", user));
}

TEST_CASE("a strategy file asks for whole heads") {
  // By axes, by counts, and by counts alone where plain blocks cannot be.
  const char *columns = R"({"op": "q", "in": [[null, null], [null, "model/4"]]})",
             *counts = R"({"op": "q", "in": [[1, 1], [1, "2/4"]]})";
  for (const char *q : {columns, counts}) {
    Module m(kHeads);
    REQUIRE(assign(m, "model=2", "[" + std::string(q) + R"(, {"op": "exp", "in": [[1, "2/4"]]},
        {"op": "split", "in": [[1, 2]]}, {"op": "tanh", "in": [[1, 2, 1]]}, {"op": "merge", "in": [[1, 2, 1]]},
        {"op": "out", "in": [[1, "2/4"], ["2/4", 1]]}])") == "");
    CHECK(m.strategy("infer", "q") == "n=model/4");
    CHECK(m.strategy("infer", "exp") == "b1=model/4");
    CHECK(m.strategy("infer", "split") == "r1=model");
    CHECK(m.strategy("infer", "tanh") == "b1=model");
    CHECK(m.strategy("infer", "merge") == "r1=model");
    CHECK(m.strategy("infer", "out") == "k=model/4 -> [-, -]");
    CHECK(m.arg("infer", 1) == "[-, model/4]");
    CHECK(m.arg("infer", 2) == "[model/4, -]");
  }
  Module whole(kHeads); // a result in whole heads
  REQUIRE(assign(whole, "model=2", R"([{"op": "q", "in": [[1, 2], [2, 1]], "out": [[1, "2/4"]]}])") == "");
  CHECK(whole.strategy("infer", "q") == "k=model -> [-, model/4]");
  Module even(kHeads); // on three ranks the heads need no unit
  REQUIRE(assign(even, "model=3", R"([{"op": "q", "in": [[1, 1], [1, "3/4"]]}])") == "");
  CHECK(even.strategy("infer", "q") == "n=model");
}

TEST_CASE("a strategy file that cannot have its units is told why") {
  auto error = [](const char *user, const char *mesh = "model=2") {
    Module m(kHeads);
    return assign(m, mesh, user);
  };
  CHECK(error(R"([{"op": "q", "in": [[1, 1], [1, "2/5"]]}])") ==
        "operator 'q': dimension 1 (factor n) of input 1 has 12 elements and cannot be split in 2 in units of 5");
  CHECK(error(R"([{"op": "q", "in": [[1, 1], [1, "4/4"]]}])", "model=4") ==
        "operator 'q': dimension 1 (factor n) of input 1 has 12 elements and cannot be split in 4 in units of 4");
  CHECK(error(R"([{"op": "split", "in": [[null, "model"]]}])") ==
        "operator 'split': dimension 1 (factor r1 r2) of input 0, whose extent is 12, cannot be split in 2; it can in "
        "units of 4: write \"model/4\"");
  for (const char *unit : {"model/", "model/x", "/4", "model/0", "2/", "2/0", "2/x", "2.5/4", "a/2+b"}) {
    INFO(unit);
    auto read = UserStrategies::parse(R"([{"op": "q", "in": [[null, ")" + std::string(unit) + R"("]]}])", "f.json");
    CHECK_FALSE(bool(read));
    std::string text = llvm::toString(read.takeError());
    INFO(text);
    CHECK(text.find("strategy file f.json: operator 'q', in: ") == 0);
  }
}
