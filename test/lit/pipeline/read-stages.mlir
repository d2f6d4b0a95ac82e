// Where the Send and Recv of a model file put its operators, and what is left of them.
// RUN: tessera-opt --graph-read-stages=stages=2 --split-input-file %s | FileCheck %s

// A chain. The transposed matrix lies where it is read, and what every stage may compute has no stage.
// CHECK-LABEL: func.func @chain
// CHECK-NEXT: %[[T:.*]] = graph.transpose {{.*}}graph.given_stage = 1 : i64
// CHECK-NEXT: %[[M:.*]] = graph.neg
// CHECK-NOT: given_stage
// CHECK-SAME: graph.name = "m"
// CHECK-NEXT: %[[A:.*]] = graph.softmax {{.*}}graph.given_stage = 0 : i64
// CHECK-NEXT: %[[B:.*]] = graph.relu %[[A]] {graph.given_stage = 0 : i64
// CHECK-NEXT: %[[Y:.*]] = graph.matmul %[[B]], %[[T]] {graph.given_stage = 1 : i64
// CHECK-NEXT: %[[Z:.*]] = graph.add %[[Y]], %[[M]] {graph.given_stage = 1 : i64
// CHECK-NEXT: return %[[Z]]
func.func @chain(%x: tensor<4x4xf32> {graph.role = "input", graph.name = "x"},
                 %w: tensor<4x4xf32> {graph.role = "parameter", graph.name = "w"}) -> (tensor<4x4xf32> {graph.role = "output"}) {
  %t = graph.transpose %w {perm = array<i64: 1, 0>, graph.name = "t"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %m = graph.neg %x {graph.name = "m"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %a = graph.softmax %x {dim = 1 : i64, graph.name = "a"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = graph.relu %a {graph.name = "b"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %s = graph.reshape %b {graph.name = "s", graph.sends_to = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %r = graph.reshape %s {graph.name = "r", graph.receives_from = 0 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = graph.matmul %r, %t {graph.name = "y"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %z = graph.add %y, %m {graph.name = "z"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %z : tensor<4x4xf32>
}
