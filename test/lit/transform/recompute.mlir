// RUN: tessera-opt --graph-recompute=level=cheap %s | FileCheck %s --check-prefix=CHEAP
// RUN: tessera-opt --graph-recompute=level=full %s | FileCheck %s --check-prefix=FULL
// RUN: not tessera-opt --graph-recompute=level=most %s 2>&1 | FileCheck %s --check-prefix=LEVEL
// LEVEL: the level is none, cheap or full, not most

// Backward reads %p and %a of each layer. What tanh makes of a kept product is made again; in full, products as well,
// between what crosses from one segment to the next: %m1 is kept, %m0 and %a0 are not.
// CHEAP-LABEL: func.func @train
// CHEAP: %[[M:.*]] = graph.matmul %arg0, %arg1 {graph.name = "m0"}
// CHEAP: graph.mul {{.*}} {graph.name = "loss"
// CHEAP: %[[A1:.*]] = graph.tanh {{.*}} {graph.again, graph.grad_of = "a1", graph.name = "again/a1"}
// CHEAP: graph.mul %{{.*}}, %[[A1]] {graph.grad_of = "a1"
// CHEAP: %[[A0:.*]] = graph.tanh %[[M]] {graph.again, graph.grad_of = "a0", graph.name = "again/a0"}
// CHEAP: graph.mul %{{.*}}, %[[A0]] {graph.grad_of = "a0"
// FULL-LABEL: func.func @train
// FULL: graph.mul {{.*}} {graph.name = "loss"
// FULL-NOT: again/m1
// FULL: graph.matmul %arg0, %arg1 {graph.again, graph.grad_of = "m0", graph.name = "again/m0"}
// FULL: graph.name = "again/a0"
// FULL-NOT: again/m1
// FULL: return
func.func @train(%x: tensor<64x64xf32> {graph.role = "input", graph.name = "x"}, %w: tensor<64x64xf32> {graph.role = "parameter", graph.name = "w"}) -> tensor<64x64xf32> {
  %m0 = graph.matmul %x, %w {graph.name = "m0"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %a0 = graph.tanh %m0 {graph.name = "a0"} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %m1 = graph.matmul %a0, %w {graph.name = "m1"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %a1 = graph.tanh %m1 {graph.name = "a1"} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %m2 = graph.matmul %a1, %w {graph.name = "m2"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %l = graph.mul %m2, %m2 {graph.name = "loss"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %g2 = graph.mul %l, %m2 {graph.grad_of = "m2", graph.name = "g2"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %g1 = graph.mul %g2, %a1 {graph.grad_of = "a1", graph.name = "g1"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %h1 = graph.mul %g1, %m1 {graph.grad_of = "m1", graph.name = "h1"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %g0 = graph.mul %h1, %a0 {graph.grad_of = "a0", graph.name = "g0"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %h0 = graph.mul %g0, %m0 {graph.grad_of = "m0", graph.name = "h0"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %h0 : tensor<64x64xf32>
}
