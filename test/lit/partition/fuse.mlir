// RUN: tessera-opt --graph-fuse %s | FileCheck %s

// Both sums of a batch norm's backward pass and what leads to them: one pass over dy and x.
// CHECK-LABEL: func.func @siblings
func.func @siblings(%dy: tensor<8x6x4xf32>, %x: tensor<8x6x4xf32>, %m: tensor<1x6x1xf32>) -> (tensor<6xf32>, tensor<6xf32>) {
  // CHECK-NEXT: %[[R:.*]]:2 = graph.fused(%arg0, %arg1, %arg2)
  // CHECK-NEXT: ^bb0(%[[DY:.*]]: tensor<8x6x4xf32>, %[[X:.*]]: tensor<8x6x4xf32>, %[[M:.*]]: tensor<1x6x1xf32>):
  // CHECK-NEXT: %[[S1:.*]] = graph.reduce_sum %[[DY]]
  // CHECK-NEXT: %[[D:.*]] = graph.sub %[[X]], %[[M]]
  // CHECK-NEXT: %[[P:.*]] = graph.mul %[[DY]], %[[D]]
  // CHECK-NEXT: %[[S2:.*]] = graph.reduce_sum %[[P]]
  // CHECK-NEXT: graph.yield %[[S1]], %[[S2]]
  // CHECK: return %[[R]]#0, %[[R]]#1
  %s1 = graph.reduce_sum %dy {dims = array<i64: 0, 2>, keepdims = false} : (tensor<8x6x4xf32>) -> tensor<6xf32>
  %d = graph.sub %x, %m : (tensor<8x6x4xf32>, tensor<1x6x1xf32>) -> tensor<8x6x4xf32>
  %p = graph.mul %dy, %d : (tensor<8x6x4xf32>, tensor<8x6x4xf32>) -> tensor<8x6x4xf32>
  %s2 = graph.reduce_sum %p {dims = array<i64: 0, 2>, keepdims = false} : (tensor<8x6x4xf32>) -> tensor<6xf32>
  return %s1, %s2 : tensor<6xf32>, tensor<6xf32>
}

// A reduction's result is not there until its loop has ended: two loops, although everything is [4, 1].
// CHECK-LABEL: func.func @after_reduction
func.func @after_reduction(%x: tensor<4x1xf32>) -> tensor<4x1xf32> {
  // CHECK-NEXT: graph.exp
  // CHECK-NEXT: graph.reshape
  // CHECK-NEXT: graph.reduce_sum
  // CHECK-NEXT: graph.fused
  // CHECK: graph.constant
  // CHECK: graph.mul
  // CHECK-NOT: graph.fused
  // CHECK: return
  %e = graph.exp %x : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %v = graph.reshape %e : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %s = graph.reduce_sum %v {dims = array<i64: 1>, keepdims = true} : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %c = graph.constant dense<2.0> : tensor<f32>
  %m = graph.mul %s, %c : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  return %m : tensor<4x1xf32>
}

// The way from relu to add leads through a matmul: they must not become one.
// CHECK-LABEL: func.func @cycle
func.func @cycle(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // CHECK-NEXT: graph.relu
  // CHECK-NEXT: graph.matmul
  // CHECK-NEXT: graph.add
  // CHECK-NEXT: return
  %a = graph.relu %x : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = graph.matmul %a, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %c = graph.add %a, %b : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %c : tensor<4x4xf32>
}

// A stretch is free inside; outside it stays for whom it is not.
// CHECK-LABEL: func.func @stretch
func.func @stretch(%x: tensor<4x8xf32>, %b: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x4xf32>) {
  // CHECK-NEXT: %[[S:.*]] = graph.broadcast %arg1
  // CHECK-NEXT: %[[F:.*]] = graph.fused(%arg0, %arg1)
  // CHECK: graph.broadcast
  // CHECK: graph.matmul %[[S]], %[[F]]
  %s = graph.broadcast %b : (tensor<8xf32>) -> tensor<4x8xf32>
  %y = graph.add %x, %s : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %z = graph.matmul %s, %y {transpose_b = true} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x4xf32>
  return %y, %z : tensor<4x8xf32>, tensor<4x4xf32>
}

// What a loop uses may stand behind its first member's place: the program is put in order again.
// CHECK-LABEL: func.func @order
func.func @order(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>) {
  // CHECK-NEXT: %[[F:.*]]:2 = graph.fused(%arg0)
  // CHECK: %[[B:.*]] = graph.matmul %[[F]]#0, %arg1
  // CHECK-NEXT: return %[[B]], %[[F]]#1
  %a = graph.relu %x : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = graph.matmul %a, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %s = graph.reduce_sum %a {dims = array<i64: 0>, keepdims = false} : (tensor<4x4xf32>) -> tensor<4xf32>
  return %b, %s : tensor<4x4xf32>, tensor<4xf32>
}

