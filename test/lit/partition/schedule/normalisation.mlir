// RUN: tessera-opt --graph-schedule %s | FileCheck %s

// A softmax frees what it reads, which is as large, and runs at once. A batch norm makes statistics, too: it takes more
// than it frees and keeps its place.
// CHECK-LABEL: func.func @norms
func.func @norms(%x: tensor<4x3xf32> {graph.role = "input"}, %s: tensor<3xf32> {graph.role = "parameter"})
    -> (tensor<4x3xf32>, tensor<3xf32>, tensor<4x3xf32>, tensor<8x3xf32>) {
  // CHECK-NEXT: %[[A:.*]] = graph.sigmoid %arg0
  // CHECK-NEXT: %[[C:.*]] = graph.neg %arg0
  // CHECK-NEXT: %[[P:.*]] = graph.softmax %[[C]]
  // CHECK-NEXT: %[[B:.*]] = graph.concat
  // CHECK-NEXT: graph.batch_norm %[[A]], %arg1, %arg1
  // CHECK-NEXT: return
  %a = graph.sigmoid %x : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %c = graph.neg %x : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %b = graph.concat %x, %x {dim = 0 : i64} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<8x3xf32>
  %y, %m, %v = graph.batch_norm %a, %s, %s {epsilon = 1.0e-5 : f64} : (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>)
  %p = graph.softmax %c {dim = 1 : i64} : (tensor<4x3xf32>) -> tensor<4x3xf32>
  return %y, %m, %p, %b : tensor<4x3xf32>, tensor<3xf32>, tensor<4x3xf32>, tensor<8x3xf32>
}
