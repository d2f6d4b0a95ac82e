// RUN: tessera-opt --graph-fuse %s | FileCheck %s

// Reductions end a loop: what leads to them is in it, what reads them is not.

// The terms of a sum are never in memory.
// CHECK-LABEL: func.func @terms
func.func @terms(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: %[[S:.*]] = graph.fused(%arg0, %arg1) {{.*}}: (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4xf32>
  // CHECK: %[[P:.*]] = graph.mul
  // CHECK-NEXT: %[[R:.*]] = graph.reduce_sum %[[P]]
  // CHECK-NEXT: graph.yield %[[R]]
  // CHECK: return %[[S]]
  %p = graph.mul %x, %y : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %s = graph.reduce_sum %p {dims = array<i64: 1>, keepdims = false} : (tensor<4x8xf32>) -> tensor<4xf32>
  return %s : tensor<4xf32>
}

// Three reductions of one tensor, over other dimensions each, read it once.
// CHECK-LABEL: func.func @kinds
func.func @kinds(%x: tensor<4x8xf32>) -> (tensor<4xf32>, tensor<8xf32>, tensor<f32>) {
  // CHECK-NEXT: %[[R:.*]]:3 = graph.fused(%arg0) {{.*}}-> (tensor<4xf32>, tensor<8xf32>, tensor<f32>)
  // CHECK: graph.reduce_sum
  // CHECK-NEXT: graph.reduce_max
  // CHECK-NEXT: graph.reduce_min
  // CHECK: return %[[R]]#0, %[[R]]#1, %[[R]]#2
  %a = graph.reduce_sum %x {dims = array<i64: 1>, keepdims = false} : (tensor<4x8xf32>) -> tensor<4xf32>
  %b = graph.reduce_max %x {dims = array<i64: 0>, keepdims = false} : (tensor<4x8xf32>) -> tensor<8xf32>
  %c = graph.reduce_min %x {dims = array<i64: 0, 1>, keepdims = false} : (tensor<4x8xf32>) -> tensor<f32>
  return %a, %b, %c : tensor<4xf32>, tensor<8xf32>, tensor<f32>
}

// A normalised row reads its own sum: that is a second pass.
// CHECK-LABEL: func.func @two_passes
func.func @two_passes(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK-NEXT: %[[S:.*]] = graph.fused(%arg0) {{.*}}-> tensor<4x1xf32>
  // CHECK: graph.exp
  // CHECK-NEXT: graph.reduce_sum
  // CHECK: graph.div
  // CHECK: return
  %e = graph.exp %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %s = graph.reduce_sum %e {dims = array<i64: 1>, keepdims = true} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %y = graph.div %x, %s : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// A reduction alone is a kernel of its own.
// CHECK-LABEL: func.func @alone
func.func @alone(%x: tensor<4x8xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: graph.reduce_max %arg0
  // CHECK-NEXT: return
  %m = graph.reduce_max %x {dims = array<i64: 1>, keepdims = false} : (tensor<4x8xf32>) -> tensor<4xf32>
  return %m : tensor<4xf32>
}

// The place of a maximum combines points otherwise, and stays outside.
// CHECK-LABEL: func.func @place
func.func @place(%x: tensor<4x8xf32>) -> tensor<4xi64> {
  // CHECK-NEXT: %[[E:.*]] = graph.exp
  // CHECK-NEXT: graph.argmax %[[E]]
  // CHECK-NEXT: return
  %e = graph.exp %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %i = graph.argmax %e {dim = 1 : i64, keepdims = false} : (tensor<4x8xf32>) -> tensor<4xi64>
  return %i : tensor<4xi64>
}
