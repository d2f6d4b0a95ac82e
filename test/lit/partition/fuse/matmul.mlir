// RUN: tessera-opt --graph-fuse %s | FileCheck %s

// Products have kernels of their own; what surrounds them is fused around them.

// Bias and activation are one loop behind the product.
// CHECK-LABEL: func.func @layer
func.func @layer(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>, %b: tensor<6xf32>) -> tensor<4x6xf32> {
  // CHECK-NEXT: %[[P:.*]] = graph.matmul %arg0, %arg1
  // CHECK-NEXT: %[[Y:.*]] = graph.fused(%[[P]], %arg2) {{.*}}: (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  // CHECK: graph.add
  // CHECK-NEXT: graph.relu
  // CHECK: return %[[Y]]
  %p = graph.matmul %x, %w : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %s = graph.add %p, %b : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  %y = graph.relu %s : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}

// The gradient's mask and the bias' gradient are one pass over dy, before both products read the result.
// CHECK-LABEL: func.func @backward
func.func @backward(%dy: tensor<4x6xf32>, %s: tensor<4x6xf32>, %x: tensor<4x8xf32>, %w: tensor<8x6xf32>) -> (tensor<4x8xf32>, tensor<8x6xf32>, tensor<6xf32>) {
  // CHECK-NEXT: %[[G:.*]]:2 = graph.fused({{.*}}) {{.*}}-> (tensor<4x6xf32>, tensor<6xf32>)
  // CHECK: graph.lt
  // CHECK: graph.select
  // CHECK: graph.reduce_sum
  // CHECK: graph.matmul %[[G]]#0, %arg3 {transpose_b = true}
  // CHECK-NEXT: graph.matmul %arg2, %[[G]]#0 {transpose_a = true}
  %zero = graph.constant dense<0.0> : tensor<f32>
  %on = graph.lt %zero, %s : (tensor<f32>, tensor<4x6xf32>) -> tensor<4x6xi1>
  %g = graph.select %on, %dy, %zero : (tensor<4x6xi1>, tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf32>
  %dx = graph.matmul %g, %w {transpose_b = true} : (tensor<4x6xf32>, tensor<8x6xf32>) -> tensor<4x8xf32>
  %dw = graph.matmul %x, %g {transpose_a = true} : (tensor<4x8xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
  %db = graph.reduce_sum %g {dims = array<i64: 0>, keepdims = false} : (tensor<4x6xf32>) -> tensor<6xf32>
  return %dx, %dw, %db : tensor<4x8xf32>, tensor<8x6xf32>, tensor<6xf32>
}

// A residual joins the sum behind the second product; the first product lies on its way.
// CHECK-LABEL: func.func @residual
func.func @residual(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // CHECK-NEXT: %[[P:.*]] = graph.matmul %arg0, %arg1
  // CHECK-NEXT: %[[H:.*]] = graph.relu %[[P]]
  // CHECK-NEXT: %[[Q:.*]] = graph.matmul %[[H]], %arg1
  // CHECK-NEXT: %[[Y:.*]] = graph.fused(%[[Q]], %arg0)
  // CHECK: graph.add
  // CHECK-NEXT: graph.relu
  // CHECK: return %[[Y]]
  %p = graph.matmul %x, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %h = graph.relu %p : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %q = graph.matmul %h, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %s = graph.add %q, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = graph.relu %s : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}
