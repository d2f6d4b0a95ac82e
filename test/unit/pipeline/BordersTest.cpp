// What stands between a value and its readers of another stage, where stages have meshes of their own.
#include "compiler/pipeline/Passes.h"
#include "compiler/pipeline/Versions.h"

#include "dialects/dist/DistOps.h"
#include "dialects/dist/exchange/MeshBoxes.h"
#include "dialects/graph/Graph.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include "llvm/ADT/StringExtras.h"

#include <catch2/catch.hpp>
#include <set>

using namespace mlir;
using namespace tessera;

namespace {

struct Module {
  explicit Module(const std::string &text) {
    context.loadDialect<func::FuncDialect, graph::GraphDialect, dist::DistDialect>();
    module = parseSourceString<ModuleOp>(text, &context);
    REQUIRE(module);
    REQUIRE(succeeded(module->verify()));
  }

  /// Puts borders in. The error's text; empty on success.
  std::string addBorders() {
    llvm::Error e = compiler::addBorders(*module, dist::getMesh(*module));
    return e ? llvm::toString(std::move(e)) : "";
  }

  Operation *op(llvm::StringRef name) {
    Operation *found = nullptr;
    module->walk([&](Operation *one) {
      if (one->hasAttr(graph::kNameAttr) && graph::nameOf(one) == name)
        found = one;
    });
    INFO("operator " << name.str());
    REQUIRE(found);
    return found;
  }

  /// By place in the program: "NAME of STAGE, SHARDING" of each border, and its readers.
  std::vector<std::string> borders() {
    std::vector<std::string> out;
    module->walk([&](Operation *one) {
      auto border = one->getAttrOfType<DictionaryAttr>(compiler::kBorderAttr);
      if (!border)
        return;
      CHECK(isa<graph::ReshapeOp>(one));
      std::set<std::string> names;
      for (Operation *user : one->getResult(0).getUsers())
        names.insert(user->hasTrait<OpTrait::IsTerminator>() ? "return" : graph::nameOf(user));
      const auto stage = cast<IntegerAttr>(one->getAttr(dist::kStageAttr)).getInt();
      out.push_back(graph::nameOf(one) + " of " + std::to_string(stage) + ", " +
                    cast<dist::ShardingAttr>(border.get("sharding")).getText().str() + ", for " +
                    llvm::join(names, " "));
    });
    return out;
  }

