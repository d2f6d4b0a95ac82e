// RUN: split-file %s %t
// RUN: not tessera-opt --graph-build-training="loss=huber" %t/model.mlir 2>&1 | FileCheck %s --check-prefix=LOSS
// RUN: not tessera-opt --graph-build-training="optimizer=sgd:lr=0.1,momentun=0.9" %t/model.mlir 2>&1 | FileCheck %s --check-prefix=KEY
// RUN: not tessera-opt --graph-build-training="loss=mse" %t/integers.mlir 2>&1 | FileCheck %s --check-prefix=INTEGERS
// RUN: not tessera-opt --graph-gradient="function=f" %t/second-order.mlir 2>&1 | FileCheck %s --check-prefix=SECOND

// LOSS: loss 'huber': 'huber' is unknown; known: cross_entropy, nll, mse, bce_with_logits, output
// KEY: 'momentun' is not a key of 'sgd'; known: lr, momentum, dampening, nesterov, weight_decay
// INTEGERS: output 0 has integer elements: no loss can be computed of it
// SECOND: cannot differentiate 'attention' (graph.softmax_grad): there is no gradient rule for this operator

//--- model.mlir
func.func @forward(%w: tensor<2x3xf32> {graph.role = "parameter", graph.name = "w"})
    -> (tensor<2x3xf32> {graph.role = "output", graph.name = "y"}) {
  return %w : tensor<2x3xf32>
}
//--- integers.mlir
func.func @forward(%w: tensor<2x3xf32> {graph.role = "parameter", graph.name = "w"})
    -> (tensor<2xi64> {graph.role = "output", graph.name = "y"}) {
  %y = graph.argmax %w {dim = 1 : i64, keepdims = false} : (tensor<2x3xf32>) -> tensor<2xi64>
  return %y : tensor<2xi64>
}
//--- second-order.mlir
func.func @f(%dy: tensor<3xf32>, %y: tensor<3xf32>) -> tensor<f32> {
  %x = graph.softmax_grad %dy, %y {dim = 0 : i64, graph.name = "attention"} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %s = graph.reduce_sum %x {dims = array<i64: 0>, keepdims = false} : (tensor<3xf32>) -> tensor<f32>
  return %s : tensor<f32>
}
