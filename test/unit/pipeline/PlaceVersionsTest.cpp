// Where a network is cut whose stages have meshes of their own.
#include "compiler/pipeline/Versions.h"

#include "dialects/dist/DistOps.h"
#include "dialects/graph/Graph.h"

#include "mlir/Parser/Parser.h"

#include <catch2/catch.hpp>
#include <map>

using namespace mlir;
using namespace tessera;

namespace {

constexpr strategies::Cost kUnit = 1'000'000; // far more than a message takes

/// Six layers, one behind the other, and as many operators more at their end.
std::string chain(int more = 0) {
  std::string arguments, body;
  for (int i = 0; i < 6; ++i) {
    const std::string n = std::to_string(i);
    arguments += ", %w" + n + ": tensor<4x4xf32> {graph.role = \"parameter\", graph.name = \"w" + n + "\"}";
    body += "%h" + n + " = graph.matmul " + (i ? "%h" + std::to_string(i - 1) : "%x") + ", %w" + n +
            " {graph.name = \"h" + n + "\"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>\n";
  }
  for (int i = 6; i < 6 + more; ++i)
    body += "%h" + std::to_string(i) + " = graph.relu %h" + std::to_string(i - 1) + " {graph.name = \"h" +
            std::to_string(i) + "\"} : (tensor<4x4xf32>) -> tensor<4x4xf32>\n";
  return "func.func @infer(%x: tensor<4x4xf32> {graph.role = \"input\", graph.name = \"x\"}" + arguments +
         ") -> (tensor<4x4xf32> {graph.role = \"output\", graph.name = \"y\"}) {\n" + body + "return %h" +
         std::to_string(5 + more) + " : tensor<4x4xf32>\n}";
}

struct Versions {
  explicit Versions(int more = 0) {
    context.loadDialect<func::FuncDialect, graph::GraphDialect, dist::DistDialect>();
    for (const std::string &text : {chain(), chain(more)}) {
      modules.push_back(parseSourceString<ModuleOp>(text, &context));
      REQUIRE(modules.back());
    }
  }

  /// Places a version of two ranks, on which a layer takes two units, and one of four, on which it takes one. The error's
  /// text; empty on success.
  std::string place(std::vector<size_t> of, int64_t limit, int64_t bytesOfSecond = 1,
                    std::map<std::string, int> given = {}) {
    const strategies::CostModel all(*dist::Mesh::parse("stage=2"),
                                    llvm::cantFail(strategies::Topology::load("8xa100")));
    std::vector<compiler::NetworkVersion> versions;
    for (size_t v : {0, 1}) {
      const int64_t bytes = v == 0 ? 1 : bytesOfSecond;
      compiler::NetworkVersion version;
      version.module = *modules[v];
      version.mesh = *dist::Mesh::parse(v == 0 ? "data=2" : "data=4");
      for (Operation &op : body(v).without_terminator()) {
        (void)op;
        version.times.push_back(v == 0 ? 2 * kUnit : kUnit);
      }
      version.bytes = [bytes](Value) { return bytes; };
      versions.push_back(std::move(version));
    }
    llvm::Error e = compiler::placeVersions(
        versions, of, {all, all, limit, strategies::StagePlaces{int(of.size()), 1, false}, {}, {}, std::move(given)});
    return e ? llvm::toString(std::move(e)) : "";
  }

  Block &body(size_t version) { return (*modules[version]->getOps<func::FuncOp>().begin()).getBody().front(); }

  /// The stages of the layers, and of their parameters.
  std::string stages(size_t version) {
    std::string layers, parameters;
    for (Operation &op : body(version).without_terminator())
      layers += std::to_string(op.getAttrOfType<IntegerAttr>(dist::kStageAttr).getInt());
    func::FuncOp func = *modules[version]->getOps<func::FuncOp>().begin();
    for (unsigned a = 1; a < func.getNumArguments(); ++a)
      parameters += std::to_string(func.getArgAttrOfType<IntegerAttr>(a, dist::kStageAttr).getInt());
    return layers + " " + parameters;
  }

  MLIRContext context;
  std::vector<OwningOpRef<ModuleOp>> modules;
};

} // namespace

TEST_CASE("a stage gets the layers for which its own mesh has time") {
  Versions small;
  CHECK(small.place({0, 1}, 1 << 20) == "");
  CHECK(small.stages(0) == "001111 001111");
  CHECK(small.stages(1) == small.stages(0));

  Versions large;
  CHECK(large.place({1, 0}, 1 << 20) == "");
  CHECK(large.stages(0) == "000011 000011");
  CHECK(large.stages(1) == large.stages(0));

  Versions alike;
  CHECK(alike.place({1, 1}, 1 << 20) == "");
  CHECK(alike.stages(0) == "000111 000111");
}

TEST_CASE("the memory of a stage is that of its own version") {
  // On four ranks a parameter has so many bytes that there is room for three of them.
  Versions full;
  CHECK(full.place({0, 1}, 350, 100) == "");
  CHECK(full.stages(0) == "000111 000111");
  CHECK(full.stages(1) == full.stages(0));
}

TEST_CASE("all versions have operators where they were given") {
  Versions given;
  CHECK(given.place({0, 1}, 1 << 20, 1, {{"h3", 0}}) == "");
  CHECK(given.stages(0) == "000011 000011");
  CHECK(given.stages(1) == given.stages(0));
}

TEST_CASE("versions of different networks have no cut in common") {
  Versions different(1);
  CHECK(different.place({0, 1}, 1 << 20) == "internal error: versions of a network differ");
}
