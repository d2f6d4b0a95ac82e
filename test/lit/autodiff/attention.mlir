// RUN: tessera-opt --graph-gradient="function=f" --graph-simplify %s | FileCheck %s

// Attention keeps the statistics of its rows only where its gradient is wanted; the gradient reads them and the result.
// CHECK-LABEL: func.func @f(%arg0: tensor<2x4x8x2xf32>, %arg1: tensor<2x1x1x8xi64>)
// CHECK:       %[[B:.*]] = graph.cast %arg1
// CHECK-NEXT:  %[[Y:.*]], %[[S:.*]] = graph.attention %arg0, %arg0, %arg0, %[[B]] {
// CHECK-SAME:    graph.name = "mix"
// CHECK-SAME:    keeps_statistics
// CHECK-SAME:    -> (tensor<2x4x8x2xf32>, tensor<2x4x8xf32>)
// CHECK-NEXT:  %[[Z:.*]] = graph.attention %[[B]], %[[B]], %[[B]] {
// CHECK-NOT:     keeps_statistics
// CHECK-SAME:    -> tensor<2x1x1x8xf32>
// CHECK-NOT:   graph.attention %
// CHECK:       graph.attention_grad %{{.*}}, %arg0, %arg0, %arg0, %[[Y]], %[[S]], %[[B]] {
// CHECK-SAME:    graph.grad_of = "mix", graph.name = "mix.grad"
// CHECK-NOT:   graph.attention %
// CHECK:       return
func.func @f(%x: tensor<2x4x8x2xf32>, %i: tensor<2x1x1x8xi64>) -> tensor<f32> {
  %b = graph.cast %i {graph.name = "b"} : (tensor<2x1x1x8xi64>) -> tensor<2x1x1x8xf32>
  %y = graph.attention %x, %x, %x, %b {scale = 0.5 : f64, graph.name = "mix"} : (tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>, tensor<2x1x1x8xf32>) -> tensor<2x4x8x2xf32>
  %z = graph.attention %b, %b, %b {scale = 0.5 : f64, graph.name = "fixed"} : (tensor<2x1x1x8xf32>, tensor<2x1x1x8xf32>, tensor<2x1x1x8xf32>) -> tensor<2x1x1x8xf32>
  %s = graph.reduce_sum %y {dims = array<i64: 0, 1, 2, 3>, keepdims = false, graph.name = "sum"} : (tensor<2x4x8x2xf32>) -> tensor<f32>
  %t = graph.reduce_sum %z {dims = array<i64: 0, 1, 2, 3>, keepdims = false, graph.name = "sum2"} : (tensor<2x1x1x8xf32>) -> tensor<f32>
  %l = graph.add %s, %t {graph.name = "loss"} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %l : tensor<f32>
}

// RUN: tessera-opt --graph-gradient="function=g" --graph-simplify %s | FileCheck %s --check-prefix=KEEP

// What dropout keeps is the same in the gradient, beside a bias or without one.
// KEEP-LABEL: func.func @g(
// KEEP:       %[[Y:.*]], %[[S:.*]] = graph.attention %arg0, %arg0, %arg0, %[[B:.*]], %arg2 {
// KEEP-SAME:    keep_scale = 1.250000e+00
// KEEP:       %[[Z:.*]], %[[T:.*]] = graph.attention %arg0, %arg0, %arg0, %arg2 {
// KEEP:       graph.attention_grad %{{.*}}, %arg0, %arg0, %arg0, %[[Z]], %[[T]], %arg2 {
// KEEP-SAME:    keep_scale = 2.000000e+00
// KEEP:       graph.attention_grad %{{.*}}, %arg0, %arg0, %arg0, %[[Y]], %[[S]], %[[B]], %arg2 {
// KEEP-SAME:    keep_scale = 1.250000e+00
func.func @g(%x: tensor<2x4x8x2xf32>, %i: tensor<2x1x1x8xi64>, %keep: tensor<2x4x8x8xi1>) -> tensor<f32> {
  %b = graph.cast %i {graph.name = "b"} : (tensor<2x1x1x8xi64>) -> tensor<2x1x1x8xf32>
  %y = graph.attention %x, %x, %x, %b, %keep {scale = 0.5 : f64, keep_scale = 1.25 : f64, graph.name = "mix"} : (tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>, tensor<2x1x1x8xf32>, tensor<2x4x8x8xi1>) -> tensor<2x4x8x2xf32>
  %z = graph.attention %x, %x, %x, %keep {scale = 0.5 : f64, keep_scale = 2.0 : f64, graph.name = "bare"} : (tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>, tensor<2x4x8x8xi1>) -> tensor<2x4x8x2xf32>
  %a = graph.mul %y, %z {graph.name = "both"} : (tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>) -> tensor<2x4x8x2xf32>
  %s = graph.reduce_sum %a {dims = array<i64: 0, 1, 2, 3>, keepdims = false, graph.name = "sum"} : (tensor<2x4x8x2xf32>) -> tensor<f32>
  return %s : tensor<f32>
}
