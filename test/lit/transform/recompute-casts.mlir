// RUN: tessera-opt --graph-recompute=level=full %s | FileCheck %s

// A gradient reads %m0 in another type. The cast stands among the gradients, as a lower precision makes it: it is no
// part of the forward half, which would keep %m0 until then.
// CHECK: graph.mul {{.*}} {graph.name = "loss"
// CHECK: %[[M:.*]] = graph.matmul %arg0, %arg1 {graph.again, graph.grad_of = "m0", graph.name = "again/m0"}
// CHECK: graph.cast %[[M]] {graph.grad_of = "m0", graph.name = "m0/cast"}
// CHECK: return
func.func @train(%x: tensor<64x64xf32> {graph.role = "input", graph.name = "x"}, %w: tensor<64x64xf32> {graph.role = "parameter", graph.name = "w"}) -> tensor<64x64xf64> {
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
  %d0 = graph.cast %g0 {graph.grad_of = "m0", graph.name = "d0"} : (tensor<64x64xf32>) -> tensor<64x64xf64>
  %c0 = graph.cast %m0 {graph.name = "m0/cast"} : (tensor<64x64xf32>) -> tensor<64x64xf64>
  %h0 = graph.mul %d0, %c0 {graph.grad_of = "m0", graph.name = "h0"} : (tensor<64x64xf64>, tensor<64x64xf64>) -> tensor<64x64xf64>
  return %h0 : tensor<64x64xf64>
}
