// RUN: tessera-opt --graph-schedule %s | FileCheck %s

// What frees at least as much memory as it allocates runs as soon as it can; everything else keeps its place.

// The sum frees %a, so it comes before the larger %b.
// CHECK-LABEL: func.func @frees
func.func @frees(%x: tensor<8x8xf32> {graph.role = "input"}) -> (tensor<8xf32>, tensor<16x8xf32>) {
  // CHECK-NEXT: %[[A:.*]] = graph.matmul %arg0, %arg0
  // CHECK-NEXT: %[[S:.*]] = graph.reduce_sum %[[A]]
  // CHECK-NEXT: %[[B:.*]] = graph.concat
  // CHECK-NEXT: return %[[S]], %[[B]]
  %a = graph.matmul %x, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %b = graph.concat %x, %x {dim = 0 : i64} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
  %s = graph.reduce_sum %a {dims = array<i64: 0>, keepdims = false} : (tensor<8x8xf32>) -> tensor<8xf32>
  return %s, %b : tensor<8xf32>, tensor<16x8xf32>
}

// Another reader keeps %a alive, so the sum frees nothing and stays behind %b.
// CHECK-LABEL: func.func @read_again
func.func @read_again(%x: tensor<8x8xf32> {graph.role = "input"}) -> (tensor<8xf32>, tensor<16x8xf32>, tensor<8x8xf32>) {
  // CHECK-NEXT: %[[A:.*]] = graph.matmul
  // CHECK-NEXT: graph.concat
  // CHECK-NEXT: graph.reduce_sum %[[A]]
  // CHECK-NEXT: return
  %a = graph.matmul %x, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %b = graph.concat %x, %x {dim = 0 : i64} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
  %s = graph.reduce_sum %a {dims = array<i64: 0>, keepdims = false} : (tensor<8x8xf32>) -> tensor<8xf32>
  return %s, %b, %a : tensor<8xf32>, tensor<16x8xf32>, tensor<8x8xf32>
}

// Of two readers the second frees: after the first, it no longer waits for %b.
// CHECK-LABEL: func.func @last_reader
func.func @last_reader(%x: tensor<8x8xf32> {graph.role = "input"}) -> (tensor<16x8xf32>, tensor<16x8xf32>, tensor<8xf32>) {
  // CHECK-NEXT: %[[A:.*]] = graph.matmul
  // CHECK-NEXT: %[[C:.*]] = graph.concat %[[A]], %[[A]]
  // CHECK-NEXT: %[[S:.*]] = graph.reduce_sum %[[A]]
  // CHECK-NEXT: %[[B:.*]] = graph.concat %arg0, %arg0
  // CHECK-NEXT: return %[[C]], %[[B]], %[[S]]
  %a = graph.matmul %x, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %c = graph.concat %a, %a {dim = 0 : i64} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
  %b = graph.concat %x, %x {dim = 0 : i64} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
  %s = graph.reduce_sum %a {dims = array<i64: 0>, keepdims = false} : (tensor<8x8xf32>) -> tensor<8xf32>
  return %c, %b, %s : tensor<16x8xf32>, tensor<16x8xf32>, tensor<8xf32>
}

// Both operands are freed by one product: it does not wait.
// CHECK-LABEL: func.func @both_operands
func.func @both_operands(%x: tensor<8x4xf32> {graph.role = "input"}) -> (tensor<8x8xf32>, tensor<16x4xf32>) {
  // CHECK-NEXT: %[[A:.*]] = graph.exp
  // CHECK-NEXT: %[[C:.*]] = graph.neg
  // CHECK-NEXT: %[[P:.*]] = graph.matmul %[[A]], %[[C]]
  // CHECK-NEXT: graph.concat
  // CHECK-NEXT: return %[[P]]
  %a = graph.exp %x : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %c = graph.neg %x : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %b = graph.concat %x, %x {dim = 0 : i64} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
  %p = graph.matmul %a, %c {transpose_b = true} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x8xf32>
  return %p, %b : tensor<8x8xf32>, tensor<16x4xf32>
}
