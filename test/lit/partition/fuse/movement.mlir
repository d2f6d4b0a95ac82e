// RUN: tessera-opt --graph-fuse %s | FileCheck %s

// Operators that move points end a loop. A stretch does not: each loop reads the narrow tensor.

// CHECK-LABEL: func.func @transpose
func.func @transpose(%x: tensor<4x8xf32>) -> tensor<8x4xf32> {
  // CHECK-NEXT: graph.exp
  // CHECK-NEXT: graph.transpose
  // CHECK-NEXT: graph.neg
  // CHECK-NEXT: return
  %a = graph.exp %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %b = graph.transpose %a {perm = array<i64: 1, 0>} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %c = graph.neg %b : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %c : tensor<8x4xf32>
}

// CHECK-LABEL: func.func @parts
func.func @parts(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<8xf32> {
  // CHECK-NEXT: %[[A:.*]] = graph.exp %arg0
  // CHECK-NEXT: %[[B:.*]] = graph.exp %arg1
  // CHECK-NEXT: %[[C:.*]] = graph.concat %[[A]], %[[B]]
  // CHECK-NEXT: graph.neg %[[C]]
  %a = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  %b = graph.exp %y : (tensor<4xf32>) -> tensor<4xf32>
  %c = graph.concat %a, %b {dim = 0 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  %d = graph.neg %c : (tensor<8xf32>) -> tensor<8xf32>
  return %d : tensor<8xf32>
}

// Slices and paddings read other points than they write.
// CHECK-LABEL: func.func @window
func.func @window(%x: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK-NEXT: graph.exp
  // CHECK-NEXT: graph.slice
  // CHECK-NEXT: graph.pad
  // CHECK-NEXT: graph.neg
  // CHECK-NEXT: return
  %a = graph.exp %x : (tensor<8xf32>) -> tensor<8xf32>
  %b = graph.slice %a {starts = array<i64: 2>, limits = array<i64: 6>, strides = array<i64: 1>} : (tensor<8xf32>) -> tensor<4xf32>
  %c = graph.pad %b {lo = array<i64: 4>, hi = array<i64: 0>, inner = array<i64: 0>, value = 0.0 : f64} : (tensor<4xf32>) -> tensor<8xf32>
  %d = graph.neg %c : (tensor<8xf32>) -> tensor<8xf32>
  return %d : tensor<8xf32>
}

// Two loops read one stretched tensor: both stretch it, and the wide one is never in memory.
// CHECK-LABEL: func.func @stretched_twice
func.func @stretched_twice(%x: tensor<1x8xf32>, %y: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  // CHECK-NEXT: %[[A:.*]] = graph.fused({{.*}}) {{.*}}(tensor<4x8xf32>, tensor<1x8xf32>) -> tensor<4x8xf32>
  // CHECK: graph.broadcast
  // CHECK: graph.matmul %[[A]]
  // CHECK: graph.fused({{.*}}) {{.*}}(tensor<4x8xf32>, tensor<1x8xf32>) -> tensor<4x8xf32>
  // CHECK: graph.broadcast
  // CHECK-NOT: graph.broadcast
  // CHECK: return
  %s = graph.broadcast %x : (tensor<1x8xf32>) -> tensor<4x8xf32>
  %a = graph.add %y, %s : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %p = graph.matmul %a, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %b = graph.mul %p, %s : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %a, %b : tensor<4x8xf32>, tensor<4x8xf32>
}

// A stretch that a product reads is in memory.
// CHECK-LABEL: func.func @stretched_for_a_product
func.func @stretched_for_a_product(%x: tensor<1x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
  // CHECK-NEXT: %[[S:.*]] = graph.broadcast %arg0
  // CHECK-NEXT: graph.matmul %[[S]], %arg1
  // CHECK-NEXT: return
  %s = graph.broadcast %x : (tensor<1x8xf32>) -> tensor<4x8xf32>
  %p = graph.matmul %s, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  return %p : tensor<4x8xf32>
}
