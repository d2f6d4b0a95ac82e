// RUN: tessera-opt --graph-schedule %s | FileCheck %s

// The gradient of the operand still reads the weight. An update before it would need memory of its own, to be copied to
// the weight's at the end. So it waits, though its own gradient would be free.
// CHECK-LABEL: func.func @train
func.func @train(%x: tensor<8x8xf32> {graph.role = "input"}, %w: tensor<8x8xf32> {graph.role = "parameter", graph.update = 0 : i64})
    -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  // CHECK-NEXT: %[[GW:.*]] = graph.matmul %arg0, %arg0
  // CHECK-NEXT: %[[GX:.*]] = graph.matmul %arg0, %arg1
  // CHECK-NEXT: %[[U:.*]] = graph.sub %arg1, %[[GW]]
  // CHECK-NEXT: %[[E:.*]] = graph.exp %[[GX]]
  // CHECK-NEXT: return %[[U]], %[[E]]
  %gw = graph.matmul %x, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %u = graph.sub %w, %gw : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %gx = graph.matmul %x, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %e = graph.exp %gx : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %u, %e : tensor<8x8xf32>, tensor<8x8xf32>
}
