// RUN: tessera-opt --graph-join-pads --graph-simplify %s | FileCheck %s

// Three parts that cover the tensor, in any order.
// CHECK-LABEL: func.func @whole
// CHECK-NEXT: %[[C:.*]] = graph.concat %arg0, %arg1, %arg2 {dim = 1 : i64, graph.grad_of = "qkv", graph.name = "qkv.grad.2"}
// CHECK-NEXT: return %[[C]]
func.func @whole(%a: tensor<4x2xf32>, %b: tensor<4x3xf32>, %c: tensor<4x1xf32>) -> tensor<4x6xf32> {
  %pb = graph.pad %b {lo = array<i64: 0, 2>, hi = array<i64: 0, 1>, inner = array<i64: 0, 0>, value = 0.0 : f64} : (tensor<4x3xf32>) -> tensor<4x6xf32>
  %pa = graph.pad %a {lo = array<i64: 0, 0>, hi = array<i64: 0, 4>, inner = array<i64: 0, 0>, value = 0.0 : f64} : (tensor<4x2xf32>) -> tensor<4x6xf32>
  %pc = graph.pad %c {lo = array<i64: 0, 5>, hi = array<i64: 0, 0>, inner = array<i64: 0, 0>, value = 0.0 : f64} : (tensor<4x1xf32>) -> tensor<4x6xf32>
  %s = graph.add %pb, %pa : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %t = graph.add %s, %pc {graph.name = "qkv.grad.2", graph.grad_of = "qkv"} : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  return %t : tensor<4x6xf32>
}

// Two parts with a gap behind them, and another term.
// CHECK-LABEL: func.func @gap
// CHECK-NEXT: %[[C:.*]] = graph.concat %arg0, %arg1
// CHECK-NEXT: %[[P:.*]] = graph.pad %[[C]] {{.*}}hi = array<i64: 0, 2>{{.*}}lo = array<i64: 0, 0>
// CHECK-NEXT: %[[S:.*]] = graph.add %arg2, %[[P]]
// CHECK-NEXT: return %[[S]]
func.func @gap(%a: tensor<4x2xf32>, %b: tensor<4x2xf32>, %x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %pa = graph.pad %a {lo = array<i64: 0, 0>, hi = array<i64: 0, 4>, inner = array<i64: 0, 0>, value = 0.0 : f64} : (tensor<4x2xf32>) -> tensor<4x6xf32>
  %pb = graph.pad %b {lo = array<i64: 0, 2>, hi = array<i64: 0, 2>, inner = array<i64: 0, 0>, value = 0.0 : f64} : (tensor<4x2xf32>) -> tensor<4x6xf32>
  %s = graph.add %pa, %x : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %t = graph.add %s, %pb : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  return %t : tensor<4x6xf32>
}

// Not joined: parts that overlap, that another operator reads, that have another value, or lie along two dimensions.
// CHECK-LABEL: func.func @apart
// CHECK-NOT: graph.concat
func.func @apart(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) -> (tensor<4x6xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<8x8xf32>) {
  %o1 = graph.pad %a {lo = array<i64: 0, 0>, hi = array<i64: 0, 2>, inner = array<i64: 0, 0>, value = 0.0 : f64} : (tensor<4x4xf32>) -> tensor<4x6xf32>
  %o2 = graph.pad %b {lo = array<i64: 0, 2>, hi = array<i64: 0, 0>, inner = array<i64: 0, 0>, value = 0.0 : f64} : (tensor<4x4xf32>) -> tensor<4x6xf32>
  %overlap = graph.add %o1, %o2 : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %r1 = graph.pad %a {lo = array<i64: 0, 0>, hi = array<i64: 0, 4>, inner = array<i64: 0, 0>, value = 0.0 : f64} : (tensor<4x4xf32>) -> tensor<4x8xf32>
  %r2 = graph.pad %b {lo = array<i64: 0, 4>, hi = array<i64: 0, 0>, inner = array<i64: 0, 0>, value = 0.0 : f64} : (tensor<4x4xf32>) -> tensor<4x8xf32>
  %read = graph.add %r1, %r2 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %n1 = graph.pad %a {lo = array<i64: 0, 0>, hi = array<i64: 0, 4>, inner = array<i64: 0, 0>, value = 1.0 : f64} : (tensor<4x4xf32>) -> tensor<4x8xf32>
  %n2 = graph.pad %b {lo = array<i64: 0, 4>, hi = array<i64: 0, 0>, inner = array<i64: 0, 0>, value = 1.0 : f64} : (tensor<4x4xf32>) -> tensor<4x8xf32>
  %ones = graph.add %n1, %n2 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %d1 = graph.pad %a {lo = array<i64: 0, 0>, hi = array<i64: 4, 4>, inner = array<i64: 0, 0>, value = 0.0 : f64} : (tensor<4x4xf32>) -> tensor<8x8xf32>
  %d2 = graph.pad %b {lo = array<i64: 4, 4>, hi = array<i64: 0, 0>, inner = array<i64: 0, 0>, value = 0.0 : f64} : (tensor<4x4xf32>) -> tensor<8x8xf32>
  %corner = graph.add %d1, %d2 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %overlap, %r1, %read, %ones, %corner : tensor<4x6xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<8x8xf32>
}
