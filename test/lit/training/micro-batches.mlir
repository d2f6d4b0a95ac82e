// RUN: tessera-opt --graph-build-training="loss=mse optimizer=sgd:lr=0.1 accumulate=2" %s | FileCheck %s

// Forward and backward are written once, for one of the micro-batches. Loss and gradients are added up over all.
func.func @forward(%x: tensor<4x3xf32> {graph.role = "input", graph.name = "x"},
                   %w: tensor<3x2xf32> {graph.role = "parameter", graph.name = "w"})
    -> (tensor<4x2xf32> {graph.role = "output", graph.name = "y"}) {
  %y = graph.matmul %x, %w {graph.name = "fc"} : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
  return %y : tensor<4x2xf32>
}
// CHECK: func.func @train({{.*}}%[[X:[a-z0-9]+]]: tensor<8x3xf32>
// CHECK:       %[[ROWS:.*]] = graph.micro_rows %[[X]] {graph.name = "micro_batch", parts = 2 : i64} : (tensor<8x3xf32>) -> tensor<4x3xf32>
// CHECK:       graph.micro_rows {{.*}} -> tensor<4x2xf32>
// CHECK:       graph.matmul %[[ROWS]], %{{.*}} {graph.name = "fc"}
// CHECK:       %[[G:.*]] = graph.matmul {{.*}} {graph.grad_of = "fc", graph.name = "fc.grad_b", transpose_a = true}
// CHECK-NOT:   graph.matmul
// CHECK:       graph.accumulate {{.*}} {graph.name = "loss.accumulate", parts = 2 : i64}
// CHECK:       %[[SUM:.*]] = graph.accumulate %[[G]] {graph.name = "w.accumulate", parts = 2 : i64}
// CHECK:       graph.mul {{.*}}%[[SUM]]
// CHECK:       graph.name = "w.update"
