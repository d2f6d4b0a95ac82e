// RUN: tessera-opt --dist-localize --dist-verify-local %s -split-input-file -verify-diagnostics | FileCheck %s

// Sources: random numbers and counters know the whole tensor.

// A random number hashes its place in the whole tensor: each rank says which box it makes.
module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  // CHECK-LABEL: func.func @random
  func.func @random(%s: tensor<i64> {dist.sharding = #dist.sharding<"[]">})
      -> (tensor<8x6xf32> {dist.sharding = #dist.sharding<"[data, -]">}) {
    // CHECK-NEXT: graph.random %arg0 {{.*}}dist.per_rank = [{{.*}}offset = array<i64: 0, 0>}, {{.*}}offset = array<i64: 0, 0>}, {{.*}}offset = array<i64: 4, 0>}, {{.*}}offset = array<i64: 4, 0>}]
    // CHECK-SAME: -> tensor<4x6xf32>
    %r = graph.random %s {seed = 7 : i64, stream = 1 : i64, dist.strategy = #dist.strategy<"b0=data">}
      : (tensor<i64>) -> tensor<8x6xf32>
    return %r : tensor<8x6xf32>
  }
}

// -----

// A counter begins at the block's first index, if its own dimension is cut.
module attributes {dist.mesh = #dist.mesh<"model=2">} {
  // CHECK-LABEL: func.func @counter
  func.func @counter(%x: tensor<8xi64> {dist.sharding = #dist.sharding<"[model]">})
      -> (tensor<8xi64> {dist.sharding = #dist.sharding<"[model]">},
          tensor<8x6xi64> {dist.sharding = #dist.sharding<"[-, model]">}) {
    // CHECK-NEXT: graph.iota {dim = 0 : i64, dist.per_rank = [{start = 0 : i64}, {start = 4 : i64}]{{.*}} : () -> tensor<4xi64>
    // CHECK-NEXT: graph.add
    // CHECK-NEXT: graph.iota {dim = 0 : i64, dist.strategy = {{[^}]*}}} : () -> tensor<8x3xi64>
    %i = graph.iota {dim = 0 : i64, dist.strategy = #dist.strategy<"b0=model">} : () -> tensor<8xi64>
    %z = graph.add %x, %i {dist.strategy = #dist.strategy<"b0=model">}
      : (tensor<8xi64>, tensor<8xi64>) -> tensor<8xi64>
    %c = graph.iota {dim = 0 : i64, dist.strategy = #dist.strategy<"b1=model">} : () -> tensor<8x6xi64>
    return %z, %c : tensor<8xi64>, tensor<8x6xi64>
  }
}

// -----

// A splat is as large as it is read.
module attributes {dist.mesh = #dist.mesh<"model=2">} {
  // CHECK-LABEL: func.func @splat
  func.func @splat(%x: tensor<8xf32> {dist.sharding = #dist.sharding<"[model]">})
      -> (tensor<8xf32> {dist.sharding = #dist.sharding<"[model]">}) {
    // CHECK-NEXT: %[[C:.*]] = graph.constant {{.*}}dense<2.000000e+00> : tensor<4xf32>
    // CHECK-NEXT: graph.mul %arg0, %[[C]]
    %c = graph.constant {dist.strategy = #dist.strategy<"b0=model">} dense<2.000000e+00> : tensor<8xf32>
    %z = graph.mul %x, %c {dist.strategy = #dist.strategy<"b0=model">}
      : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    return %z : tensor<8xf32>
  }
}
