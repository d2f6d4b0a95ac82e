// RUN: tessera-opt --graph-gradient="function=unary" --graph-simplify %s | FileCheck %s --check-prefix=UNARY
// RUN: tessera-opt --graph-gradient="function=binary" --graph-simplify %s | FileCheck %s --check-prefix=BINARY
// What is built is what the rows of Elementwise.def say, in their order.

// Tanh: g * (1 - y * y). Log1p: g / (a + 1).
// UNARY-LABEL: func.func @unary(%arg0: tensor<4xf32>)
// UNARY:       %[[T:.*]] = graph.tanh %arg0
// UNARY:       %[[L:.*]] = graph.log1p %[[T]]
// UNARY-DAG:   %[[G:.*]] = graph.constant dense<1.000000e+00> : tensor<4xf32>
// UNARY-DAG:   %[[M:.*]] = graph.constant dense<-1.000000e+00> : tensor<f32>
// UNARY-DAG:   %[[ONE:.*]] = graph.constant dense<1.000000e+00> : tensor<f32>
// UNARY:       %[[S:.*]] = graph.sub %[[T]], %[[M]] {graph.grad_of = "l", graph.name = "l.grad"}
// UNARY:       %[[DL:.*]] = graph.div %[[G]], %[[S]] {graph.grad_of = "l", graph.name = "l.grad.1"}
// UNARY:       %[[Y2:.*]] = graph.mul %[[T]], %[[T]] {graph.grad_of = "t", graph.name = "t.grad"}
// UNARY:       %[[R:.*]] = graph.sub %[[ONE]], %[[Y2]] {graph.grad_of = "t", graph.name = "t.grad.1"}
// UNARY:       %[[DT:.*]] = graph.mul %[[DL]], %[[R]] {graph.grad_of = "t", graph.name = "t.grad.2"}
// UNARY:       return %{{.*}}, %[[DT]]
func.func @unary(%x: tensor<4xf32>) -> tensor<f32> {
  %t = graph.tanh %x {graph.name = "t"} : (tensor<4xf32>) -> tensor<4xf32>
  %l = graph.log1p %t {graph.name = "l"} : (tensor<4xf32>) -> tensor<4xf32>
  %s = graph.reduce_sum %l {dims = array<i64: 0>, keepdims = false, graph.name = "sum"} : (tensor<4xf32>) -> tensor<f32>
  return %s : tensor<f32>
}

// Div: linear, -(g * (y / b)). A stretched operand is summed for.
// BINARY-LABEL: func.func @binary(%arg0: tensor<4xf32>, %arg1: tensor<f32>)
// BINARY:       %[[Y:.*]] = graph.div %arg0, %arg1 {graph.name = "d"}
// BINARY:       %[[G:.*]] = graph.constant dense<1.000000e+00> : tensor<4xf32>
// BINARY:       %[[DA:.*]] = graph.div %[[G]], %arg1 {graph.grad_of = "d", graph.name = "d.grad"}
// BINARY:       %[[Q:.*]] = graph.div %[[Y]], %arg1 {graph.grad_of = "d", graph.name = "d.grad.1"}
// BINARY:       %[[N:.*]] = graph.neg %[[Q]] {graph.grad_of = "d"
// BINARY:       %[[DB:.*]] = graph.reduce_sum %[[N]]
// BINARY:       return %{{.*}}, %[[DA]], %[[DB]]
func.func @binary(%a: tensor<4xf32>, %b: tensor<f32>) -> tensor<f32> {
  %y = graph.div %a, %b {graph.name = "d"} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %s = graph.reduce_sum %y {dims = array<i64: 0>, keepdims = false, graph.name = "sum"} : (tensor<4xf32>) -> tensor<f32>
  return %s : tensor<f32>
}
