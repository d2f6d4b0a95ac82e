// RUN: tessera-opt --graph-simplify %s | FileCheck %s
// CHECK-LABEL: func.func @f
func.func @f(%x: tensor<4xf32>, %s: tensor<i64>) -> (tensor<4xf32>, tensor<4xf32>) {
  // Names do not keep equal operators apart, attributes do; unused operators go.
  // CHECK-NEXT: %[[A:.*]] = graph.exp %{{.*}} {graph.name = "a"}
  // CHECK-NEXT: %[[C:.*]] = graph.mul %[[A]], %[[A]]
  // CHECK-NEXT: %[[R1:.*]] = graph.random %{{.*}} {seed = 0 : i64, stream = 1 : i64}
  // CHECK-NEXT: %[[R2:.*]] = graph.random %{{.*}} {seed = 0 : i64, stream = 2 : i64}
  // CHECK-NEXT: %[[D:.*]] = graph.add %[[R1]], %[[R2]]
  // CHECK-NEXT: return %[[C]], %[[D]]
  %a = graph.exp %x {graph.name = "a"} : (tensor<4xf32>) -> tensor<4xf32>
  %b = graph.exp %x {graph.name = "b"} : (tensor<4xf32>) -> tensor<4xf32>
  %c = graph.mul %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %r1 = graph.random %s {seed = 0 : i64, stream = 1 : i64} : (tensor<i64>) -> tensor<4xf32>
  %r2 = graph.random %s {seed = 0 : i64, stream = 2 : i64} : (tensor<i64>) -> tensor<4xf32>
  %d = graph.add %r1, %r2 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %unused = graph.neg %c : (tensor<4xf32>) -> tensor<4xf32>
  return %c, %d : tensor<4xf32>, tensor<4xf32>
}

// Operators that were given two stages stay two. What has none, as a gradient, takes one of them.
// CHECK-LABEL: func.func @stages
func.func @stages(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  // CHECK-NEXT: %[[A:.*]] = graph.exp %{{.*}} {graph.given_stage = 0 : i64}
  // CHECK-NEXT: %[[B:.*]] = graph.exp %{{.*}} {graph.given_stage = 1 : i64}
  // CHECK-NEXT: return %[[A]], %[[B]], %[[A]], %[[B]]
  %a = graph.exp %x {graph.given_stage = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %b = graph.exp %x {graph.given_stage = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %c = graph.exp %x {graph.grad_of = "y"} : (tensor<4xf32>) -> tensor<4xf32>
  %d = graph.exp %x {graph.given_stage = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return %a, %b, %c, %d : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
