// RUN: tessera-opt --graph-decompose-norms --graph-simplify %s | FileCheck %s
func.func @f(%x: tensor<4x3x2x2xf32>, %dy: tensor<4x3x2x2xf32>, %s: tensor<3xf32>, %b: tensor<3xf32>)
    -> (tensor<4x3x2x2xf32>, tensor<4x3x2x2xf32>, tensor<3xf32>, tensor<3xf32>) {
  %y, %m, %v = graph.batch_norm %x, %s, %b {epsilon = 1.0e-5 : f64, graph.name = "bn1"}
    : (tensor<4x3x2x2xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<4x3x2x2xf32>, tensor<3xf32>, tensor<3xf32>)
  %dx, %ds, %db = graph.batch_norm_grad %dy, %x, %s, %m, %v {epsilon = 1.0e-5 : f64, graph.name = "bn1.grad", graph.grad_of = "bn1"}
    : (tensor<4x3x2x2xf32>, tensor<4x3x2x2xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
    -> (tensor<4x3x2x2xf32>, tensor<3xf32>, tensor<3xf32>)
  return %y, %dx, %ds, %db : tensor<4x3x2x2xf32>, tensor<4x3x2x2xf32>, tensor<3xf32>, tensor<3xf32>
}
// Two passes over x for the statistics, one to apply them.
// CHECK-LABEL: func.func @f(
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<4x3x2x2xf32>, %[[DY:[a-z0-9]+]]: tensor<4x3x2x2xf32>, %[[S:[a-z0-9]+]]
// CHECK:       %[[SUM:.*]] = graph.reduce_sum %[[X]] {dims = array<i64: 0, 2, 3>, graph.name = "bn1/mean"
// CHECK:       %[[N:.*]] = graph.constant dense<6.250000e-02>
// CHECK:       %[[MEAN:.*]] = graph.mul %[[SUM]], %[[N]]
// CHECK:       %[[MEANS:.*]] = graph.reshape %[[MEAN]]
// CHECK:       %[[D:.*]] = graph.sub %[[X]], %[[MEANS]]
// CHECK:       %[[DD:.*]] = graph.mul %[[D]], %[[D]]
// CHECK:       graph.reduce_sum %[[DD]] {{.*}}"bn1/var"
// CHECK:       %[[RSTD:.*]] = graph.rsqrt
// CHECK:       %[[A:.*]] = graph.mul %[[S]], %[[RSTD]]
// CHECK:       %[[AS:.*]] = graph.reshape %[[A]]
// CHECK:       %[[XA:.*]] = graph.mul %[[X]], %[[AS]]
// CHECK:       %[[Y:.*]] = graph.add %[[XA]], %{{.*}} {graph.name = "bn1"}
// Both sums of the gradient depend on nothing but dy, x and the mean; the standard deviation is not
// computed again.
// CHECK:       %[[DB:.*]] = graph.reduce_sum %[[DY]] {{.*}}"bn1.grad/sum"
// CHECK:       %[[E:.*]] = graph.sub %[[MEANS]], %[[X]]
// CHECK:       %[[P:.*]] = graph.mul %[[DY]], %[[E]]
// CHECK:       graph.reduce_sum %[[P]] {dims = array<i64: 0, 2, 3>, graph.grad_of = "bn1"
// CHECK-NOT:   graph.rsqrt
// What is applied to dy and x reads the sums: nothing of it can be stored by the pass that makes them.
// CHECK:       %[[XP:.*]] = graph.mul %[[X]],
// CHECK:       %[[XPQ:.*]] = graph.sub %[[XP]],
// CHECK:       %[[C:.*]] = graph.add %[[DY]], %[[XPQ]]
// CHECK:       %[[DX:.*]] = graph.mul %[[C]], %[[AS]] {graph.grad_of = "bn1", graph.name = "bn1.grad"}
// CHECK:       return %[[Y]], %[[DX]], %{{.*}}, %[[DB]]
// CHECK-NOT:   graph.batch_norm

// A maximum, a sum, and what follows from them.
// CHECK-LABEL: func.func @log_softmax
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<4x8xf32>, %[[DY:[a-z0-9]+]]: tensor<4x8xf32>
func.func @log_softmax(%x: tensor<4x8xf32>, %dy: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  // CHECK-NEXT: %[[M:.*]] = graph.reduce_max %[[X]] {dims = array<i64: 1>, graph.name = "loss/max", keepdims = true}
  // CHECK-NEXT: %[[B:.*]] = graph.sub %[[M]], %[[X]]
  // CHECK-NEXT: %[[N:.*]] = graph.neg %[[B]]
  // CHECK-NEXT: %[[E:.*]] = graph.exp %[[N]]
  // CHECK-NEXT: %[[Z:.*]] = graph.reduce_sum %[[E]] {dims = array<i64: 1>, graph.name = "loss/sum{{.*}}", keepdims = true}
  // CHECK-NEXT: %[[L:.*]] = graph.log %[[Z]]
  // What is applied shares nothing with the sum, so that nothing of it is kept.
  // CHECK-NEXT: %[[O:.*]] = graph.neg %[[M]]
  // CHECK-NEXT: %[[C:.*]] = graph.add %[[X]], %[[O]]
  // CHECK-NEXT: %[[Y:.*]] = graph.sub %[[C]], %[[L]] {graph.name = "loss"}
  %y = graph.log_softmax %x {dim = 1 : i64, graph.name = "loss"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT: %[[S:.*]] = graph.reduce_sum %[[DY]] {dims = array<i64: 1>, graph.grad_of = "loss", graph.name = "loss.grad/sum", keepdims = true}
  // CHECK-NEXT: %[[P:.*]] = graph.exp %[[Y]]
  // CHECK-NEXT: %[[PS:.*]] = graph.mul %[[P]], %[[S]]
  // CHECK-NEXT: %[[DX:.*]] = graph.sub %[[DY]], %[[PS]] {graph.grad_of = "loss", graph.name = "loss.grad"}
  %dx = graph.log_softmax_grad %dy, %y {dim = 1 : i64, graph.name = "loss.grad", graph.grad_of = "loss"}
    : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT: return %[[Y]], %[[DX]]
  return %y, %dx : tensor<4x8xf32>, tensor<4x8xf32>
}
