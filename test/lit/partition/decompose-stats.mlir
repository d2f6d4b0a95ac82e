// RUN: tessera-opt --dist-decompose-stats --dist-verify-annotated %s -split-input-file -verify-diagnostics | FileCheck %s

// A softmax that is cut along its dimension becomes primitives, which reduce partial results at once. Cut elsewhere it
// stays one operator.
module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  // CHECK-LABEL: func.func @softmax
  func.func @softmax(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<"[data, model]">})
      -> (tensor<4x8xf32> {dist.sharding = #dist.sharding<"[data, model]">}, tensor<4x8xf32> {dist.sharding = #dist.sharding<"[data, -]">}) {
    // CHECK-NEXT: %[[M:.*]] = graph.reduce_max %arg0 {dims = array<i64: 1>, dist.strategy = #dist.strategy<"d0=data, d1=model -> [data, -]">, graph.name = "sm"
    // CHECK-NEXT: %[[S:.*]] = graph.sub %arg0, %[[M]] {dist.strategy = #dist.strategy<"b0=data, b1=model">
    // CHECK-NEXT: %[[E:.*]] = graph.exp %[[S]]
    // CHECK-NEXT: %[[Z:.*]] = graph.reduce_sum %[[E]] {{.*}}"d0=data, d1=model -> [data, -]"
    // CHECK-NEXT: %[[Y:.*]] = graph.div %[[E]], %[[Z]]
    %y = graph.softmax %x {dim = 1 : i64, graph.name = "sm", dist.strategy = #dist.strategy<"d0=data, d1=model">} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    // CHECK-NEXT: %[[K:.*]] = graph.softmax %arg0
    %z = graph.softmax %x {dim = 1 : i64, dist.strategy = #dist.strategy<"d0=data">} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    // CHECK-NEXT: return %[[Y]], %[[K]]
    return %y, %z : tensor<4x8xf32>, tensor<4x8xf32>
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<"model=9">} {
  func.func @divide(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<"[-, -]">}) -> (tensor<4x8xf32> {dist.sharding = #dist.sharding<"[-, -]">}) {
    // expected-error @+1 {{operator 'sm': factor 'd1' of extent 8 cannot be cut in 9 parts}}
    %y = graph.softmax %x {dim = 1 : i64, graph.name = "sm", dist.strategy = #dist.strategy<"d1=model">} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    return %y : tensor<4x8xf32>
  }
}
