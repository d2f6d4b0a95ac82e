// RUN: tessera-opt --dist-insert-reshards --dist-verify-resharded %s -split-input-file -verify-diagnostics | FileCheck %s

// Pooling: a mean passes sums on, a maximum does not.

// A mean of sums is the sum of means: the sum is reduced when it is a quarter as large.
module attributes {dist.mesh = #dist.mesh<"model=2">} {
  // CHECK-LABEL: func.func @mean
  func.func @mean(%x: tensor<2x4x8x8xf32> {dist.sharding = #dist.sharding<"[-, model, -, -]">},
                  %w: tensor<4x4x3x3xf32> {dist.sharding = #dist.sharding<"[-, model, -, -]">})
      -> (tensor<2x4x4x4xf32> {dist.sharding = #dist.sharding<"[-, -, -, -]">}) {
    // CHECK-NEXT: %[[Y:.*]] = graph.conv
    // CHECK-NEXT: %[[Z:.*]] = graph.avg_pool %[[Y]]
    // CHECK-NEXT: dist.reshard %[[Z]] from <"[-, -, -, -] sum(model)"> to <"[-, -, -, -]"> {{.*}}: tensor<2x4x4x4xf32>
    %y = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64,
        dist.strategy = #dist.strategy<"c=model">} : (tensor<2x4x8x8xf32>, tensor<4x4x3x3xf32>) -> tensor<2x4x8x8xf32>
    %z = graph.avg_pool %y {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, include_pad = true,
        dist.strategy = #dist.strategy<"| partial 0(model)">} : (tensor<2x4x8x8xf32>) -> tensor<2x4x4x4xf32>
    return %z : tensor<2x4x4x4xf32>
  }
}

// -----

// A maximum is read as it is.
module attributes {dist.mesh = #dist.mesh<"model=2">} {
  // CHECK-LABEL: func.func @maximum
  func.func @maximum(%x: tensor<2x4x8x8xf32> {dist.sharding = #dist.sharding<"[-, model, -, -]">},
                     %w: tensor<4x4x3x3xf32> {dist.sharding = #dist.sharding<"[-, model, -, -]">})
      -> (tensor<2x4x4x4xf32> {dist.sharding = #dist.sharding<"[-, model, -, -]">}) {
    // CHECK-NEXT: %[[Y:.*]] = graph.conv
    // CHECK-NEXT: %[[PAID:.*]] = dist.reshard %[[Y]] from <"[-, -, -, -] sum(model)"> to <"[-, model, -, -]"> {{.*}}: tensor<2x4x8x8xf32>
    // CHECK-NEXT: %[[Z:.*]] = graph.max_pool %[[PAID]]
    // CHECK-NEXT: return %[[Z]]
    %y = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64,
        dist.strategy = #dist.strategy<"c=model">} : (tensor<2x4x8x8xf32>, tensor<4x4x3x3xf32>) -> tensor<2x4x8x8xf32>
    %z = graph.max_pool %y {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
        dist.strategy = #dist.strategy<"c=model">} : (tensor<2x4x8x8xf32>) -> tensor<2x4x4x4xf32>
    return %z : tensor<2x4x4x4xf32>
  }
}

// -----

// Where padding does not count, space is whole: what is cut is gathered.
module attributes {dist.mesh = #dist.mesh<"space=2">} {
  // CHECK-LABEL: func.func @whole_space
  func.func @whole_space(%x: tensor<2x4x8x8xf32> {dist.sharding = #dist.sharding<"[-, -, space, -]">})
      -> (tensor<2x4x8x8xf32> {dist.sharding = #dist.sharding<"[-, space, -, -]">}) {
    // CHECK-NEXT: %[[X:.*]] = dist.reshard %arg0 from <"[-, -, space, -]"> to <"[-, space, -, -]">
    // CHECK-NEXT: graph.avg_pool %[[X]]
    %y = graph.avg_pool %x {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, include_pad = false,
        dist.strategy = #dist.strategy<"c=space">} : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
    return %y : tensor<2x4x8x8xf32>
  }
}
