// RUN: tessera-opt --graph-schedule %s | FileCheck %s

// A reshape shows the bytes of its operand: it allocates nothing, and its readers keep the operand alive.

// CHECK-LABEL: func.func @reshape
func.func @reshape(%x: tensor<8x8xf32> {graph.role = "input"}) -> (tensor<16x8xf32>, tensor<f32>) {
  // CHECK-NEXT: %[[A:.*]] = graph.matmul
  // The view comes at once, and with it the sum that frees what it shows.
  // CHECK-NEXT: %[[V:.*]] = graph.reshape %[[A]]
  // CHECK-NEXT: graph.reduce_sum %[[V]]
  // CHECK-NEXT: graph.concat
  // CHECK-NEXT: return
  %a = graph.matmul %x, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %b = graph.concat %x, %x {dim = 0 : i64} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
  %v = graph.reshape %a : (tensor<8x8xf32>) -> tensor<64xf32>
  %s = graph.reduce_sum %v {dims = array<i64: 0>, keepdims = false} : (tensor<64xf32>) -> tensor<f32>
  return %b, %s : tensor<16x8xf32>, tensor<f32>
}

// A view that is returned keeps the bytes: the sum of the other view frees nothing.
// CHECK-LABEL: func.func @returned
func.func @returned(%x: tensor<8x8xf32> {graph.role = "input"}) -> (tensor<16x8xf32>, tensor<8xf32>, tensor<64xf32>) {
  // CHECK-NEXT: %[[A:.*]] = graph.matmul
  // CHECK-NEXT: %[[V:.*]] = graph.reshape %[[A]]
  // CHECK-NEXT: graph.concat
  // CHECK-NEXT: graph.reduce_sum %[[A]]
  // CHECK-NEXT: return
  %a = graph.matmul %x, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %b = graph.concat %x, %x {dim = 0 : i64} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
  %s = graph.reduce_sum %a {dims = array<i64: 0>, keepdims = false} : (tensor<8x8xf32>) -> tensor<8xf32>
  %v = graph.reshape %a : (tensor<8x8xf32>) -> tensor<64xf32>
  return %b, %s, %v : tensor<16x8xf32>, tensor<8xf32>, tensor<64xf32>
}
