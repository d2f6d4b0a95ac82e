// RUN: tessera-opt --graph-recompute=level=full %s | FileCheck %s

// Statistics of long rows are small and kept, so the run for the gradient makes the result alone.
// CHECK-LABEL: func.func @kept
// CHECK: graph.attention {{.*}}graph.name = "y0", keeps_statistics
// CHECK: graph.name = "loss"
// CHECK: graph.attention {{.*}}graph.name = "again/y0"
// CHECK-NOT: keeps_statistics
// CHECK-SAME: -> tensor<4x256x64xf32>
// CHECK: return
func.func @kept(%x: tensor<4x256x2xf32> {graph.role = "input", graph.name = "x"}, %up: tensor<4x2x64xf32> {graph.role = "parameter", graph.name = "up"}, %down: tensor<4x64x2xf32> {graph.role = "parameter", graph.name = "down"}) -> tensor<4x256x2xf32> {
  %u0 = graph.matmul %x, %up {graph.name = "u0"} : (tensor<4x256x2xf32>, tensor<4x2x64xf32>) -> tensor<4x256x64xf32>
  %y0, %s0 = graph.attention %u0, %u0, %u0 {graph.name = "y0", keeps_statistics, scale = 1.0} : (tensor<4x256x64xf32>, tensor<4x256x64xf32>, tensor<4x256x64xf32>) -> (tensor<4x256x64xf32>, tensor<4x256xf32>)
  %x0 = graph.matmul %y0, %down {graph.name = "x0"} : (tensor<4x256x64xf32>, tensor<4x64x2xf32>) -> tensor<4x256x2xf32>
  %u1 = graph.matmul %x0, %up {graph.name = "u1"} : (tensor<4x256x2xf32>, tensor<4x2x64xf32>) -> tensor<4x256x64xf32>
  %y1, %s1 = graph.attention %u1, %u1, %u1 {graph.name = "y1", keeps_statistics, scale = 1.0} : (tensor<4x256x64xf32>, tensor<4x256x64xf32>, tensor<4x256x64xf32>) -> (tensor<4x256x64xf32>, tensor<4x256xf32>)
  %x1 = graph.matmul %y1, %down {graph.name = "x1"} : (tensor<4x256x64xf32>, tensor<4x64x2xf32>) -> tensor<4x256x2xf32>
  %u2 = graph.matmul %x1, %up {graph.name = "u2"} : (tensor<4x256x2xf32>, tensor<4x2x64xf32>) -> tensor<4x256x64xf32>
  %y2, %s2 = graph.attention %u2, %u2, %u2 {graph.name = "y2", keeps_statistics, scale = 1.0} : (tensor<4x256x64xf32>, tensor<4x256x64xf32>, tensor<4x256x64xf32>) -> (tensor<4x256x64xf32>, tensor<4x256xf32>)
  %x2 = graph.matmul %y2, %down {graph.name = "x2"} : (tensor<4x256x64xf32>, tensor<4x64x2xf32>) -> tensor<4x256x2xf32>
  %g3 = graph.mul %x2, %x2 {graph.name = "loss"} : (tensor<4x256x2xf32>, tensor<4x256x2xf32>) -> tensor<4x256x2xf32>
  %d2 = graph.matmul %g3, %down {graph.grad_of = "x2", graph.name = "d2", transpose_b = true} : (tensor<4x256x2xf32>, tensor<4x64x2xf32>) -> tensor<4x256x64xf32>
  %q2, %k2, %v2 = graph.attention_grad %d2, %u2, %u2, %u2, %y2, %s2 {graph.grad_of = "y2", graph.name = "q2", scale = 1.0} : (tensor<4x256x64xf32>, tensor<4x256x64xf32>, tensor<4x256x64xf32>, tensor<4x256x64xf32>, tensor<4x256x64xf32>, tensor<4x256xf32>) -> (tensor<4x256x64xf32>, tensor<4x256x64xf32>, tensor<4x256x64xf32>)
  %g2 = graph.matmul %q2, %up {graph.grad_of = "u2", graph.name = "g2", transpose_b = true} : (tensor<4x256x64xf32>, tensor<4x2x64xf32>) -> tensor<4x256x2xf32>
  %d1 = graph.matmul %g2, %down {graph.grad_of = "x1", graph.name = "d1", transpose_b = true} : (tensor<4x256x2xf32>, tensor<4x64x2xf32>) -> tensor<4x256x64xf32>
  %q1, %k1, %v1 = graph.attention_grad %d1, %u1, %u1, %u1, %y1, %s1 {graph.grad_of = "y1", graph.name = "q1", scale = 1.0} : (tensor<4x256x64xf32>, tensor<4x256x64xf32>, tensor<4x256x64xf32>, tensor<4x256x64xf32>, tensor<4x256x64xf32>, tensor<4x256xf32>) -> (tensor<4x256x64xf32>, tensor<4x256x64xf32>, tensor<4x256x64xf32>)
  %g1 = graph.matmul %q1, %up {graph.grad_of = "u1", graph.name = "g1", transpose_b = true} : (tensor<4x256x64xf32>, tensor<4x2x64xf32>) -> tensor<4x256x2xf32>
  %d0 = graph.matmul %g1, %down {graph.grad_of = "x0", graph.name = "d0", transpose_b = true} : (tensor<4x256x2xf32>, tensor<4x64x2xf32>) -> tensor<4x256x64xf32>
  %q0, %k0, %v0 = graph.attention_grad %d0, %u0, %u0, %u0, %y0, %s0 {graph.grad_of = "y0", graph.name = "q0", scale = 1.0} : (tensor<4x256x64xf32>, tensor<4x256x64xf32>, tensor<4x256x64xf32>, tensor<4x256x64xf32>, tensor<4x256x64xf32>, tensor<4x256xf32>) -> (tensor<4x256x64xf32>, tensor<4x256x64xf32>, tensor<4x256x64xf32>)
  %g0 = graph.matmul %q0, %up {graph.grad_of = "u0", graph.name = "g0", transpose_b = true} : (tensor<4x256x64xf32>, tensor<4x2x64xf32>) -> tensor<4x256x2xf32>
  return %g0 : tensor<4x256x2xf32>
}

