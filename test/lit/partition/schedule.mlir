// RUN: tessera-opt --graph-schedule %s | FileCheck %s

// The update comes as soon as its gradient is there, before the next gradient.
// CHECK-LABEL: func.func @train
func.func @train(%x: tensor<8x4xf32> {graph.role = "input"},
                 %w1: tensor<8x8xf32> {graph.role = "parameter", graph.update = 0 : i64},
                 %w2: tensor<4x4xf32> {graph.role = "parameter", graph.update = 1 : i64})
    -> (tensor<8x8xf32>, tensor<4x4xf32>, tensor<8x4xf32>) {
  // CHECK-NEXT: %[[G1:.*]] = graph.matmul
  // CHECK-NEXT: %[[U1:.*]] = graph.sub %arg1, %[[G1]]
  // CHECK-NEXT: %[[G2:.*]] = graph.matmul
  // CHECK-NEXT: %[[U2:.*]] = graph.sub %arg2, %[[G2]]
  // CHECK-NEXT: return %[[U1]], %[[U2]], %arg0
  %g1 = graph.matmul %x, %x {transpose_b = true} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x8xf32>
  %g2 = graph.matmul %x, %x {transpose_a = true} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %u2 = graph.sub %w2, %g2 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %u1 = graph.sub %w1, %g1 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %u1, %u2, %x : tensor<8x8xf32>, tensor<4x4xf32>, tensor<8x4xf32>
}
