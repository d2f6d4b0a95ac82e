// RUN: tessera-opt --graph-schedule %s | FileCheck %s

// Parameters and states are kept: writing their new values allocates nothing.

// The new statistic takes the state's memory as soon as nothing else reads the old one.
// CHECK-LABEL: func.func @train
func.func @train(%x: tensor<8x4xf32> {graph.role = "input"},
                 %m: tensor<4xf32> {graph.role = "state", graph.update = 1 : i64})
    -> (tensor<16x4xf32>, tensor<4xf32>, tensor<4xf32>) {
  // CHECK-NEXT: %[[WIDE:.*]] = graph.concat %arg0, %arg0
  // CHECK-NEXT: %[[PLAIN:.*]] = graph.neg %arg1
  // CHECK-NEXT: %[[UPDATE:.*]] = graph.exp %arg1
  // CHECK-NEXT: return %[[WIDE]], %[[UPDATE]], %[[PLAIN]]
  %b = graph.concat %x, %x {dim = 0 : i64} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
  %p = graph.neg %m : (tensor<4xf32>) -> tensor<4xf32>
  %u = graph.exp %m : (tensor<4xf32>) -> tensor<4xf32>
  return %b, %u, %p : tensor<16x4xf32>, tensor<4xf32>, tensor<4xf32>
}

// A parameter is never freed, so its last reader has no reason to come early.
// CHECK-LABEL: func.func @infer
func.func @infer(%x: tensor<8x4xf32> {graph.role = "input"}, %w: tensor<16x16xf32> {graph.role = "parameter"})
    -> (tensor<16x4xf32>, tensor<16xf32>) {
  // CHECK-NEXT: graph.concat
  // CHECK-NEXT: graph.reduce_sum
  // CHECK-NEXT: return
  %b = graph.concat %x, %x {dim = 0 : i64} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
  %s = graph.reduce_sum %w {dims = array<i64: 0>, keepdims = false} : (tensor<16x16xf32>) -> tensor<16xf32>
  return %b, %s : tensor<16x4xf32>, tensor<16xf32>
}

// An input that nothing reads later is freed by the sum over it, which therefore comes first.
// CHECK-LABEL: func.func @input
func.func @input(%x: tensor<8x4xf32> {graph.role = "input"}, %y: tensor<16x16xf32> {graph.role = "input"})
    -> (tensor<16x4xf32>, tensor<16xf32>) {
  // CHECK-NEXT: graph.reduce_sum
  // CHECK-NEXT: graph.concat
  // CHECK-NEXT: return
  %b = graph.concat %x, %x {dim = 0 : i64} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
  %s = graph.reduce_sum %y {dims = array<i64: 0>, keepdims = false} : (tensor<16x16xf32>) -> tensor<16xf32>
  return %b, %s : tensor<16x4xf32>, tensor<16xf32>
}
