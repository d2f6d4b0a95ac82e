// RUN: tessera-opt --graph-schedule %s | FileCheck %s

// First what runs once before the micro-batches, then what runs for each, then what runs once behind them. Inside a
// section an operator that frees memory does not wait, but none leaves its section.
// CHECK-LABEL: func.func @step
func.func @step(%x: tensor<8x4xf32> {graph.role = "input"}, %w: tensor<4x4xf32> {graph.role = "parameter", graph.update = 0 : i64})
    -> tensor<4x4xf32> {
  // CHECK-NEXT: %[[T:.*]] = graph.transpose %arg1
  // CHECK-NEXT: %[[R:.*]] = graph.micro_rows %arg0
  // CHECK-NEXT: %[[Y:.*]] = graph.matmul %[[R]], %[[T]]
  // CHECK-NEXT: %[[G:.*]] = graph.matmul %[[R]], %[[Y]]
  // CHECK-NEXT: %[[S:.*]] = graph.accumulate %[[G]]
  // CHECK-NEXT: %[[N:.*]] = graph.exp %arg1
  // CHECK-NEXT: %[[U:.*]] = graph.sub %[[N]], %[[S]]
  // CHECK-NEXT: return %[[U]]
  %n = graph.exp %w : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %r = graph.micro_rows %x {parts = 2 : i64} : (tensor<8x4xf32>) -> tensor<4x4xf32>
  %t = graph.transpose %w {perm = array<i64: 1, 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = graph.matmul %r, %t : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %g = graph.matmul %r, %y {transpose_a = true} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %s = graph.accumulate %g {parts = 2 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %u = graph.sub %n, %s : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %u : tensor<4x4xf32>
}
