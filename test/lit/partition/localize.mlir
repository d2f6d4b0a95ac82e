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

// The vocabulary is cut. Every rank looks up the rows that it has, from its own first index on. The result is partial.
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

// -----

// Axes that do not divide: blocks of 4 of which the last has one element of padding. What is summed over k gets
// zeros there; %x, an argument, has them already.
module attributes {dist.mesh = #dist.mesh<"model=2">} {
  // CHECK-LABEL: func.func @padded(%arg0: tensor<2x4xf32> {{.*}}dist.global_shape = array<i64: 2, 7>
  func.func @padded(%x: tensor<2x7xf32> {dist.sharding = #dist.sharding<"[-, model]">},
                    %w: tensor<7x3xf32> {dist.sharding = #dist.sharding<"[model, -]">})
      -> (tensor<2x3xf32> {dist.sharding = #dist.sharding<"[-, -]">}) {
    // CHECK: %[[COUNTER:.*]] = graph.iota {dim = 0 : i64, dist.per_rank = [{start = -4 : i64}, {start = -3 : i64}]} : () -> tensor<4x1xi64>
    // CHECK: %[[MASK:.*]] = graph.lt %[[COUNTER]]
    // CHECK: %[[E:.*]] = graph.exp %arg1
    // CHECK: %[[ZERO:.*]] = graph.constant {{.*}}dense<0.000000e+00> : tensor<f32>
    // CHECK: %[[CLEAN:.*]] = graph.select %[[MASK]], %[[E]], %[[ZERO]]
    // CHECK: graph.matmul %arg0, %[[CLEAN]]
    %e = graph.exp %w {dist.strategy = #dist.strategy<"b0=model">} : (tensor<7x3xf32>) -> tensor<7x3xf32>
    %y = graph.matmul %x, %e {dist.strategy = #dist.strategy<"k=model">} : (tensor<2x7xf32>, tensor<7x3xf32>) -> tensor<2x3xf32>
    %z = dist.reshard %y from <"[-, -] sum(model)"> to <"[-, -]"> : tensor<2x3xf32>
    return %z : tensor<2x3xf32>
  }
}

// -----

// Blocks are lengthened before they are cut and shortened after they are joined. A table's own padding is no row.
module attributes {dist.mesh = #dist.mesh<"model=2">} {
  // CHECK-LABEL: func.func @fit(
  func.func @fit(%t: tensor<7x3xf32> {dist.sharding = #dist.sharding<"[model, -]">},
                 %i: tensor<5xi64> {dist.sharding = #dist.sharding<"[-]">})
      -> (tensor<7x3xf32> {dist.sharding = #dist.sharding<"[-, model]">}, tensor<5x3xf32> {dist.sharding = #dist.sharding<"[-, -]">}) {
    // CHECK: %[[A:.*]] = dist.collective "fit" %arg0 {axes = [], dim = 1 : i64} : (tensor<4x3xf32>) -> tensor<4x4xf32>
    // CHECK: %[[B:.*]] = dist.collective "all-to-all" %[[A]] {axes = ["model"], dim = 0 : i64, split_dim = 1 : i64} : (tensor<4x4xf32>) -> tensor<8x2xf32>
    // CHECK: dist.collective "fit" %[[B]] {axes = [], dim = 0 : i64} : (tensor<8x2xf32>) -> tensor<7x2xf32>
    %c = dist.reshard %t from <"[model, -]"> to <"[-, model]"> : tensor<7x3xf32>
    // CHECK: graph.gather {{.*}}dist.per_rank = [{limit = 4 : i64, start = 0 : i64}, {limit = 3 : i64, start = 4 : i64}]
    %y = graph.gather %t, %i {axis = 0 : i64, dist.strategy = #dist.strategy<"v=model">} : (tensor<7x3xf32>, tensor<5xi64>) -> tensor<5x3xf32>
    %z = dist.reshard %y from <"[-, -] sum(model)"> to <"[-, -]"> : tensor<5x3xf32>
    return %c, %z : tensor<7x3xf32>, tensor<5x3xf32>
  }
}
