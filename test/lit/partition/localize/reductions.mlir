// RUN: tessera-opt --dist-localize --dist-verify-local %s -split-input-file -verify-diagnostics | FileCheck %s

// Reductions in blocks.

// A sum over a cut dimension, then an all-reduce; the factor 1/N stays that of the whole tensor.
module attributes {dist.mesh = #dist.mesh<"data=2">} {
  // CHECK-LABEL: func.func @mean
  func.func @mean(%x: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[data, -]">})
      -> (tensor<6xf32> {dist.sharding = #dist.sharding<"[-]">}) {
    // CHECK-NEXT: %[[S:.*]] = graph.reduce_sum %arg0 {dims = array<i64: 0>, {{.*}}keepdims = false} : (tensor<4x6xf32>) -> tensor<6xf32>
    // CHECK-NEXT: %[[ALL:.*]] = dist.collective "all-reduce" %[[S]] {axes = ["data"], reduction = "sum"}
    // CHECK-NEXT: %[[N:.*]] = graph.constant {{.*}}dense<1.250000e-01>
    // CHECK-NEXT: graph.mul %[[ALL]], %[[N]]
    %s = graph.reduce_sum %x {dims = array<i64: 0>, keepdims = false, dist.strategy = #dist.strategy<"d0=data">}
      : (tensor<8x6xf32>) -> tensor<6xf32>
    %a = dist.reshard %s from <"[-] sum(data)"> to <"[-]"> : tensor<6xf32>
    %n = graph.constant {dist.strategy = #dist.strategy<"">} dense<1.250000e-01> : tensor<f32>
    %m = graph.mul %a, %n {dist.strategy = #dist.strategy<"">} : (tensor<6xf32>, tensor<f32>) -> tensor<6xf32>
    return %m : tensor<6xf32>
  }
}

// -----

// Maxima of blocks of which the last is shorter.
module attributes {dist.mesh = #dist.mesh<"model=2">} {
  // CHECK-LABEL: func.func @maximum
  func.func @maximum(%x: tensor<4x7xf32> {dist.sharding = #dist.sharding<"[-, model]">})
      -> (tensor<4xf32> {dist.sharding = #dist.sharding<"[-]">}) {
    // CHECK: %[[LOW:.*]] = graph.constant {{.*}}dense<0xFF800000>
    // CHECK: %[[X:.*]] = graph.select %{{.*}}, %arg0, %[[LOW]]
    // CHECK-NEXT: %[[Y:.*]] = graph.reduce_max %[[X]] {{.*}} : (tensor<4x4xf32>) -> tensor<4xf32>
    // CHECK-NEXT: dist.collective "all-reduce" %[[Y]] {axes = ["model"], reduction = "max"}
    %y = graph.reduce_max %x {dims = array<i64: 1>, keepdims = false, dist.strategy = #dist.strategy<"d1=model">}
      : (tensor<4x7xf32>) -> tensor<4xf32>
    %z = dist.reshard %y from <"[-] max(model)"> to <"[-]"> : tensor<4xf32>
    return %z : tensor<4xf32>
  }
}

// -----

// Minima of them.
module attributes {dist.mesh = #dist.mesh<"model=2">} {
  // CHECK-LABEL: func.func @minimum
  func.func @minimum(%x: tensor<4x7xf32> {dist.sharding = #dist.sharding<"[-, model]">})
      -> (tensor<4xf32> {dist.sharding = #dist.sharding<"[-]">}) {
    // CHECK: %[[HIGH:.*]] = graph.constant {{.*}}dense<0x7F800000>
    // CHECK: %[[X:.*]] = graph.select %{{.*}}, %arg0, %[[HIGH]]
    // CHECK-NEXT: graph.reduce_min %[[X]]
    %y = graph.reduce_min %x {dims = array<i64: 1>, keepdims = false, dist.strategy = #dist.strategy<"d1=model">}
      : (tensor<4x7xf32>) -> tensor<4xf32>
    %z = dist.reshard %y from <"[-] min(model)"> to <"[-]"> : tensor<4xf32>
    return %z : tensor<4xf32>
  }
}

// -----

// Rows that are cut keep their positions along the whole dimension.
module attributes {dist.mesh = #dist.mesh<"data=2">} {
  // CHECK-LABEL: func.func @argmax
  func.func @argmax(%x: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[data, -]">})
      -> (tensor<8x1xi64> {dist.sharding = #dist.sharding<"[data, -]">},
          tensor<8x2xi64> {dist.sharding = #dist.sharding<"[data, -]">}) {
    // CHECK-NEXT: graph.argmax %arg0 {dim = 1 : i64, {{.*}}keepdims = true} : (tensor<4x6xf32>) -> tensor<4x1xi64>
    // CHECK-NEXT: graph.topk %arg0 {{.*}}k = 2 : i64{{.*}} : (tensor<4x6xf32>) -> tensor<4x2xi64>
    // CHECK-NEXT: return
    %y = graph.argmax %x {dim = 1 : i64, keepdims = true, dist.strategy = #dist.strategy<"d0=data">}
      : (tensor<8x6xf32>) -> tensor<8x1xi64>
    %k = graph.topk %x {k = 2 : i64, dim = 1 : i64, smallest = false, dist.strategy = #dist.strategy<"d0=data">}
      : (tensor<8x6xf32>) -> tensor<8x2xi64>
    return %y, %k : tensor<8x1xi64>, tensor<8x2xi64>
  }
}
