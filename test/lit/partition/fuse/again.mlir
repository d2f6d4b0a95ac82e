// RUN: tessera-opt --graph-fuse %s | FileCheck %s

// A cast is made again for the gradient, which comes soon. The copy stays by itself: in one loop with the first, both
// would be in memory until then.
// CHECK-LABEL: func.func @train
// CHECK: %[[C:.*]] = graph.cast %arg1
// CHECK: graph.matmul %arg0, %[[C]]
// CHECK: %[[AGAIN:.*]] = graph.cast %arg1
// CHECK: graph.matmul %{{.*}}, %[[AGAIN]]
func.func @train(%x: tensor<8x8xbf16> {graph.role = "input"}, %w: tensor<8x8xf32> {graph.role = "parameter"}) -> tensor<8x8xbf16> {
  %c = graph.cast %w {graph.name = "c"} : (tensor<8x8xf32>) -> tensor<8x8xbf16>
  %y = graph.matmul %x, %c {graph.name = "y"} : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
  %again = graph.cast %w {graph.again, graph.grad_of = "c", graph.name = "again/c"} : (tensor<8x8xf32>) -> tensor<8x8xbf16>
  %g = graph.matmul %y, %again {graph.grad_of = "y", graph.name = "g", transpose_b = true} : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
  return %g : tensor<8x8xbf16>
}

// Gradients share loops with what is made again for them.
// CHECK-LABEL: func.func @gradient
// CHECK: graph.relu
// CHECK: graph.matmul
// CHECK: graph.fused
// CHECK-NEXT: ^bb0
// CHECK-NEXT: graph.relu
// CHECK-NEXT: graph.mul
func.func @gradient(%x: tensor<8x8xf32> {graph.role = "input"}) -> tensor<8x8xf32> {
  %r = graph.relu %x {graph.name = "r"} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %y = graph.matmul %r, %r {graph.name = "y"} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %again = graph.relu %x {graph.again, graph.grad_of = "r", graph.name = "again/r"} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %g = graph.mul %y, %again {graph.grad_of = "y", graph.name = "g"} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %g : tensor<8x8xf32>
}
