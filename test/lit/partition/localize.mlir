// RUN: tessera-opt --dist-localize --dist-verify-local %s -split-input-file | FileCheck %s

// Space cut in two: borders from the neighbours replace the padding.
module attributes {dist.mesh = #dist.mesh<"space=2">} {
  // CHECK-LABEL: func.func @halo(%arg0: tensor<1x2x4x8xf32>
  func.func @halo(%x: tensor<1x2x8x8xf32> {dist.sharding = #dist.sharding<"[-, -, space, -]">},
                  %w: tensor<4x2x3x3xf32> {dist.sharding = #dist.sharding<"[-, -, -, -]">})
      -> (tensor<1x4x8x8xf32> {dist.sharding = #dist.sharding<"[-, -, space, -]">}) {
    // CHECK: %[[X:.*]] = dist.collective "halo" %arg0 {axes = ["space"], dim = 2 : i64, graph.name = "conv1", halo_hi = 1 : i64, halo_lo = 1 : i64} : (tensor<1x2x4x8xf32>) -> tensor<1x2x6x8xf32>
    // CHECK: graph.conv %[[X]], %arg1 {{.*}}pads = array<i64: 0, 1, 0, 1>{{.*}} -> tensor<1x4x4x8xf32>
    %y = graph.conv %x, %w {graph.name = "conv1", strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64, dist.strategy = #dist.strategy<"h=space">}
      : (tensor<1x2x8x8xf32>, tensor<4x2x3x3xf32>) -> tensor<1x4x8x8xf32>
    return %y : tensor<1x4x8x8xf32>
  }
}

// -----

// The vocabulary cut: every rank looks up what it has, from its own first index on, and the sum is owed.
module attributes {dist.mesh = #dist.mesh<"model=2">} {
  // CHECK-LABEL: func.func @vocabulary(%arg0: tensor<4x3xf32>
  func.func @vocabulary(%t: tensor<8x3xf32> {dist.sharding = #dist.sharding<"[model, -]">},
                        %i: tensor<5xi64> {dist.sharding = #dist.sharding<"[-]">})
      -> (tensor<5x3xf32> {dist.sharding = #dist.sharding<"[-, -]">}) {
    // CHECK: %[[Y:.*]] = graph.gather %arg0, %arg1 {{.*}}dist.per_rank = [{start = 0 : i64}, {start = 4 : i64}]
    // CHECK: dist.collective "all-reduce" %[[Y]] {axes = ["model"], reduction = "sum"}
    %y = graph.gather %t, %i {axis = 0 : i64, dist.strategy = #dist.strategy<"v=model">} : (tensor<8x3xf32>, tensor<5xi64>) -> tensor<5x3xf32>
    %z = dist.reshard %y from <"[-, -] sum(model)"> to <"[-, -]"> : tensor<5x3xf32>
    return %z : tensor<5x3xf32>
  }
}

// -----

// A reshard is what the planner says: here one all-to-all.
module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  // CHECK-LABEL: func.func @move(%arg0: tensor<4x3xf32>
  // CHECK-SAME: -> (tensor<2x6xf32>
  func.func @move(%x: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[data, model]">})
      -> (tensor<8x6xf32> {dist.sharding = #dist.sharding<"[data+model, -]">}) {
    // CHECK-NEXT: dist.collective "all-to-all" %arg0 {axes = ["model"], dim = 1 : i64, split_dim = 0 : i64} : (tensor<4x3xf32>) -> tensor<2x6xf32>
    // CHECK-NEXT: return
    %y = dist.reshard %x from <"[data, model]"> to <"[data+model, -]"> : tensor<8x6xf32>
    return %y : tensor<8x6xf32>
  }
}