  std::string strategy(llvm::StringRef name) {
    return op(name)->getAttrOfType<dist::StrategyAttr>(dist::kStrategyAttr).getText().str();
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

using Borders = std::vector<std::string>;

/// A product whose sum over "model" is left open, and two readers.
std::string product(int first, int second) {
  return R"mlir(
    module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
      func.func @infer(%x: tensor<8x6xf32> {graph.role = "input", graph.name = "x", dist.sharding = #dist.sharding<"[data, model]">},
                       %w: tensor<6x4xf32> {graph.role = "parameter", graph.name = "w", dist.stage = 0 : i64, dist.sharding = #dist.sharding<"[model, -]">})
          -> (tensor<8x4xf32> {graph.role = "output", graph.name = "a", dist.sharding = #dist.sharding<"[data, -]">},
              tensor<8x4xf32> {graph.role = "output", graph.name = "b", dist.sharding = #dist.sharding<"[data, -]">}) {
        %y = graph.matmul %x, %w {graph.name = "y", dist.stage = 0 : i64, dist.strategy = #dist.strategy<"m=data, k=model">} : (tensor<8x6xf32>, tensor<6x4xf32>) -> tensor<8x4xf32>
        %a = graph.neg %y {graph.name = "a", dist.stage = )mlir" +
         std::to_string(first) +
         R"mlir( : i64, dist.strategy = #dist.strategy<"b0=data | partial 0(model)">} : (tensor<8x4xf32>) -> tensor<8x4xf32>
        %b = graph.relu %y {graph.name = "b", dist.stage = )mlir" +
         std::to_string(second) +
         R"mlir( : i64, dist.strategy = #dist.strategy<"b0=data">} : (tensor<8x4xf32>) -> tensor<8x4xf32>
        return %a, %b : tensor<8x4xf32>, tensor<8x4xf32>
      }
    })mlir";
}

} // namespace

TEST_CASE("a border is no sum, and what reads it expects none") {
  Module m(product(1, 1));
  CHECK(m.strategy("a") == "b0=data | partial 0(model)");
  CHECK(m.addBorders() == "");
  CHECK(m.borders() == Borders{"y.border of 0, [data, -], for a b"});
  CHECK(m.strategy("a") == "b0=data");
  CHECK(m.strategy("b") == "b0=data");
}

TEST_CASE("each stage that reads a value has a border of its own, and the own stage none") {
  Module m(product(1, 2));
  CHECK(m.addBorders() == "");
  CHECK(m.borders() == Borders{"y.border of 0, [data, -], for b", "y.border of 0, [data, -], for a"});

  Module own(product(0, 1));
  CHECK(own.addBorders() == "");
  CHECK(own.borders() == Borders{"y.border of 0, [data, -], for b"});
  CHECK(own.strategy("a") == "b0=data | partial 0(model)"); // which crosses nothing

  Module none(product(0, 0));
  CHECK(none.addBorders() == "");
  CHECK(none.borders().empty());
}

TEST_CASE("what is cut evenly stays so, and what has padding is whole") {
  auto cut = [](int rows) {
    const std::string type = "tensor<" + std::to_string(rows) + "x4xf32>";
    Module m(
        R"(
      module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
        func.func @infer(%x: )" +
        type +
        R"( {graph.role = "parameter", graph.name = "x", dist.stage = 0 : i64, dist.sharding = #dist.sharding<"[data, model]">})
            -> ()" +
        type + R"( {graph.role = "output", graph.name = "b", dist.sharding = #dist.sharding<"[data, model]">}) {
          %a = graph.relu %x {graph.name = "a", dist.stage = 0 : i64, dist.strategy = #dist.strategy<"b0=data, b1=model">} : ()" +
        type + ") -> " + type + R"(
          %b = graph.exp %a {graph.name = "b", dist.stage = 1 : i64, dist.strategy = #dist.strategy<"b0=data, b1=model">} : ()" +
        type + ") -> " + type + R"(
          return %b : )" +
        type + "\n}\n}");
    CHECK(m.addBorders() == "");
    return m.borders();
  };
  CHECK(cut(8) == Borders{"a.border of 0, [data, model], for b"});
  CHECK(cut(7) == Borders{"a.border of 0, [-, model], for b"});
}

TEST_CASE("a told value goes to every stage") {
  Module m(R"(
    module attributes {dist.mesh = #dist.mesh<"data=2">} {
      func.func @eval(%x: tensor<8xf32> {graph.role = "input", graph.name = "x", dist.sharding = #dist.sharding<"[data]">})
          -> (tensor<f32> {graph.role = "loss", graph.name = "loss", dist.sharding = #dist.sharding<"[]">}) {
        %l = graph.reduce_sum %x {graph.name = "l", dist.stage = 1 : i64, dims = array<i64: 0>, keepdims = false, dist.strategy = #dist.strategy<"d0=data">} : (tensor<8xf32>) -> tensor<f32>
        return %l : tensor<f32>
      }
    })");
  CHECK(m.addBorders() == "");
  CHECK(m.borders() == Borders{"l.border of 1, [], for return"});
}

TEST_CASE("a parameter has a border for each other stage that reads it, as it is kept but for padding") {
  auto shared = [](int rows) {
    const std::string type = "tensor<" + std::to_string(rows) + "x4xf32>";
    Module m(
        R"(
      module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
        func.func @infer(%w: )" +
        type +
        R"( {graph.role = "parameter", graph.name = "w", dist.stage = 0 : i64, dist.sharding = #dist.sharding<"[model, -]">})
            -> ()" +
        type + R"( {graph.role = "output", graph.name = "b", dist.sharding = #dist.sharding<"[-, -]">}) {
          %a = graph.relu %w {graph.name = "a", dist.stage = 0 : i64, dist.strategy = #dist.strategy<"b0=model">} : ()" +
        type + ") -> " + type + R"(
          %b = graph.exp %w {graph.name = "b", dist.stage = 1 : i64, dist.strategy = #dist.strategy<"b0=model">} : ()" +
        type + ") -> " + type + R"(
          return %b : )" +
        type + "\n}\n}");
    CHECK(m.addBorders() == "");
    CHECK(m.op("a")->getOperand(0) == m.op("w.border")->getOperand(0)); // the own stage reads it itself
    return m.borders();
  };
  CHECK(shared(8) == Borders{"w.border of 0, [model, -], for b"});
  CHECK(shared(7) == Borders{"w.border of 0, [-, -], for b"});
}

// ---- what came with localisation, and the modules of the stages ----

namespace {

/// Two stages on a mesh with one axis, local, with a border on what crosses.
std::string local(const std::string &mesh, const std::string &sharding, int rows) {
  const std::string type = "tensor<" + std::to_string(rows) + "xf32>";
  return R"(
    module attributes {dist.mesh = #dist.mesh<")" +
         mesh + R"(">} {
      func.func @infer(%x: )" +
         type + R"( {graph.role = "parameter", graph.name = "x", dist.stage = 0 : i64}) -> ()" + type +
         R"( {graph.role = "output", graph.name = "y"}) {
        %a = graph.relu %x {graph.name = "a", dist.stage = 0 : i64} : ()" +
         type + ") -> " + type + R"(
        %c = graph.exp %a {graph.name = "came"} : ()" +
         type + ") -> " + type + R"(
        %b = graph.reshape %c {graph.name = "a.border", dist.stage = 0 : i64,
                               dist.border = {name = "infer#0", shape = array<i64: 8>, sharding = #dist.sharding<")" +
         sharding + R"(">}} : ()" + type + ") -> " + type + R"(
        %y = graph.neg %b {graph.name = "y", dist.stage = 1 : i64} : ()" +
         type + ") -> " + type + R"(
        return %y : )" +
         type + "\n}\n}";
}

void cut(ModuleOp module) {
  llvm::cantFail(compiler::completeStages(module));
  PassManager passes(module.getContext());
  passes.addPass(compiler::createCutStagesPass({.stages = 2, .devices = 2, .returns = false}));
  REQUIRE(succeeded(passes.run(module)));
}

} // namespace

TEST_CASE("an operator that came with localisation is in the stage of its readers, else of what it reads") {
  Module m(local("data=2", "[data]", 4));
  llvm::cantFail(compiler::completeStages(*m.module));
  CHECK(cast<IntegerAttr>(m.op("came")->getAttr(dist::kStageAttr)).getInt() == 0);

  m.op("a")->removeAttr(dist::kStageAttr);
  m.op("y")->removeAttr(dist::kStageAttr); // what reads it is the end of the function
  llvm::cantFail(compiler::completeStages(*m.module));
  CHECK(cast<IntegerAttr>(m.op("y")->getAttr(dist::kStageAttr)).getInt() == 0);

  OpBuilder builder(m.op("y"));
  Value came = m.op("came")->getResult(0);
  auto other = graph::NegOp::create(builder, came.getLoc(), came.getType(), came);
  other->setAttr(graph::kNameAttr, builder.getStringAttr("other"));
  other->setAttr(dist::kStageAttr, builder.getI64IntegerAttr(1));
  m.op("came")->removeAttr(dist::kStageAttr);
  llvm::Error e = compiler::completeStages(*m.module);
  CHECK(llvm::toString(std::move(e)) ==
        "'infer': operator 'came' is needed in the stages 1 and 0, which have meshes of their own");
}

TEST_CASE("a message between stages is the boxes between the borders of two versions") {
  Module m(local("data=2,model=2", "[data+model]", 2));
  OwningOpRef<ModuleOp> one = parseSourceString<ModuleOp>(local("data=1", "[-]", 8), &m.context);
  const llvm::SmallVector<dist::Mesh> meshes = {dist::getMesh(*m.module), dist::getMesh(*one)};
  cut(*m.module);
  cut(*one);
  OwningOpRef<ModuleOp> joined(ModuleOp::create(UnknownLoc::get(&m.context)));
  llvm::cantFail(compiler::joinVersions({*m.module, *one}, {0, 1}, meshes, *joined));
  llvm::SmallVector<dist::SendOp> sends;
  llvm::SmallVector<dist::ReceiveOp> receives;
  joined->walk([&](dist::SendOp op) { sends.push_back(op); });
  joined->walk([&](dist::ReceiveOp op) { receives.push_back(op); });
  REQUIRE(sends.size() == 1);
  REQUIRE(receives.size() == 1);
  CHECK(cast<RankedTensorType>(sends[0].getX().getType()).getDimSize(0) == 2);
  CHECK(cast<RankedTensorType>(receives[0].getY().getType()).getDimSize(0) == 8);
  CHECK_FALSE(sends[0]->hasAttr(compiler::kBorderAttr));
  auto boxes = [](Operation *op) {
    return dist::boxesIn(op->getAttrOfType<DenseI64ArrayAttr>(dist::kBoxesAttr).asArrayRef(), 1);
  };
  std::vector<dist::MeshBox> wanted;
  for (int64_t rank = 0; rank < 4; ++rank)
    wanted.push_back({rank, 0, {0}, {2 * rank}, {2}});
  CHECK(boxes(sends[0]) == wanted);
  CHECK(boxes(receives[0]) == wanted);
}

TEST_CASE("what crosses without a border is an error, not a message of the wrong ranks") {
  Module m(local("data=2", "[data]", 4));
  m.op("a.border")->removeAttr(compiler::kBorderAttr);
  cut(*m.module);
  OwningOpRef<ModuleOp> joined(ModuleOp::create(UnknownLoc::get(&m.context)));
  const llvm::SmallVector<dist::Mesh> meshes(2, dist::getMesh(*m.module));
  llvm::Error e = compiler::joinVersions({*m.module, *m.module}, {0, 1}, meshes, *joined);
  CHECK(llvm::toString(std::move(e)) == "internal error: 'a.border' crosses stages without a border");
}
