// RUN: tessera-opt --graph-build-training="loss=mse optimizer=sgd:lr=0.1 accumulate=2 loss-scale=static:scale=8 clip-norm=1 compress=bf16" %s | FileCheck %s

// What is sent in fewer bits is the sum over all micro-batches, without the scale, before anything else reads it.
func.func @forward(%x: tensor<4x3xf32> {graph.role = "input", graph.name = "x"},
                   %w: tensor<3x2xf32> {graph.role = "parameter", graph.name = "w"})
    -> (tensor<4x2xf32> {graph.role = "output", graph.name = "y"}) {
  %y = graph.matmul %x, %w {graph.name = "fc"} : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
  return %y : tensor<4x2xf32>
}
// CHECK: %[[ALL:.*]] = graph.accumulate {{.*}}graph.name = "w.accumulate"
// CHECK: %[[G:.*]] = graph.mul %[[ALL]]
// CHECK: %[[S:.*]] = graph.reshape %[[G]] {graph.name = "w.sum", graph.sent_as = "bf16", graph.update_of = "w"} : (tensor<3x2xf32>) -> tensor<3x2xf32>
// CHECK-NOT: %[[G]]
// CHECK: graph.mul %[[S]], %[[S]]