// What only a far backward pass needs is not computed early and kept: %d stays near its user. A reduction may
// move: its result is small.
// CHECK-LABEL: func.func @far
func.func @far(%x: tensor<8x4xf32>, %m: tensor<4xf32>, %t: tensor<2xf32>, %w: tensor<4x4xf32>) -> (tensor<8x4xf32>, tensor<4xf32>, tensor<8x4xf32>, tensor<2xf32>) {
  // CHECK-NEXT: %[[A:.*]]:2 = graph.fused(%arg0) {{.*}} -> (tensor<8x4xf32>, tensor<4xf32>)
  // CHECK: graph.relu
  // CHECK-NOT: graph.sub
  // CHECK: graph.yield
  // CHECK: graph.neg
  // CHECK: %[[G:.*]] = graph.matmul %[[A]]#0
  // CHECK-NEXT: graph.fused(%arg0, %arg1, %[[G]])
  // CHECK: graph.sub
  // CHECK-NEXT: graph.mul
  %a = graph.relu %x : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %t0 = graph.neg %t : (tensor<2xf32>) -> tensor<2xf32>
  %t1 = graph.neg %t0 : (tensor<2xf32>) -> tensor<2xf32>
  %t2 = graph.neg %t1 : (tensor<2xf32>) -> tensor<2xf32>
  %t3 = graph.neg %t2 : (tensor<2xf32>) -> tensor<2xf32>
  %t4 = graph.neg %t3 : (tensor<2xf32>) -> tensor<2xf32>
  %t5 = graph.neg %t4 : (tensor<2xf32>) -> tensor<2xf32>
  %t6 = graph.neg %t5 : (tensor<2xf32>) -> tensor<2xf32>
  %t7 = graph.neg %t6 : (tensor<2xf32>) -> tensor<2xf32>
  %t8 = graph.neg %t7 : (tensor<2xf32>) -> tensor<2xf32>
  %t9 = graph.neg %t8 : (tensor<2xf32>) -> tensor<2xf32>
  %t10 = graph.neg %t9 : (tensor<2xf32>) -> tensor<2xf32>
  %t11 = graph.neg %t10 : (tensor<2xf32>) -> tensor<2xf32>
  %t12 = graph.neg %t11 : (tensor<2xf32>) -> tensor<2xf32>
  %t13 = graph.neg %t12 : (tensor<2xf32>) -> tensor<2xf32>
  %t14 = graph.neg %t13 : (tensor<2xf32>) -> tensor<2xf32>
  %t15 = graph.neg %t14 : (tensor<2xf32>) -> tensor<2xf32>
  %t16 = graph.neg %t15 : (tensor<2xf32>) -> tensor<2xf32>
  %t17 = graph.neg %t16 : (tensor<2xf32>) -> tensor<2xf32>
  %t18 = graph.neg %t17 : (tensor<2xf32>) -> tensor<2xf32>
  %t19 = graph.neg %t18 : (tensor<2xf32>) -> tensor<2xf32>
  %t20 = graph.neg %t19 : (tensor<2xf32>) -> tensor<2xf32>
  %t21 = graph.neg %t20 : (tensor<2xf32>) -> tensor<2xf32>
  %t22 = graph.neg %t21 : (tensor<2xf32>) -> tensor<2xf32>
  %t23 = graph.neg %t22 : (tensor<2xf32>) -> tensor<2xf32>
  %t24 = graph.neg %t23 : (tensor<2xf32>) -> tensor<2xf32>
  %t25 = graph.neg %t24 : (tensor<2xf32>) -> tensor<2xf32>
  %t26 = graph.neg %t25 : (tensor<2xf32>) -> tensor<2xf32>
  %t27 = graph.neg %t26 : (tensor<2xf32>) -> tensor<2xf32>
  %t28 = graph.neg %t27 : (tensor<2xf32>) -> tensor<2xf32>
  %t29 = graph.neg %t28 : (tensor<2xf32>) -> tensor<2xf32>
  %t30 = graph.neg %t29 : (tensor<2xf32>) -> tensor<2xf32>
  %t31 = graph.neg %t30 : (tensor<2xf32>) -> tensor<2xf32>
  %t32 = graph.neg %t31 : (tensor<2xf32>) -> tensor<2xf32>
  %t33 = graph.neg %t32 : (tensor<2xf32>) -> tensor<2xf32>
  %t34 = graph.neg %t33 : (tensor<2xf32>) -> tensor<2xf32>
  %t35 = graph.neg %t34 : (tensor<2xf32>) -> tensor<2xf32>
  %t36 = graph.neg %t35 : (tensor<2xf32>) -> tensor<2xf32>
  %t37 = graph.neg %t36 : (tensor<2xf32>) -> tensor<2xf32>
  %t38 = graph.neg %t37 : (tensor<2xf32>) -> tensor<2xf32>
  %t39 = graph.neg %t38 : (tensor<2xf32>) -> tensor<2xf32>
  %g = graph.matmul %a, %w : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %d = graph.sub %x, %m : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  %p = graph.mul %d, %g : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %s = graph.reduce_sum %x {dims = array<i64: 0>, keepdims = false} : (tensor<8x4xf32>) -> tensor<4xf32>
  return %a, %s, %p, %t39 : tensor<8x4xf32>, tensor<4xf32>, tensor<8x4xf32>, tensor<2xf32>
}
