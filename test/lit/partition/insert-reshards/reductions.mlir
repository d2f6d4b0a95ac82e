// RUN: tessera-opt --dist-insert-reshards --dist-verify-resharded %s -split-input-file -verify-diagnostics | FileCheck %s

// Reductions: which results are partial, and when they are reduced.

// A cut maximum is partial as a maximum.
module attributes {dist.mesh = #dist.mesh<"model=2">} {
  // CHECK-LABEL: func.func @maximum
  func.func @maximum(%x: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[-, model]">})
      -> (tensor<8xf32> {dist.sharding = #dist.sharding<"[-]">}) {
    // CHECK-NEXT: %[[Y:.*]] = graph.reduce_max
    // CHECK-NEXT: dist.reshard %[[Y]] from <"[-] max(model)"> to <"[-]">
    %y = graph.reduce_max %x {dims = array<i64: 1>, keepdims = false, dist.strategy = #dist.strategy<"d1=model">}
      : (tensor<8x6xf32>) -> tensor<8xf32>
    return %y : tensor<8xf32>
  }
}

// -----

// A sum over both dimensions is partial over both axes, and one reshard reduces it.
module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  // CHECK-LABEL: func.func @both
  func.func @both(%x: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[data, model]">})
      -> (tensor<f32> {dist.sharding = #dist.sharding<"[]">}) {
    // CHECK-NEXT: %[[Y:.*]] = graph.reduce_sum
    // CHECK-NEXT: dist.reshard %[[Y]] from <"[] sum(data,model)"> to <"[]">
    // CHECK-NEXT: return
    %y = graph.reduce_sum %x {dims = array<i64: 0, 1>, keepdims = false,
        dist.strategy = #dist.strategy<"d0=data, d1=model">} : (tensor<8x6xf32>) -> tensor<f32>
    return %y : tensor<f32>
  }
}

// -----

// A cut of a dimension that is not reduced makes nothing partial.
module attributes {dist.mesh = #dist.mesh<"data=2">} {
  // CHECK-LABEL: func.func @rows
  func.func @rows(%x: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[data, -]">})
      -> (tensor<8x1xf32> {dist.sharding = #dist.sharding<"[data, -]">}) {
    // CHECK-NEXT: %[[Y:.*]] = graph.reduce_sum
    // CHECK-NEXT: return %[[Y]]
    %y = graph.reduce_sum %x {dims = array<i64: 1>, keepdims = true, dist.strategy = #dist.strategy<"d0=data">}
      : (tensor<8x6xf32>) -> tensor<8x1xf32>
    return %y : tensor<8x1xf32>
  }
}

// -----

// A sum of sums is one sum; a maximum of sums waits for them.
module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  // CHECK-LABEL: func.func @nested
  func.func @nested(%x: tensor<8x6x4xf32> {dist.sharding = #dist.sharding<"[-, data, model]">})
      -> (tensor<f32> {dist.sharding = #dist.sharding<"[]">}, tensor<f32> {dist.sharding = #dist.sharding<"[]">}) {
    // CHECK: %[[Y:.*]] = graph.reduce_sum %arg0
    // CHECK-NEXT: %[[PAID:.*]] = dist.reshard %[[Y]] from <"[-, data] sum(model)"> to <"[-, data]">
    // CHECK-DAG: %[[Z:.*]] = graph.reduce_sum %[[Y]]
    // CHECK-DAG: %[[M:.*]] = graph.reduce_max %[[PAID]]
    // CHECK-DAG: dist.reshard %[[Z]] from <"[] sum(data,model)"> to <"[]">
    // CHECK-DAG: dist.reshard %[[M]] from <"[] max(data)"> to <"[]">
    %y = graph.reduce_sum %x {dims = array<i64: 2>, keepdims = false,
        dist.strategy = #dist.strategy<"d1=data, d2=model">} : (tensor<8x6x4xf32>) -> tensor<8x6xf32>
    %z = graph.reduce_sum %y {dims = array<i64: 0, 1>, keepdims = false,
        dist.strategy = #dist.strategy<"d1=data | partial 0(model)">} : (tensor<8x6xf32>) -> tensor<f32>
    %m = graph.reduce_max %y {dims = array<i64: 0, 1>, keepdims = false, dist.strategy = #dist.strategy<"d1=data">}
      : (tensor<8x6xf32>) -> tensor<f32>
    return %z, %m : tensor<f32>, tensor<f32>
  }
}

// -----

// The dimension of an argmax is whole.
module attributes {dist.mesh = #dist.mesh<"model=2">} {
  // CHECK-LABEL: func.func @argmax
  func.func @argmax(%x: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[-, model]">})
      -> (tensor<8xi64> {dist.sharding = #dist.sharding<"[-]">}) {
    // CHECK-NEXT: %[[X:.*]] = dist.reshard %arg0 from <"[-, model]"> to <"[-, -]">
    // CHECK-NEXT: graph.argmax %[[X]]
    %y = graph.argmax %x {dim = 1 : i64, keepdims = false, dist.strategy = #dist.strategy<"">}
      : (tensor<8x6xf32>) -> tensor<8xi64>
    return %y : tensor<8xi64>
  }
}