// Those of short ones are made again, and the first run makes the result alone.
// CHECK-LABEL: func.func @again
// CHECK: graph.attention {{.*}}graph.name = "y0"
// CHECK-NOT: keeps_statistics
// CHECK-SAME: -> tensor<4x256x8xf32>
// CHECK: graph.name = "loss"
// CHECK: graph.attention {{.*}}graph.name = "again/y0", keeps_statistics
// CHECK: return
func.func @again(%x: tensor<4x256x2xf32> {graph.role = "input", graph.name = "x"}, %up: tensor<4x2x8xf32> {graph.role = "parameter", graph.name = "up"}, %down: tensor<4x8x2xf32> {graph.role = "parameter", graph.name = "down"}) -> tensor<4x256x2xf32> {
  %u0 = graph.matmul %x, %up {graph.name = "u0"} : (tensor<4x256x2xf32>, tensor<4x2x8xf32>) -> tensor<4x256x8xf32>
  %y0, %s0 = graph.attention %u0, %u0, %u0 {graph.name = "y0", keeps_statistics, scale = 1.0} : (tensor<4x256x8xf32>, tensor<4x256x8xf32>, tensor<4x256x8xf32>) -> (tensor<4x256x8xf32>, tensor<4x256xf32>)
  %x0 = graph.matmul %y0, %down {graph.name = "x0"} : (tensor<4x256x8xf32>, tensor<4x8x2xf32>) -> tensor<4x256x2xf32>
  %u1 = graph.matmul %x0, %up {graph.name = "u1"} : (tensor<4x256x2xf32>, tensor<4x2x8xf32>) -> tensor<4x256x8xf32>
  %y1, %s1 = graph.attention %u1, %u1, %u1 {graph.name = "y1", keeps_statistics, scale = 1.0} : (tensor<4x256x8xf32>, tensor<4x256x8xf32>, tensor<4x256x8xf32>) -> (tensor<4x256x8xf32>, tensor<4x256xf32>)
  %x1 = graph.matmul %y1, %down {graph.name = "x1"} : (tensor<4x256x8xf32>, tensor<4x8x2xf32>) -> tensor<4x256x2xf32>
  %u2 = graph.matmul %x1, %up {graph.name = "u2"} : (tensor<4x256x2xf32>, tensor<4x2x8xf32>) -> tensor<4x256x8xf32>
  %y2, %s2 = graph.attention %u2, %u2, %u2 {graph.name = "y2", keeps_statistics, scale = 1.0} : (tensor<4x256x8xf32>, tensor<4x256x8xf32>, tensor<4x256x8xf32>) -> (tensor<4x256x8xf32>, tensor<4x256xf32>)
  %x2 = graph.matmul %y2, %down {graph.name = "x2"} : (tensor<4x256x8xf32>, tensor<4x8x2xf32>) -> tensor<4x256x2xf32>
  %g3 = graph.mul %x2, %x2 {graph.name = "loss"} : (tensor<4x256x2xf32>, tensor<4x256x2xf32>) -> tensor<4x256x2xf32>
  %d2 = graph.matmul %g3, %down {graph.grad_of = "x2", graph.name = "d2", transpose_b = true} : (tensor<4x256x2xf32>, tensor<4x8x2xf32>) -> tensor<4x256x8xf32>
  %q2, %k2, %v2 = graph.attention_grad %d2, %u2, %u2, %u2, %y2, %s2 {graph.grad_of = "y2", graph.name = "q2", scale = 1.0} : (tensor<4x256x8xf32>, tensor<4x256x8xf32>, tensor<4x256x8xf32>, tensor<4x256x8xf32>, tensor<4x256x8xf32>, tensor<4x256xf32>) -> (tensor<4x256x8xf32>, tensor<4x256x8xf32>, tensor<4x256x8xf32>)
  %g2 = graph.matmul %q2, %up {graph.grad_of = "u2", graph.name = "g2", transpose_b = true} : (tensor<4x256x8xf32>, tensor<4x2x8xf32>) -> tensor<4x256x2xf32>
  %d1 = graph.matmul %g2, %down {graph.grad_of = "x1", graph.name = "d1", transpose_b = true} : (tensor<4x256x2xf32>, tensor<4x8x2xf32>) -> tensor<4x256x8xf32>
  %q1, %k1, %v1 = graph.attention_grad %d1, %u1, %u1, %u1, %y1, %s1 {graph.grad_of = "y1", graph.name = "q1", scale = 1.0} : (tensor<4x256x8xf32>, tensor<4x256x8xf32>, tensor<4x256x8xf32>, tensor<4x256x8xf32>, tensor<4x256x8xf32>, tensor<4x256xf32>) -> (tensor<4x256x8xf32>, tensor<4x256x8xf32>, tensor<4x256x8xf32>)
  %g1 = graph.matmul %q1, %up {graph.grad_of = "u1", graph.name = "g1", transpose_b = true} : (tensor<4x256x8xf32>, tensor<4x2x8xf32>) -> tensor<4x256x2xf32>
  %d0 = graph.matmul %g1, %down {graph.grad_of = "x0", graph.name = "d0", transpose_b = true} : (tensor<4x256x2xf32>, tensor<4x8x2xf32>) -> tensor<4x256x8xf32>
  %q0, %k0, %v0 = graph.attention_grad %d0, %u0, %u0, %u0, %y0, %s0 {graph.grad_of = "y0", graph.name = "q0", scale = 1.0} : (tensor<4x256x8xf32>, tensor<4x256x8xf32>, tensor<4x256x8xf32>, tensor<4x256x8xf32>, tensor<4x256x8xf32>, tensor<4x256xf32>) -> (tensor<4x256x8xf32>, tensor<4x256x8xf32>, tensor<4x256x8xf32>)
  %g0 = graph.matmul %q0, %up {graph.grad_of = "u0", graph.name = "g0", transpose_b = true} : (tensor<4x256x8xf32>, tensor<4x2x8xf32>) -> tensor<4x256x2xf32>
  return %g0 : tensor<4x256x2xf32>
}
