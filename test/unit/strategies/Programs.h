// Small programs that the tests of this folder share.
#ifndef TESSERA_TEST_UNIT_STRATEGIES_PROGRAMS_H
#define TESSERA_TEST_UNIT_STRATEGIES_PROGRAMS_H

#include "dialects/dist/DistDialect.h"
#include "dialects/graph/Graph.h"
#include "strategies/modes/Assign.h"

#include "mlir/Parser/Parser.h"

#include <catch2/catch.hpp>

namespace tessera::strategies {

struct Module {
  explicit Module(const std::string &text) {
    context.loadDialect<mlir::func::FuncDialect, graph::GraphDialect, dist::DistDialect>();
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    REQUIRE(module);
  }
  mlir::func::FuncOp func(llvm::StringRef name) { return module->lookupSymbol<mlir::func::FuncOp>(name); }
  mlir::Operation *op(llvm::StringRef function, llvm::StringRef name) {
    mlir::Operation *found = nullptr;
    func(function).walk([&](mlir::Operation *o) {
      if (graph::nameOf(o) == name)
        found = o;
    });
    INFO("operator " << name.str());
    REQUIRE(found);
    return found;
  }
  /// The text of an operator's strategy.
  std::string strategy(llvm::StringRef function, llvm::StringRef name) {
    auto attr = op(function, name)->getAttrOfType<dist::StrategyAttr>(dist::kStrategyAttr);
    REQUIRE(attr);
    return attr.getText().str();
  }
  std::string arg(llvm::StringRef function, unsigned a) {
    auto attr = func(function).getArgAttrOfType<dist::ShardingAttr>(a, dist::kShardingAttr);
    REQUIRE(attr);
    return attr.getText().str();
  }
  std::string result(llvm::StringRef function, unsigned r) {
    auto attr = func(function).getResultAttrOfType<dist::ShardingAttr>(r, dist::kShardingAttr);
    REQUIRE(attr);
    return attr.getText().str();
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

inline AssignOptions optionsFor(const std::string &mesh, const std::string &mode, const std::string &user = "") {
  AssignOptions options;
  options.mode = mode;
  options.mesh = llvm::cantFail(Mesh::parse(mesh));
  options.topology = llvm::cantFail(Topology::load("cpu"));
  if (!user.empty())
    options.user = llvm::cantFail(UserStrategies::parse(user, "test.json"));
  return options;
}

/// The error's text; empty on success.
inline std::string assign(Module &m, const AssignOptions &options, AssignReport *report = nullptr) {
  AssignReport scratch;
  llvm::Error e = assignStrategies(*m.module, options, report ? *report : scratch);
  return e ? llvm::toString(std::move(e)) : "";
}

// fc1, relu, fc2 and squared error, with their gradients and SGD.
inline const char *kMlp = R"(
func.func @train(
    %x: tensor<16x8xf32> {graph.role = "input", graph.name = "x"},
    %t: tensor<16x4xf32> {graph.role = "target", graph.name = "target"},
    %w1: tensor<8x12xf32> {graph.role = "parameter", graph.name = "w1", graph.update = 1 : i64},
    %w2: tensor<12x4xf32> {graph.role = "parameter", graph.name = "w2", graph.update = 2 : i64},
    %m1: tensor<8x12xf32> {graph.role = "state", graph.name = "momentum/w1", graph.update = 3 : i64})
    -> (tensor<f32> {graph.role = "loss", graph.name = "loss"},
        tensor<8x12xf32> {graph.role = "update", graph.name = "w1"},
        tensor<12x4xf32> {graph.role = "update", graph.name = "w2"},
        tensor<8x12xf32> {graph.role = "update", graph.name = "momentum/w1"}) {
  %lr = graph.constant dense<0.1> : tensor<f32>
  %two = graph.constant dense<2.0> : tensor<f32>
  %zero = graph.constant dense<0.0> : tensor<f32>
  %h = graph.matmul %x, %w1 {graph.name = "fc1"} : (tensor<16x8xf32>, tensor<8x12xf32>) -> tensor<16x12xf32>
  %r = graph.relu %h {graph.name = "relu"} : (tensor<16x12xf32>) -> tensor<16x12xf32>
  %y = graph.matmul %r, %w2 {graph.name = "fc2"} : (tensor<16x12xf32>, tensor<12x4xf32>) -> tensor<16x4xf32>
  %d = graph.sub %y, %t {graph.name = "loss/sub"} : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<16x4xf32>
  %s = graph.mul %d, %d {graph.name = "loss/square"} : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<16x4xf32>
  %loss = graph.reduce_sum %s {dims = array<i64: 0, 1>, keepdims = false, graph.name = "loss/sum"} : (tensor<16x4xf32>) -> tensor<f32>
  %dy = graph.mul %d, %two {graph.name = "loss.grad", graph.grad_of = "loss"} : (tensor<16x4xf32>, tensor<f32>) -> tensor<16x4xf32>
  %dw2 = graph.matmul %r, %dy {transpose_a = true, graph.name = "fc2.grad_w", graph.grad_of = "fc2"} : (tensor<16x12xf32>, tensor<16x4xf32>) -> tensor<12x4xf32>
  %dr = graph.matmul %dy, %w2 {transpose_b = true, graph.name = "fc2.grad_x", graph.grad_of = "fc2"} : (tensor<16x4xf32>, tensor<12x4xf32>) -> tensor<16x12xf32>
  %on = graph.lt %zero, %r {graph.name = "relu.grad.1", graph.grad_of = "relu"} : (tensor<f32>, tensor<16x12xf32>) -> tensor<16x12xi1>
  %dh = graph.select %on, %dr, %zero {graph.name = "relu.grad", graph.grad_of = "relu"} : (tensor<16x12xi1>, tensor<16x12xf32>, tensor<f32>) -> tensor<16x12xf32>
  %dw1 = graph.matmul %x, %dh {transpose_a = true, graph.name = "fc1.grad_w", graph.grad_of = "fc1"} : (tensor<16x8xf32>, tensor<16x12xf32>) -> tensor<8x12xf32>
  %k1 = graph.mul %m1, %lr {graph.name = "w1.update.2"} : (tensor<8x12xf32>, tensor<f32>) -> tensor<8x12xf32>
  %n1 = graph.add %k1, %dw1 {graph.name = "w1.update.1"} : (tensor<8x12xf32>, tensor<8x12xf32>) -> tensor<8x12xf32>
  %u1 = graph.mul %n1, %lr {graph.name = "w1.update.3"} : (tensor<8x12xf32>, tensor<f32>) -> tensor<8x12xf32>
  %v1 = graph.sub %w1, %u1 {graph.name = "w1.update"} : (tensor<8x12xf32>, tensor<8x12xf32>) -> tensor<8x12xf32>
  %u2 = graph.mul %dw2, %lr {graph.name = "w2.update.1"} : (tensor<12x4xf32>, tensor<f32>) -> tensor<12x4xf32>
  %v2 = graph.sub %w2, %u2 {graph.name = "w2.update"} : (tensor<12x4xf32>, tensor<12x4xf32>) -> tensor<12x4xf32>
  return %loss, %v1, %v2, %n1 : tensor<f32>, tensor<8x12xf32>, tensor<12x4xf32>, tensor<8x12xf32>
}
func.func @eval(
    %x: tensor<16x8xf32> {graph.role = "input", graph.name = "x"},
    %w1: tensor<8x12xf32> {graph.role = "parameter", graph.name = "w1"},
    %w2: tensor<12x4xf32> {graph.role = "parameter", graph.name = "w2"})
    -> (tensor<16x4xf32> {graph.role = "output", graph.name = "y"}) {
  %h = graph.matmul %x, %w1 {graph.name = "fc1"} : (tensor<16x8xf32>, tensor<8x12xf32>) -> tensor<16x12xf32>
  %r = graph.relu %h {graph.name = "relu"} : (tensor<16x12xf32>) -> tensor<16x12xf32>
  %y = graph.matmul %r, %w2 {graph.name = "fc2"} : (tensor<16x12xf32>, tensor<12x4xf32>) -> tensor<16x4xf32>
  return %y : tensor<16x4xf32>
}
)";

} // namespace tessera::strategies

#endif
