// RUN: tessera-opt --dist-localize --dist-verify-local %s -split-input-file -verify-diagnostics | FileCheck %s

// Attention in blocks.

// The diagonal of a causal mask begins at the rank's first row.
module attributes {dist.mesh = #dist.mesh<"model=2">} {
  // CHECK-LABEL: func.func @causal
  func.func @causal(%q: tensor<2x4x8x2xf32> {dist.sharding = #dist.sharding<"[-, -, model, -]">},
                    %k: tensor<2x4x8x2xf32> {dist.sharding = #dist.sharding<"[-, -, -, -]">},
                    %v: tensor<2x4x8x2xf32> {dist.sharding = #dist.sharding<"[-, -, -, -]">})
      -> (tensor<2x4x8x2xf32> {dist.sharding = #dist.sharding<"[-, -, model, -]">}) {
    // CHECK-NEXT: graph.attention %arg0, %arg1, %arg2 {{.*}}dist.per_rank = [{start = 0 : i64}, {start = 4 : i64}]{{.*}} -> tensor<2x4x4x2xf32>
    %y = graph.attention %q, %k, %v {scale = 0.5 : f64, causal = true, outside = -1.0e9 : f64,
        dist.strategy = #dist.strategy<"m=model">}
      : (tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>) -> tensor<2x4x8x2xf32>
    return %y : tensor<2x4x8x2xf32>
  }
}

// -----

// Without a mask all rows are alike.
module attributes {dist.mesh = #dist.mesh<"model=2">} {
  // CHECK-LABEL: func.func @plain
  func.func @plain(%q: tensor<2x4x8x2xf32> {dist.sharding = #dist.sharding<"[-, -, model, -]">},
                   %k: tensor<2x4x8x2xf32> {dist.sharding = #dist.sharding<"[-, -, -, -]">},
                   %v: tensor<2x4x8x2xf32> {dist.sharding = #dist.sharding<"[-, -, -, -]">})
      -> (tensor<2x4x8x2xf32> {dist.sharding = #dist.sharding<"[-, -, model, -]">}) {
    // CHECK-NOT: dist.per_rank
    // CHECK: graph.attention {{.*}} -> tensor<2x4x4x2xf32>
    %y = graph.attention %q, %k, %v {scale = 0.5 : f64, dist.strategy = #dist.strategy<"m=model">}
      : (tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>) -> tensor<2x4x8x2xf32>
    return %y : tensor<2x4x8x2xf32>
  }
}

// -----

// Four heads of queries share two of keys: cut in two, two share one.
module attributes {dist.mesh = #dist.mesh<"model=2">} {
  // CHECK-LABEL: func.func @grouped
  func.func @grouped(%q: tensor<2x4x8x2xf32> {dist.sharding = #dist.sharding<"[-, model, -, -]">},
                     %k: tensor<2x2x8x2xf32> {dist.sharding = #dist.sharding<"[-, model, -, -]">},
                     %v: tensor<2x2x8x2xf32> {dist.sharding = #dist.sharding<"[-, model, -, -]">})
      -> (tensor<2x4x8x2xf32> {dist.sharding = #dist.sharding<"[-, model, -, -]">}) {
    // CHECK-NEXT: graph.attention %arg0, %arg1, %arg2 {{.*}} : (tensor<2x2x8x2xf32>, tensor<2x1x8x2xf32>, tensor<2x1x8x2xf32>) -> tensor<2x2x8x2xf32>
    %y = graph.attention %q, %k, %v {scale = 0.5 : f64, dist.strategy = #dist.strategy<"u=model">}
      : (tensor<2x4x8x2xf32>, tensor<2x2x8x2xf32>, tensor<2x2x8x2xf32>) -> tensor<2x4x8x2xf32>
    return %y : tensor<2x4x8x2xf32>
  }
}
