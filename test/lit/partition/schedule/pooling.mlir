// RUN: tessera-opt --graph-schedule %s | FileCheck %s

// A pool is smaller than what it reads: it runs at once.
// CHECK-LABEL: func.func @pool
func.func @pool(%x: tensor<2x4x8x8xf32> {graph.role = "input"}) -> (tensor<2x4x4x4xf32>, tensor<4x4x8x8xf32>) {
  // CHECK-NEXT: %[[A:.*]] = graph.softmax %arg0
  // CHECK-NEXT: %[[Y:.*]] = graph.max_pool %[[A]]
  // CHECK-NEXT: %[[B:.*]] = graph.concat
  // CHECK-NEXT: return %[[Y]], %[[B]]
  %a = graph.softmax %x {dim = 1 : i64} : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %b = graph.concat %x, %x {dim = 0 : i64} : (tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>) -> tensor<4x4x8x8xf32>
  %y = graph.max_pool %a {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<2x4x8x8xf32>) -> tensor<2x4x4x4xf32>
  return %y, %b : tensor<2x4x4x4xf32>, tensor<4x4x8x8xf32>
}
