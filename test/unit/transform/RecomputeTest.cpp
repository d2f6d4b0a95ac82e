// The segments that graph-recompute makes for the stages of a pipeline.
#include "test/unit/autodiff/Programs.h"

#include "compiler/transform/Passes.h"
#include "dialects/graph/Graph.h"

#include "mlir/Pass/PassManager.h"

#include "llvm/Support/FormatVariadic.h"

#include <set>

using namespace tessera;
using namespace tessera::test;
using namespace mlir;

namespace {

/// Equal layers m, u, v, of which v crosses to the next one, and their gradients.
std::string layers(int count) {
  constexpr const char *kType = "tensor<64x64xf32>", *kPair = "(tensor<64x64xf32>, tensor<64x64xf32>)";
  std::string text;
  llvm::raw_string_ostream out(text);
  out << llvm::formatv("func.func @train(%x: {0} {{graph.role = \"input\", graph.name = \"x\"}, "
                       "%w: {0} {{graph.role = \"parameter\", graph.name = \"w\"}) -> {0} {{\n",
                       kType);
  auto add = [&](StringRef op, std::string name, std::string operands, StringRef from, StringRef attributes = "") {
    out << llvm::formatv("%{0} = graph.{1} {2} {{{3}graph.name = \"{0}\"} : {4} -> {5}\n", name, op, operands,
                         attributes, from, kType);
  };
  const std::string one = "(" + std::string(kType) + ")";
  for (int i = 0; i < count; ++i) {
    const std::string n = std::to_string(i);
    add("matmul", "m" + n, i == 0 ? "%x, %w" : "%v" + std::to_string(i - 1) + ", %w", kPair);
    add("tanh", "u" + n, "%m" + n, one);
    add("mul", "v" + n, "%m" + n + ", %u" + n, kPair);
  }
  std::string gradient = "%v" + std::to_string(count - 1);
  for (int i = count - 1; i >= 0; --i)
    for (const char *value : {"v", "u", "m"}) {
      const std::string of = value + std::to_string(i);
      add("mul", "d" + of, gradient + ", %" + of, kPair, "graph.grad_of = \"" + of + "\", ");
      gradient = "%d" + of;
    }
  out << "return " << gradient << " : " << kType << "\n}\n";
  return text;
}

} // namespace

TEST_CASE("as many segments as stages have as many layers each") {
  constexpr int kStages = 40, kLayers = 2 * kStages;
  Program p(layers(kLayers));
  PassManager manager(&p.context);
  compiler::RecomputePassOptions options;
  options.stages = kStages;
  manager.addNestedPass<func::FuncOp>(compiler::createRecomputePass(options));
  REQUIRE(succeeded(manager.run(*p.module)));
  std::set<std::string> again;
  p.func("train").walk([&](Operation *op) { again.insert(graph::nameOf(op)); });
  for (int i = 0; i < kLayers - 2; ++i) { // the last segment does not run again
    INFO("layer " << i);
    CHECK(again.contains("again/m" + std::to_string(i)));
    CHECK(again.contains("again/v" + std::to_string(i)) == (i % 2 == 0));
  }
}
