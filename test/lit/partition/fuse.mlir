// RUN: tessera-opt --graph-fuse %s | FileCheck %s

// Both sums of a batch norm's backward pass and what leads to them: one pass over dy and x.
// CHECK-LABEL: func.func @siblings
func.func @siblings(%dy: tensor<8x6x4xf32>, %x: tensor<8x6x4xf32>, %m: tensor<1x6x1xf32>) -> (tensor<6xf32>, tensor<6xf32>) {
  // CHECK-NEXT: %[[R:.*]]:2 = graph.fused(%arg0, %arg1, %arg2)
  // CHECK-NEXT: ^bb0(%[[DY:.*]]: tensor<8x6x4xf32>, %[[X:.*]]: tensor<8x6x4xf32>, %[[M:.*]]: tensor<1x6x1xf32>):
  // CHECK-NEXT: %[[S1:.*]] = graph.reduce_sum %[[DY]]
  // CHECK-NEXT: %[[D:.*]] = graph.sub %[[X]], %[[M]]
  // CHECK-NEXT: %[[P:.*]] = graph.mul %[[DY]], %[[D]]
  // CHECK-NEXT: %[[S2:.*]] = graph.reduce_sum %[[P]]
  // CHECK-NEXT: graph.yield %[[S1]], %[[S2]]
  // CHECK: return %[[R]]#0, %[[R]]#1
  %s1 = graph.reduce_sum %dy {dims = array<i64: 0, 2>, keepdims = false} : (tensor<8x6x4xf32>) -> tensor<6xf32>
  %d = graph.sub %x, %m : (tensor<8x6x4xf32>, tensor<1x6x1xf32>) -> tensor<8x6x4xf32>
  %p = graph.mul %dy, %d : (tensor<8x6x4xf32>, tensor<8x6x4xf32>) -> tensor<8x6x4xf32>
  %s2 = graph.reduce_sum %p {dims = array<i64: 0, 2>, keepdims = false} : (tensor<8x6x4xf32>) -> tensor<6xf32>
  return %s1, %s2 : tensor<6xf32>, tensor<6xf32>
}

// A reduction's result is not there until its loop has ended: two loops, although everything is [4, 1].
// CHECK-LABEL: func.func @after_reduction
func.func @after_reduction(%x: tensor<4x1xf32>) -> tensor<4x1xf32> {
  // CHECK-NEXT: graph.exp
  // CHECK-NEXT: graph.reshape
  // CHECK-NEXT: graph.reduce_sum
  // CHECK-NEXT: graph.fused
  // CHECK: graph.constant
  // CHECK: graph.mul
  // CHECK-NOT: graph.fused
  // CHECK: return
  %e = graph.exp %x : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %v = graph.reshape %e : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %s = graph.reduce_sum %v {dims = array<i64: 1>, keepdims = true} : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %c = graph.constant dense<2.0> : tensor<f32>
  %m = graph.mul %s, %c : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  return %m : tensor<4x1xf32>
}

// The way from relu to add leads through a matmul: they must not become one.
// CHECK-LABEL: func.func @cycle
func.func @cycle(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // CHECK-NEXT: graph.relu
  // CHECK-NEXT: graph.matmul
  // CHECK-NEXT: graph.add
  // CHECK-NEXT: return
  %a = graph.relu %x : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = graph.matmul %a, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %c = graph.add %a, %b : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %c : tensor<4x4xf32>
}

// A stretch is free inside; outside it stays for whom it is not.
// CHECK-LABEL: func.func @stretch
func.func @stretch(%x: tensor<4x8xf32>, %b: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x4xf32>) {
  // CHECK-NEXT: %[[S:.*]] = graph.broadcast %arg1
  // CHECK-NEXT: %[[F:.*]] = graph.fused(%arg0, %arg1)
  // CHECK: graph.broadcast
  // CHECK: graph.matmul %[[S]], %[[F]]
  %s = graph.broadcast %b : (tensor<8xf32>) -> tensor<4x8xf32>
  %y = graph.add %x, %s : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %z = graph.matmul %s, %y {transpose_b = true} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x4xf32>
  return %y, %z : tensor<4x8xf32>, tensor<4x4xf32>
}

// What a loop makes is used before its last member's place: the program is put in order again.
// CHECK-LABEL: func.func @order
func.func @order(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>) {
  // CHECK-NEXT: %[[F:.*]]:2 = graph.fused(%arg0)
  // CHECK: %[[B:.*]] = graph.matmul %[[F]]#0, %arg1
  // CHECK-NEXT: return %[[B]], %[[F]]#1
  %a = graph.relu %x : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = graph.matmul %a, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %s = graph.reduce_sum %a {dims = array<i64: 0>, keepdims = false} : (tensor<4x4xf32>) -> tensor<4xf32>
  return %b, %s : tensor<4x4xf32>, tensor<4xf32>
}
