// RUN: tessera-opt --dist-localize --dist-verify-local %s -split-input-file -verify-diagnostics | FileCheck %s

// Pooling: borders, and what stands beyond them.

// Beyond the border of a maximum is what never wins.
module attributes {dist.mesh = #dist.mesh<"space=2">} {
  // CHECK-LABEL: func.func @maximum
  func.func @maximum(%x: tensor<1x2x16x8xf32> {dist.sharding = #dist.sharding<"[-, -, space, -]">})
      -> (tensor<1x2x8x4xf32> {dist.sharding = #dist.sharding<"[-, -, space, -]">}) {
    // CHECK: %[[X:.*]] = dist.collective "halo" %arg0 {axes = ["space"], dim = 2 : i64, fill = 0xFFF0000000000000 : f64, {{.*}}halo_lo = 1 : i64}
    // CHECK-NEXT: graph.max_pool %[[X]] {{.*}}pads = array<i64: 0, 1, 0, 1>{{.*}} : (tensor<1x2x9x8xf32>) -> tensor<1x2x4x4xf32>
    %y = graph.max_pool %x {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>,
        dist.strategy = #dist.strategy<"h=space">} : (tensor<1x2x16x8xf32>) -> tensor<1x2x8x4xf32>
    return %y : tensor<1x2x8x4xf32>
  }
}

// -----

// Beyond that of a mean, which counts padding, are zeros.
module attributes {dist.mesh = #dist.mesh<"space=2">} {
  // CHECK-LABEL: func.func @mean
  func.func @mean(%x: tensor<1x2x8x8xf32> {dist.sharding = #dist.sharding<"[-, -, space, -]">})
      -> (tensor<1x2x8x8xf32> {dist.sharding = #dist.sharding<"[-, -, space, -]">}) {
    // CHECK-NOT: fill
    // CHECK: %[[X:.*]] = dist.collective "halo" %arg0 {{.*}}halo_hi = 1 : i64, halo_lo = 1 : i64}
    // CHECK-NEXT: graph.avg_pool %[[X]] {{.*}}pads = array<i64: 0, 1, 0, 1>{{.*}} -> tensor<1x2x4x8xf32>
    %y = graph.avg_pool %x {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, include_pad = true,
        dist.strategy = #dist.strategy<"h=space">} : (tensor<1x2x8x8xf32>) -> tensor<1x2x8x8xf32>
    return %y : tensor<1x2x8x8xf32>
  }
}

// -----

// Windows side by side stay within their blocks, forward and backward.
module attributes {dist.mesh = #dist.mesh<"space=2">} {
  // CHECK-LABEL: func.func @apart
  func.func @apart(%x: tensor<1x2x8x8xf32> {dist.sharding = #dist.sharding<"[-, -, space, -]">},
                   %dy: tensor<1x2x4x4xf32> {dist.sharding = #dist.sharding<"[-, -, space, -]">})
      -> (tensor<1x2x4x4xf32> {dist.sharding = #dist.sharding<"[-, -, space, -]">},
          tensor<1x2x8x8xf32> {dist.sharding = #dist.sharding<"[-, -, space, -]">}) {
    // CHECK-NEXT: graph.max_pool %arg0 {{.*}} : (tensor<1x2x4x8xf32>) -> tensor<1x2x2x4xf32>
    // CHECK-NEXT: graph.max_pool_grad %arg0, %arg1 {{.*}} -> tensor<1x2x4x8xf32>
    // CHECK-NEXT: return
    %y = graph.max_pool %x {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
        dist.strategy = #dist.strategy<"h=space">} : (tensor<1x2x8x8xf32>) -> tensor<1x2x4x4xf32>
    %dx = graph.max_pool_grad %x, %dy {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
        dist.strategy = #dist.strategy<"h=space">} : (tensor<1x2x8x8xf32>, tensor<1x2x4x4xf32>) -> tensor<1x2x8x8xf32>
    return %y, %dx : tensor<1x2x4x4xf32>, tensor<1x2x8x8xf32>
  }
}

// -----

// The gradient of a mean writes to its own block only.
module attributes {dist.mesh = #dist.mesh<"space=2">} {
  // CHECK-LABEL: func.func @mean_gradient
  func.func @mean_gradient(%dy: tensor<1x2x4x4xf32> {dist.sharding = #dist.sharding<"[-, -, space, -]">})
      -> (tensor<1x2x8x8xf32> {dist.sharding = #dist.sharding<"[-, -, space, -]">}) {
    // CHECK-NEXT: graph.avg_pool_grad %arg0 {{.*}}input_sizes = array<i64: 4, 8>{{.*}} : (tensor<1x2x2x4xf32>) -> tensor<1x2x4x8xf32>
    %dx = graph.avg_pool_grad %dy {input_sizes = array<i64: 8, 8>, kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, include_pad = true,
        dist.strategy = #dist.strategy<"h=space">} : (tensor<1x2x4x4xf32>) -> tensor<1x2x8x8xf32>
    return %dx : tensor<1x2x8x8xf32>
  }
}
