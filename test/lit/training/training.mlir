// RUN: tessera-opt --graph-build-training="loss=cross_entropy optimizer=sgd:lr=0.1,momentum=0.9" --graph-simplify %s | FileCheck %s
func.func @forward(
    %x: tensor<4x3xf32> {graph.role = "input", graph.name = "image"},
    %w: tensor<3x2xf32> {graph.role = "parameter", graph.name = "fc.weight"},
    %r: tensor<2xf32> {graph.role = "state", graph.name = "running", graph.update = 1 : i64})
    -> (tensor<4x2xf32> {graph.role = "output", graph.name = "logits"},
        tensor<2xf32> {graph.role = "update", graph.name = "running"}) {
  %y = graph.matmul %x, %w {graph.name = "fc"} : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
  %n = graph.neg %r {graph.name = "stat"} : (tensor<2xf32>) -> tensor<2xf32>
  return %y, %n : tensor<4x2xf32>, tensor<2xf32>
}
func.func @infer(
    %x: tensor<4x3xf32> {graph.role = "input", graph.name = "image"},
    %w: tensor<3x2xf32> {graph.role = "parameter", graph.name = "fc.weight"})
    -> (tensor<4x2xf32> {graph.role = "output", graph.name = "logits"}) {
  %y = graph.matmul %x, %w {graph.name = "fc"} : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
  return %y : tensor<4x2xf32>
}
// CHECK-LABEL: func.func @train(
// CHECK-SAME:    %[[STEP:[a-z0-9]+]]: tensor<i64> {graph.name = "step", graph.role = "step"}
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<4x3xf32> {graph.name = "image", graph.role = "input"}
// CHECK-SAME:    %[[T:[a-z0-9]+]]: tensor<4xi64> {graph.name = "target", graph.role = "target"}
// CHECK-SAME:    %[[W:[a-z0-9]+]]: tensor<3x2xf32> {graph.name = "fc.weight", graph.role = "parameter", graph.update = 1 : i64}
// CHECK-SAME:    %[[R:[a-z0-9]+]]: tensor<2xf32> {graph.name = "running", graph.role = "state", graph.update = 2 : i64}
// CHECK-SAME:    %[[M:[a-z0-9]+]]: tensor<3x2xf32> {graph.fill = 0.000000e+00 : f64, graph.name = "momentum/fc.weight", graph.role = "state", graph.update = 3 : i64}
// CHECK-SAME:    -> (tensor<f32> {graph.name = "loss", graph.role = "loss"}
// CHECK-DAG:   %[[LOGITS:.*]] = graph.matmul %[[X]], %[[W]] {graph.name = "fc"}
// CHECK-DAG:   %[[STAT:.*]] = graph.neg %[[R]]
// CHECK:       %[[LOGP:.*]] = graph.log_softmax %[[LOGITS]]
// CHECK:       %[[HOT:.*]] = graph.eq
// CHECK:       %[[PICKED:.*]] = graph.select %[[HOT]], %[[LOGP]]
// Targets of -100 do not count, as in PyTorch.
// CHECK:       %[[COUNT:.*]] = graph.reduce_sum
// CHECK:       %[[SUM:.*]] = graph.reduce_sum %[[PICKED]]
// CHECK:       %[[MEAN:.*]] = graph.div %[[SUM]], %[[COUNT]]
// CHECK:       %[[LOSS:.*]] = graph.neg %[[MEAN]]
// CHECK:       %[[G:.*]] = graph.log_softmax_grad %{{.*}}, %[[LOGP]]
// CHECK:       %[[DW:.*]] = graph.matmul %[[X]], %[[G]] {graph.grad_of = "fc", graph.name = "fc.grad_b", transpose_a = true}
// CHECK:       %[[DECAYED:.*]] = graph.mul %[[M]],
// CHECK:       %[[BUFFER:.*]] = graph.add %[[DECAYED]], %[[DW]]
// CHECK:       %[[CHANGE:.*]] = graph.mul %[[BUFFER]],
// CHECK:       %[[NEW:.*]] = graph.sub %[[W]], %[[CHANGE]] {graph.name = "fc.weight.update.3", graph.update_of = "fc.weight"}
// CHECK:       return %[[LOSS]], %[[NEW]], %[[STAT]], %[[BUFFER]]

// CHECK-LABEL: func.func @eval(
// CHECK:       %[[LOGITS:.*]] = graph.matmul
// CHECK:       %[[BEST:.*]] = graph.argmax %[[LOGITS]]
// CHECK:       graph.eq %[[BEST]]
// CHECK:       %[[CORRECT:.*]] = graph.reduce_sum {{.*}}"correct
// CHECK:       return %[[LOGITS]], %{{.*}}, %[[CORRECT]], %

// CHECK-LABEL: func.func @infer(
// CHECK-NOT:   func.func @forward
