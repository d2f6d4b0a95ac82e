// RUN: tessera-opt --graph-schedule %s | FileCheck %s

// Attention frees its query, which is as large as its result. Keys and values are parameters here and live on.
// CHECK-LABEL: func.func @attention
func.func @attention(%x: tensor<1x2x4x8xf32> {graph.role = "input"}, %k: tensor<1x2x4x8xf32> {graph.role = "parameter"},
                     %v: tensor<1x2x4x8xf32> {graph.role = "parameter"}) -> (tensor<1x2x4x8xf32>, tensor<2x2x4x8xf32>) {
  // CHECK-NEXT: %[[Q:.*]] = graph.softmax %arg0
  // CHECK-NEXT: %[[Y:.*]] = graph.attention %[[Q]], %arg1, %arg2
  // CHECK-NEXT: %[[B:.*]] = graph.concat
  // CHECK-NEXT: return %[[Y]], %[[B]]
  %q = graph.softmax %x {dim = 3 : i64} : (tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32>
  %b = graph.concat %x, %x {dim = 0 : i64} : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> tensor<2x2x4x8xf32>
  %y = graph.attention %q, %k, %v {scale = 1.0 : f64} : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32>
  return %y, %b : tensor<1x2x4x8xf32>, tensor<2x2x4x8xf32>
}
