// RUN: tessera-opt --split-input-file --graph-gradient="function=f wrt=1,2" --graph-simplify %s | FileCheck %s
func.func @f(%x: tensor<8x4x6xf32>, %w: tensor<6x10xf32>, %b: tensor<10xf32>) -> tensor<f32> {
  %h = graph.matmul %x, %w {graph.name = "fc1"} : (tensor<8x4x6xf32>, tensor<6x10xf32>) -> tensor<8x4x10xf32>
  %a = graph.add %h, %b {graph.name = "bias"} : (tensor<8x4x10xf32>, tensor<10xf32>) -> tensor<8x4x10xf32>
  %y = graph.relu %a {graph.name = "relu"} : (tensor<8x4x10xf32>) -> tensor<8x4x10xf32>
  %s = graph.reduce_sum %y {dims = array<i64: 0, 1, 2>, keepdims = false, graph.name = "sum"} : (tensor<8x4x10xf32>) -> tensor<f32>
  return %s : tensor<f32>
}
// CHECK-LABEL: func.func @f(
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<8x4x6xf32>
// CHECK:       %[[Y:.*]] = graph.relu
// CHECK:       %[[SUM:.*]] = graph.reduce_sum
// CHECK-DAG:   %[[ONE:.*]] = graph.constant dense<1.000000e+00> : tensor<8x4x10xf32>
// CHECK-DAG:   %[[ZERO:.*]] = graph.constant dense<0.000000e+00> : tensor<f32>
// By relu's result, so that its operand need not be kept.
// CHECK:       %[[C:.*]] = graph.lt %[[ZERO]], %[[Y]] {graph.grad_of = "relu"
// CHECK:       %[[DA:.*]] = graph.select %[[C]], %[[ONE]], %[[ZERO]]
// The bias was stretched: its gradient is a sum.
// CHECK:       %[[DB:.*]] = graph.reduce_sum %[[DA]] {dims = array<i64: 0, 1>, graph.grad_of = "bias", graph.name = "bias.grad"
// The weight's gradient is one product over all rows; nobody asked for that of x.
// CHECK-NOT:   grad_a
// CHECK:       %[[XR:.*]] = graph.reshape %[[X]]
// CHECK:       %[[DR:.*]] = graph.reshape %[[DA]]
// CHECK:       %[[DW:.*]] = graph.matmul %[[XR]], %[[DR]] {graph.grad_of = "fc1", graph.name = "fc1.grad_b", transpose_a = true} : (tensor<32x6xf32>, tensor<32x10xf32>) -> tensor<6x10xf32>
// CHECK:       return %[[SUM]], %[[DW]], %[[DB]]

// -----

// Through a quantisation and around it, x + (q - x).detach(): the gradient of x is that of the sum, not that of q.
func.func @f(%unused: tensor<f32>, %x: tensor<8xf32>, %t: tensor<8xf32>) -> tensor<f32> {
  %q = graph.mul %x, %t {graph.name = "q"} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %d = graph.sub %q, %x {graph.name = "d"} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %stop = graph.reshape %d {graph.name = "stop", graph.stops_gradient} : (tensor<8xf32>) -> tensor<8xf32>
  %y = graph.add %x, %stop {graph.name = "y"} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %s = graph.reduce_sum %y {dims = array<i64: 0>, keepdims = false, graph.name = "sum"} : (tensor<8xf32>) -> tensor<f32>
  return %s : tensor<f32>
}
// CHECK-LABEL: func.func @f(
// CHECK:       %[[SUM:.*]] = graph.reduce_sum
// CHECK-NOT:   "q.grad
// CHECK:       return %[[SUM]], %{{.*}}, %{{.*}} : tensor<f32>, tensor<8xf32>, tensor<8xf32>
