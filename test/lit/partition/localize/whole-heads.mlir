// RUN: tessera-opt --dist-localize --dist-verify-local %s -split-input-file | FileCheck %s

// Twelve heads of 64 columns on eight ranks: two heads each, and two ranks with padding alone. The columns lie in whole
// heads from the projection to the projection back. What that sums over is padding on these two ranks, and gets zeros.
module attributes {dist.mesh = #dist.mesh<"model=8">} {
  // CHECK-LABEL: func.func @twelve(%arg0: tensor<4x16xf32>
  // CHECK-SAME: %arg1: tensor<16x128xf32> {{{.*}}dist.global_shape = array<i64: 16, 768>
  // CHECK-SAME: %arg2: tensor<128x16xf32> {{{.*}}dist.global_shape = array<i64: 768, 16>
  func.func @twelve(%x: tensor<4x16xf32> {dist.sharding = #dist.sharding<"[-, -]">},
                    %w: tensor<16x768xf32> {dist.sharding = #dist.sharding<"[-, model/64]">},
                    %o: tensor<768x16xf32> {dist.sharding = #dist.sharding<"[model/64, -]">})
      -> (tensor<4x16xf32> {dist.sharding = #dist.sharding<"[-, -]">}) {
    // CHECK: graph.iota {{.*}}dist.per_rank = [{start = -128 : i64}, {start = -128 : i64}, {start = -128 : i64}, {start = -128 : i64}, {start = -128 : i64}, {start = -128 : i64}, {start = 0 : i64}, {start = 0 : i64}]
    // CHECK: graph.matmul %arg0, %arg1 {{.*}} -> tensor<4x128xf32>
    // CHECK: graph.reshape {{.*}} : (tensor<4x128xf32>) -> tensor<4x2x64xf32>
    // CHECK: graph.exp {{.*}} : (tensor<4x2x64xf32>)
    // CHECK: graph.reshape {{.*}} : (tensor<4x2x64xf32>) -> tensor<4x128xf32>
    // CHECK: %[[OWN:.*]] = graph.select
    // CHECK: %[[Y:.*]] = graph.matmul %[[OWN]], %arg2
    // CHECK: dist.collective "all-reduce" %[[Y]]
    %q = graph.matmul %x, %w {dist.strategy = #dist.strategy<"n=model/64">} : (tensor<4x16xf32>, tensor<16x768xf32>) -> tensor<4x768xf32>
    %h = graph.reshape %q {dist.strategy = #dist.strategy<"r1=model">} : (tensor<4x768xf32>) -> tensor<4x12x64xf32>
    %e = graph.exp %h {dist.strategy = #dist.strategy<"b1=model">} : (tensor<4x12x64xf32>) -> tensor<4x12x64xf32>
    %m = graph.reshape %e {dist.strategy = #dist.strategy<"r1=model">} : (tensor<4x12x64xf32>) -> tensor<4x768xf32>
    %y = graph.matmul %m, %o {dist.strategy = #dist.strategy<"k=model/64">} : (tensor<4x768xf32>, tensor<768x16xf32>) -> tensor<4x16xf32>
    %z = dist.reshard %y from <"[-, -] sum(model)"> to <"[-, -]"> : tensor<4x16xf32>
    return %z : tensor<4x16xf32>
  }
}

// -----

// Three heads on two ranks.
module attributes {dist.mesh = #dist.mesh<"model=2">} {
  // CHECK-LABEL: func.func @three(%arg0: tensor<4x8xf32>
  func.func @three(%q: tensor<4x12xf32> {dist.sharding = #dist.sharding<"[-, model/4]">})
      -> (tensor<4x3x4xf32> {dist.sharding = #dist.sharding<"[-, model, -]">}) {
    // CHECK: graph.reshape %arg0 {{.*}}: (tensor<4x8xf32>) -> tensor<4x2x4xf32>
    %h = graph.reshape %q {dist.strategy = #dist.strategy<"r1=model">} : (tensor<4x12xf32>) -> tensor<4x3x4xf32>
    return %h : tensor<4x3x4xf32>
  }
}

// -----

// Six heads on four ranks, by two axes: three heads a pair, so two for the first of each.
module attributes {dist.mesh = #dist.mesh<"a=2,b=2">} {
  // CHECK-LABEL: func.func @six(%arg0: tensor<4x8xf32>
  func.func @six(%q: tensor<4x24xf32> {dist.sharding = #dist.sharding<"[-, a+b/4]">})
      -> (tensor<4x6x4xf32> {dist.sharding = #dist.sharding<"[-, a+b, -]">}) {
    // CHECK: graph.reshape %arg0 {{.*}}: (tensor<4x8xf32>) -> tensor<4x2x4xf32>
    %h = graph.reshape %q {dist.strategy = #dist.strategy<"r1=a+b">} : (tensor<4x24xf32>) -> tensor<4x6x4xf32>
    return %h : tensor<4x6x4xf32>
  }
}

// -----

// From whole heads to plain blocks the way leads over the whole.
module attributes {dist.mesh = #dist.mesh<"model=8">} {
  // CHECK-LABEL: func.func @between(%arg0: tensor<4x128xf32>
  func.func @between(%x: tensor<4x768xf32> {dist.sharding = #dist.sharding<"[-, model/64]">})
      -> (tensor<4x768xf32> {dist.sharding = #dist.sharding<"[-, model]">}) {
    // CHECK-NEXT: dist.collective "all-gather" %arg0 {{.*}} : (tensor<4x128xf32>) -> tensor<4x1024xf32>
    // CHECK-NEXT: dist.collective "fit" {{.*}} : (tensor<4x1024xf32>) -> tensor<4x768xf32>
    // CHECK-NEXT: dist.collective "slice" {{.*}} : (tensor<4x768xf32>) -> tensor<4x96xf32>
    %y = dist.reshard %x from <"[-, model/64]"> to <"[-, model]"> : tensor<4x768xf32>
    return %y : tensor<4x768xf32>
  }
}
