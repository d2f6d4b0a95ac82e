// RUN: tessera-opt --graph-fuse %s | FileCheck %s

// Softmax and attention have kernels of their own. A layer norm has three passes: mean, variance, result.

// CHECK-LABEL: func.func @softmax
func.func @softmax(%x: tensor<4x8xf32>, %m: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK-NEXT: %[[S:.*]] = graph.add
  // CHECK-NEXT: %[[P:.*]] = graph.softmax %[[S]]
  // CHECK-NEXT: graph.exp %[[P]]
  // CHECK-NEXT: return
  %s = graph.add %x, %m : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %p = graph.softmax %s {dim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = graph.exp %p : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @layer_norm
func.func @layer_norm(%x: tensor<4x8xf32>, %scale: tensor<8xf32>) -> tensor<4x8xf32> {
  // The mean.
  // CHECK: %[[SUM:.*]] = graph.reduce_sum %arg0
  // CHECK: %[[MEAN:.*]] = graph.fused(%[[SUM]]) {{.*}}-> tensor<4x1xf32>
  // The variance and the difference from the mean, which is read again. Its square is not written.
  // CHECK: %[[PASS:.*]]:2 = graph.fused(%arg0, %[[MEAN]]) {{.*}}-> (tensor<4x8xf32>, tensor<4x1xf32>)
  // CHECK: %[[D:.*]] = graph.sub
  // CHECK-NEXT: %[[Q:.*]] = graph.mul %[[D]], %[[D]]
  // CHECK-NEXT: %[[S:.*]] = graph.reduce_sum %[[Q]]
  // CHECK-NEXT: graph.yield %[[D]], %[[S]]
  // The result.
  // CHECK: %[[R:.*]] = graph.rsqrt %[[PASS]]#1
  // CHECK-NEXT: %[[Y:.*]] = graph.fused(%[[PASS]]#0, %[[R]], %arg1) {{.*}}-> tensor<4x8xf32>
  // CHECK: graph.mul
  // CHECK-NEXT: graph.mul
  // CHECK: return %[[Y]]
  %eighth = graph.constant dense<0.125> : tensor<f32>
  %sum = graph.reduce_sum %x {dims = array<i64: 1>, keepdims = true} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %mean = graph.mul %sum, %eighth : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %d = graph.sub %x, %mean : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %q = graph.mul %d, %d : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %var = graph.reduce_sum %q {dims = array<i64: 1>, keepdims = true} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %r = graph.rsqrt %var : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %n = graph.mul %d, %r : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %y = graph.mul %n, %scale : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @attention
func.func @attention(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x4x8xf32>, %v: tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32> {
  // CHECK-NEXT: %[[Q:.*]] = graph.fused(%arg0)
  // CHECK: %[[Y:.*]] = graph.attention %[[Q]], %arg1, %arg2
  // CHECK-NEXT: graph.exp %[[Y]]
  %half = graph.constant dense<0.5> : tensor<f32>
  %s = graph.mul %q, %half : (tensor<1x2x4x8xf32>, tensor<f32>) -> tensor<1x2x4x8xf32>
  %y = graph.attention %s, %k, %v {scale = 1.0 : f64} : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32>
  %z = graph.exp %y : (tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32>
  return %z : tensor<1x2x4x8xf32>
}
