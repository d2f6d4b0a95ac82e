// RUN: tessera-opt --graph-schedule %s | FileCheck %s

// Rows of a table that lives on are made where they were; added to a table, rows are freed, and so they are added at once.
// CHECK-LABEL: func.func @rows
func.func @rows(%t: tensor<4x8xf32> {graph.role = "parameter"}, %i: tensor<16xi64> {graph.role = "input"})
    -> (tensor<16x8xf32>, tensor<4x8xf32>, tensor<32x8xf32>) {
  // CHECK-NEXT: %[[G:.*]] = graph.gather %arg0, %arg1
  // CHECK-NEXT: %[[E:.*]] = graph.softmax %[[G]]
  // CHECK-NEXT: %[[S:.*]] = graph.scatter_add %arg1, %[[E]]
  // CHECK-NEXT: %[[B:.*]] = graph.concat %[[G]], %[[G]]
  // CHECK-NEXT: return %[[G]], %[[S]], %[[B]]
  %g = graph.gather %t, %i {axis = 0 : i64} : (tensor<4x8xf32>, tensor<16xi64>) -> tensor<16x8xf32>
  %e = graph.softmax %g {dim = 1 : i64} : (tensor<16x8xf32>) -> tensor<16x8xf32>
  %b = graph.concat %g, %g {dim = 0 : i64} : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<32x8xf32>
  %s = graph.scatter_add %i, %e {axis = 0 : i64, size = 4 : i64} : (tensor<16xi64>, tensor<16x8xf32>) -> tensor<4x8xf32>
  return %g, %s, %b : tensor<16x8xf32>, tensor<4x8xf32>, tensor<32x8xf32>
}
