// RUN: tessera-opt --graph-fuse %s | FileCheck %s

// Convolutions and pooling have kernels of their own; what stands between them is one loop.

// CHECK-LABEL: func.func @block
func.func @block(%x: tensor<2x3x8x8xf32>, %w: tensor<4x3x3x3xf32>, %a: tensor<1x4x1x1xf32>, %b: tensor<1x4x1x1xf32>) -> tensor<2x4x4x4xf32> {
  // CHECK-NEXT: %[[C:.*]] = graph.conv %arg0, %arg1
  // CHECK-NEXT: %[[R:.*]] = graph.fused(%[[C]], %arg2, %arg3) {{.*}}-> tensor<2x4x8x8xf32>
  // CHECK: graph.mul
  // CHECK-NEXT: graph.add
  // CHECK-NEXT: graph.relu
  // CHECK: graph.max_pool %[[R]]
  %c = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x8x8xf32>
  %m = graph.mul %c, %a : (tensor<2x4x8x8xf32>, tensor<1x4x1x1xf32>) -> tensor<2x4x8x8xf32>
  %s = graph.add %m, %b : (tensor<2x4x8x8xf32>, tensor<1x4x1x1xf32>) -> tensor<2x4x8x8xf32>
  %r = graph.relu %s : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %y = graph.max_pool %r {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<2x4x8x8xf32>) -> tensor<2x4x4x4xf32>
  return %y : tensor<2x4x4x4xf32>
}

// Both gradients of a convolution read the masked gradient, which is made once. The bias' gradient is made with it.
// CHECK-LABEL: func.func @backward
func.func @backward(%dy: tensor<2x4x8x8xf32>, %s: tensor<2x4x8x8xf32>, %x: tensor<2x3x8x8xf32>, %w: tensor<4x3x3x3xf32>) -> (tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>, tensor<4xf32>) {
  // CHECK-NEXT: %[[G:.*]]:2 = graph.fused(%arg0, %arg1) {{.*}}-> (tensor<2x4x8x8xf32>, tensor<4xf32>)
  // CHECK: graph.mul
  // CHECK-NEXT: graph.reduce_sum
  // CHECK: graph.conv_input_grad %[[G]]#0, %arg3
  // CHECK-NEXT: graph.conv_weight_grad %arg2, %[[G]]#0
  // CHECK-NEXT: return
  %g = graph.mul %dy, %s : (tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %dx = graph.conv_input_grad %g, %w {input_sizes = array<i64: 8, 8>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x4x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<2x3x8x8xf32>
  %dw = graph.conv_weight_grad %x, %g {kernel_sizes = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x3x8x8xf32>, tensor<2x4x8x8xf32>) -> tensor<4x3x3x3xf32>
  %db = graph.reduce_sum %g {dims = array<i64: 0, 2, 3>, keepdims = false} : (tensor<2x4x8x8xf32>) -> tensor<4xf32>
  return %dx, %dw, %db : tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>, tensor<4xf32>
}
