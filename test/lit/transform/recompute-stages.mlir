// What a stage gets from another one is kept, and not computed again in both: a segment ends at the border.
// RUN: tessera-opt --graph-recompute=level=full --split-input-file %s | FileCheck %s

// CHECK-LABEL: func.func @train
// CHECK-NOT: again/m0
func.func @train(%x: tensor<64x64xf32> {graph.role = "input", graph.name = "x"}, %w: tensor<64x64xf32> {graph.role = "parameter", graph.name = "w"}) -> tensor<64x64xf32> {
  %m0 = graph.matmul %x, %w {graph.given_stage = 0 : i64, graph.name = "m0"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %a0 = graph.tanh %m0 {graph.given_stage = 1 : i64, graph.name = "a0"} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %m1 = graph.matmul %a0, %w {graph.given_stage = 1 : i64, graph.name = "m1"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %a1 = graph.tanh %m1 {graph.given_stage = 1 : i64, graph.name = "a1"} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %m2 = graph.matmul %a1, %w {graph.given_stage = 1 : i64, graph.name = "m2"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %l = graph.mul %m2, %m2 {graph.name = "loss"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %g2 = graph.mul %l, %m2 {graph.grad_of = "m2", graph.name = "g2"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %g1 = graph.mul %g2, %a1 {graph.grad_of = "a1", graph.name = "g1"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %h1 = graph.mul %g1, %m1 {graph.grad_of = "m1", graph.name = "h1"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %g0 = graph.mul %h1, %a0 {graph.grad_of = "a0", graph.name = "g0"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %h0 = graph.mul %g0, %m0 {graph.grad_of = "m0", graph.name = "h0"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %h0 : tensor<64x64xf32>
}

// -----
// Here no cut gains. The first stage still computes again what it alone reads, in its own memory.
// CHECK-LABEL: func.func @train
// CHECK: graph.name = "again/a0"
// CHECK-NOT: again/
func.func @train(%x: tensor<64x64xf32> {graph.role = "input", graph.name = "x"}, %w: tensor<64x64xf32> {graph.role = "parameter", graph.name = "w"}) -> tensor<64x64xf32> {
  %m0 = graph.matmul %x, %w {graph.given_stage = 0 : i64, graph.name = "m0"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %a0 = graph.tanh %m0 {graph.given_stage = 0 : i64, graph.name = "a0"} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %m1 = graph.matmul %a0, %m0 {graph.given_stage = 0 : i64, graph.name = "m1"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %m2 = graph.matmul %m1, %m0 {graph.given_stage = 1 : i64, graph.name = "m2"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %l = graph.mul %m2, %m2 {graph.name = "loss"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %g2 = graph.mul %l, %m2 {graph.grad_of = "m2", graph.name = "g2"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %g1 = graph.mul %g2, %a0 {graph.grad_of = "m1", graph.name = "g1"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %g1 : tensor<64x64xf32>
}
