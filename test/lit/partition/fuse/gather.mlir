// RUN: tessera-opt --graph-fuse %s | FileCheck %s

// Gathers and their adjoints read points by index: what makes table, indices and updates ends before them.

// CHECK-LABEL: func.func @rows
func.func @rows(%t: tensor<8x4xf32>, %i: tensor<6xi64>) -> tensor<6x4xf32> {
  // CHECK-NEXT: %[[I:.*]] = graph.fused(%arg1) {{.*}}: (tensor<6xi64>) -> tensor<6xi64>
  // CHECK: graph.lt
  // CHECK: graph.select
  // CHECK: %[[Y:.*]] = graph.gather %arg0, %[[I]]
  // CHECK-NEXT: graph.exp %[[Y]]
  %zero = graph.constant dense<0> : tensor<i64>
  %rows = graph.constant dense<8> : tensor<i64>
  %below = graph.lt %i, %zero : (tensor<6xi64>, tensor<i64>) -> tensor<6xi1>
  %up = graph.add %i, %rows : (tensor<6xi64>, tensor<i64>) -> tensor<6xi64>
  %at = graph.select %below, %up, %i : (tensor<6xi1>, tensor<6xi64>, tensor<6xi64>) -> tensor<6xi64>
  %y = graph.gather %t, %at {axis = 0 : i64} : (tensor<8x4xf32>, tensor<6xi64>) -> tensor<6x4xf32>
  %z = graph.exp %y : (tensor<6x4xf32>) -> tensor<6x4xf32>
  return %z : tensor<6x4xf32>
}

// The update of a table reads the sum of its rows' gradients, not the rows.
// CHECK-LABEL: func.func @update
func.func @update(%t: tensor<8x4xf32>, %i: tensor<6xi64>, %g: tensor<6x4xf32>) -> tensor<8x4xf32> {
  // CHECK-NEXT: %[[S:.*]] = graph.scatter_add %arg1, %arg2
  // CHECK-NEXT: graph.fused({{.*}}) {{.*}}-> tensor<8x4xf32>
  // CHECK: graph.mul
  // CHECK: graph.sub
  %rate = graph.constant dense<0.5> : tensor<f32>
  %s = graph.scatter_add %i, %g {axis = 0 : i64, size = 8 : i64} : (tensor<6xi64>, tensor<6x4xf32>) -> tensor<8x4xf32>
  %d = graph.mul %s, %rate : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
  %y = graph.sub %t, %d : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}
