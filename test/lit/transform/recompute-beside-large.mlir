// RUN: tessera-opt --graph-recompute=level=full %s | FileCheck %s

// A value is much larger than the others, and the backward half does not read it. These are computed again nevertheless.
// And what nothing reads (%dead, in place of which another value is computed) does not keep what it would read.
// CHECK-LABEL: func.func @train
// CHECK: graph.grad_of = "m0", graph.name = "again/m0"
// CHECK: return
func.func @train(%x: tensor<64x64xf32> {graph.role = "input", graph.name = "x"},
                 %w: tensor<64x64xf32> {graph.role = "parameter", graph.name = "w"},
                 %t: tensor<64x6400xf32> {graph.role = "parameter", graph.name = "t"}) -> (tensor<64x64xf32>, tensor<64x6400xf32>) {
  %large = graph.neg %t {graph.name = "large"} : (tensor<64x6400xf32>) -> tensor<64x6400xf32>
  %m0 = graph.matmul %x, %w {graph.name = "m0"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %a0 = graph.tanh %m0 {graph.name = "a0"} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %m1 = graph.matmul %a0, %w {graph.name = "m1"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %a1 = graph.tanh %m1 {graph.name = "a1"} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %m2 = graph.matmul %a1, %w {graph.name = "m2"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %a2 = graph.tanh %m2 {graph.name = "a2"} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %ga = graph.mul %a2, %a2 {graph.grad_of = "a2", graph.name = "ga"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %g2 = graph.mul %ga, %a2 {graph.grad_of = "a2", graph.name = "g2"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %h2 = graph.mul %g2, %m2 {graph.grad_of = "m2", graph.name = "h2"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %g1 = graph.mul %h2, %a1 {graph.grad_of = "a1", graph.name = "g1"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %h1 = graph.mul %g1, %m1 {graph.grad_of = "m1", graph.name = "h1"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %dead = graph.cast %m0 {graph.name = "m0/cast"} : (tensor<64x64xf32>) -> tensor<64x64xf64>
  %g0 = graph.mul %h1, %a0 {graph.grad_of = "a0", graph.name = "g0"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %h0 = graph.mul %g0, %m0 {graph.grad_of = "m0", graph.name = "h0"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %h0, %large : tensor<64x64xf32>, tensor<64x6400xf32>
}
