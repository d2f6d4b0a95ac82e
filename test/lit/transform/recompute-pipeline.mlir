// A segment cannot be divided between the stages of a pipeline: of eight stages each begins with one, and each layer's
// result is kept. Without stages the segments are shorter towards the end, where
// what crosses more cuts is in memory as well.
// RUN: tessera-opt --graph-recompute="level=full stages=8" %s | FileCheck %s --check-prefix=EIGHT --implicit-check-not=again/a
// RUN: tessera-opt --graph-recompute=level=full %s | FileCheck %s --check-prefix=FEWEST

// EIGHT: "again/m6"
// EIGHT: "again/m5"
// EIGHT: "again/m4"
// EIGHT: "again/m3"
// EIGHT: "again/m2"
// EIGHT: "again/m1"
// EIGHT: "again/m0"
// FEWEST: "again/m6"
// FEWEST: "again/a4"
// FEWEST-NEXT: "again/m5"
// FEWEST: "again/a2"
// FEWEST-NEXT: "again/m3"
// FEWEST-NEXT: "again/a3"
// FEWEST: "again/m0"
// FEWEST-NEXT: "again/a0"
// FEWEST-NEXT: "again/m1"
// FEWEST-NEXT: "again/a1"
func.func @train(%x: tensor<64x64xf32> {graph.role = "input", graph.name = "x"}, %w: tensor<64x64xf32> {graph.role = "parameter", graph.name = "w"}) -> tensor<64x64xf32> {
  %m0 = graph.matmul %x, %w {graph.name = "m0"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %a0 = graph.tanh %m0 {graph.name = "a0"} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %m1 = graph.matmul %a0, %w {graph.name = "m1"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %a1 = graph.tanh %m1 {graph.name = "a1"} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %m2 = graph.matmul %a1, %w {graph.name = "m2"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %a2 = graph.tanh %m2 {graph.name = "a2"} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %m3 = graph.matmul %a2, %w {graph.name = "m3"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %a3 = graph.tanh %m3 {graph.name = "a3"} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %m4 = graph.matmul %a3, %w {graph.name = "m4"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %a4 = graph.tanh %m4 {graph.name = "a4"} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %m5 = graph.matmul %a4, %w {graph.name = "m5"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %a5 = graph.tanh %m5 {graph.name = "a5"} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %m6 = graph.matmul %a5, %w {graph.name = "m6"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %a6 = graph.tanh %m6 {graph.name = "a6"} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %m7 = graph.matmul %a6, %w {graph.name = "m7"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %a7 = graph.tanh %m7 {graph.name = "a7"} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %l = graph.mul %a7, %a7 {graph.name = "loss"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %g7 = graph.mul %l, %a7 {graph.grad_of = "a7", graph.name = "g7"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %h7 = graph.mul %g7, %m7 {graph.grad_of = "m7", graph.name = "h7"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %g6 = graph.mul %h7, %a6 {graph.grad_of = "a6", graph.name = "g6"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %h6 = graph.mul %g6, %m6 {graph.grad_of = "m6", graph.name = "h6"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %g5 = graph.mul %h6, %a5 {graph.grad_of = "a5", graph.name = "g5"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %h5 = graph.mul %g5, %m5 {graph.grad_of = "m5", graph.name = "h5"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %g4 = graph.mul %h5, %a4 {graph.grad_of = "a4", graph.name = "g4"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %h4 = graph.mul %g4, %m4 {graph.grad_of = "m4", graph.name = "h4"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %g3 = graph.mul %h4, %a3 {graph.grad_of = "a3", graph.name = "g3"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %h3 = graph.mul %g3, %m3 {graph.grad_of = "m3", graph.name = "h3"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %g2 = graph.mul %h3, %a2 {graph.grad_of = "a2", graph.name = "g2"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %h2 = graph.mul %g2, %m2 {graph.grad_of = "m2", graph.name = "h2"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %g1 = graph.mul %h2, %a1 {graph.grad_of = "a1", graph.name = "g1"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %h1 = graph.mul %g1, %m1 {graph.grad_of = "m1", graph.name = "h1"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %g0 = graph.mul %h1, %a0 {graph.grad_of = "a0", graph.name = "g0"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %h0 = graph.mul %g0, %m0 {graph.grad_of = "m0", graph.name = "h0"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %h0 : tensor<64x64xf32>
}
