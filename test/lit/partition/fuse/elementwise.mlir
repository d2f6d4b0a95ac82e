// RUN: tessera-opt --graph-fuse %s | FileCheck %s

// Points: which elementwise operators share a loop, and what stays in it.

// A chain is one loop, and only its end is written to memory.
// CHECK-LABEL: func.func @chain
func.func @chain(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK-NEXT: %[[Y:.*]] = graph.fused(%arg0) {{.*}}: (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT: ^bb0(%[[X:.*]]: tensor<4x8xf32>):
  // CHECK-NEXT: %[[A:.*]] = graph.exp %[[X]]
  // CHECK-NEXT: %[[B:.*]] = graph.neg %[[A]]
  // CHECK-NEXT: %[[C:.*]] = graph.tanh %[[B]]
  // CHECK-NEXT: graph.yield %[[C]]
  // CHECK: return %[[Y]]
  %a = graph.exp %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %b = graph.neg %a : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %c = graph.tanh %b : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %c : tensor<4x8xf32>
}

// What is read outside as well is a result, too.
// CHECK-LABEL: func.func @kept
func.func @kept(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK-NEXT: %[[Y:.*]]:2 = graph.fused(%arg0)
  // CHECK: %[[A:.*]] = graph.exp
  // CHECK-NEXT: %[[B:.*]] = graph.neg %[[A]]
  // CHECK-NEXT: graph.yield %[[A]], %[[B]]
  // CHECK: return %[[Y]]#0, %[[Y]]#1
  %a = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  %b = graph.neg %a : (tensor<4xf32>) -> tensor<4xf32>
  return %a, %b : tensor<4xf32>, tensor<4xf32>
}

// Two readers of one tensor share a loop, so that it is read once.
// CHECK-LABEL: func.func @siblings
func.func @siblings(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK-NEXT: %[[Y:.*]]:2 = graph.fused(%arg0) {{.*}}: (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  // CHECK-NOT: graph.fused
  // CHECK: return %[[Y]]#0, %[[Y]]#1
  %a = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  %b = graph.neg %x : (tensor<4xf32>) -> tensor<4xf32>
  return %a, %b : tensor<4xf32>, tensor<4xf32>
}

// A tensor that is stretched is read by another domain: two loops, the second with a broadcast operand.
// CHECK-LABEL: func.func @domains
func.func @domains(%x: tensor<8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK-NEXT: %[[A:.*]] = graph.exp %arg0
  // CHECK-NEXT: %[[C:.*]] = graph.fused(%[[A]], %arg1) {{.*}}: (tensor<8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: graph.add
  // CHECK-NEXT: graph.neg
  // CHECK-NEXT: graph.yield
  // CHECK: return %[[C]]
  %a = graph.exp %x : (tensor<8xf32>) -> tensor<8xf32>
  %b = graph.add %a, %y : (tensor<8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %c = graph.neg %b : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %c : tensor<4x8xf32>
}

// What has nothing in common stays apart: each has a kernel of its own.
// CHECK-LABEL: func.func @strangers
func.func @strangers(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK-NEXT: graph.exp %arg0
  // CHECK-NEXT: graph.neg %arg1
  // CHECK-NEXT: return
  %a = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  %b = graph.neg %y : (tensor<4xf32>) -> tensor<4xf32>
  return %a, %b : tensor<4xf32>, tensor<4xf32>
}

// A widening cast is free: each loop makes its own, and the narrow tensor is what is read.
// CHECK-LABEL: func.func @widening
func.func @widening(%x: tensor<4xf16>, %y: tensor<4xf32>) -> (tensor<4xf32>) {
  // CHECK-NEXT: graph.fused(%arg0, %arg1) {{.*}}: (tensor<4xf16>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK: %[[W:.*]] = graph.cast
  // CHECK-NEXT: graph.mul %[[W]]
  %w = graph.cast %x : (tensor<4xf16>) -> tensor<4xf32>
  %z = graph.mul %w, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %z : tensor<4xf32>
}

// A narrowing cast is a point like any other.
// CHECK-LABEL: func.func @narrowing
func.func @narrowing(%x: tensor<4xf32>) -> tensor<4xf16> {
  // CHECK-NEXT: graph.fused(%arg0) {{.*}}: (tensor<4xf32>) -> tensor<4xf16>
  // CHECK: %[[E:.*]] = graph.exp
  // CHECK-NEXT: graph.cast %[[E]]
  %e = graph.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  %c = graph.cast %e : (tensor<4xf32>) -> tensor<4xf16>
  return %c : tensor<4xf16>
}

// To read a single number once gains nothing: what follows from it alone does not wait for a sum that something else
// needs, too.
// CHECK-LABEL: func.func @one_number
func.func @one_number(%x: tensor<4x8xf32>, %n: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  // CHECK: %[[S:.*]] = graph.reduce_sum
  // CHECK: graph.div %[[S]], %arg1
  // CHECK: graph.neg %arg1
  // CHECK-NOT: graph.fused
  // CHECK: return
  %s = graph.reduce_sum %x {dims = array<i64: 0, 1>, keepdims = false} : (tensor<4x8xf32>) -> tensor<f32>
  %l = graph.div %s, %n : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %g = graph.neg %n : (tensor<f32>) -> tensor<f32>
  return %l, %g : tensor<f32>, tensor<f32>
}

// Two that wait for the same share a loop.
// CHECK-LABEL: func.func @two_numbers
func.func @two_numbers(%n: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  // CHECK-NEXT: %[[Y:.*]]:2 = graph.fused(%arg0)
  %l = graph.exp %n : (tensor<f32>) -> tensor<f32>
  %g = graph.neg %n : (tensor<f32>) -> tensor<f32>
  return %l, %g : tensor<f32>, tensor<f32>
}

// A loop computes what is marked for itself, from several operands and through others that are marked. Outside it is
// gone.
// CHECK-LABEL: func.func @repeated
func.func @repeated(%x: tensor<4x8xf32>, %b: tensor<4x1xf32>, %w: tensor<8x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  // CHECK-NEXT: %[[Y:.*]] = graph.fused(%arg0, %arg1)
  // CHECK: graph.mul
  // CHECK: %[[P:.*]] = graph.matmul %[[Y]]
  // CHECK-NEXT: %[[Z:.*]] = graph.fused(%{{.*}}) {{.*}}: (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  // CHECK: graph.mul %{{.*}} {graph.repeats}
  // CHECK: graph.relu %{{.*}} {graph.repeats}
  // CHECK: graph.add
  // CHECK: return %[[P]], %[[Z]]
  %m = graph.mul %x, %b : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %y = graph.relu %m : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %p = graph.matmul %y, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %m2 = graph.mul %x, %b {graph.repeats} : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %y2 = graph.relu %m2 {graph.repeats} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %z = graph.add %p, %y2 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %p, %z : tensor<4x8xf32>, tensor<4x8xf32>
}
