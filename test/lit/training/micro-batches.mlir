// RUN: tessera-opt --graph-build-training="loss=mse optimizer=sgd:lr=0.1 accumulate=2" %s | FileCheck %s

// The operators of the second micro-batch, and their gradients, say that they are its; what serves both says nothing.
func.func @forward(%x: tensor<4x3xf32> {graph.role = "input", graph.name = "x"},
                   %w: tensor<3x2xf32> {graph.role = "parameter", graph.name = "w"})
    -> (tensor<4x2xf32> {graph.role = "output", graph.name = "y"}) {
  %y = graph.matmul %x, %w {graph.name = "fc"} : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
  return %y : tensor<4x2xf32>
}
// CHECK-LABEL: func.func @train(
// CHECK:       graph.matmul {{.*}} {graph.name = "fc"}
// CHECK:       graph.matmul {{.*}} {graph.grad_of = "fc", graph.name = "fc.grad_b", transpose_a = true}
// CHECK:       graph.matmul {{.*}} {graph.micro_batch = 1 : i64, graph.name = "micro1/fc"}
// CHECK:       graph.matmul {{.*}} {graph.grad_of = "micro1/fc", graph.micro_batch = 1 : i64, graph.name = "micro1/fc.grad_b", transpose_a = true}
// CHECK-NOT:   micro_batch{{.*}}w.update
// CHECK:       graph.name = "w.update"
