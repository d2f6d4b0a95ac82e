// RUN: tessera-opt --dist-decompose-stats --dist-insert-reshards --dist-verify-resharded %s -split-input-file | FileCheck %s

// Softmax and its gradients: which statistics are reduced between the ranks.

// A cut softmax brings two reductions along: a maximum and a sum of one number per row.
module attributes {dist.mesh = #dist.mesh<"model=2">} {
  // CHECK-LABEL: func.func @softmax
  func.func @softmax(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<"[-, model]">})
      -> (tensor<4x8xf32> {dist.sharding = #dist.sharding<"[-, model]">}) {
    // CHECK: %[[M:.*]] = graph.reduce_max %arg0
    // CHECK-NEXT: %[[MAX:.*]] = dist.reshard %[[M]] from <"[-, -] max(model)"> to <"[-, -]"> {{.*}}: tensor<4x1xf32>
    // CHECK: %[[S:.*]] = graph.reduce_sum
    // CHECK-NEXT: %[[SUM:.*]] = dist.reshard %[[S]] from <"[-, -] sum(model)"> to <"[-, -]"> {{.*}}: tensor<4x1xf32>
    // CHECK-NEXT: %[[Y:.*]] = graph.div %{{.*}}, %[[SUM]]
    // CHECK-NEXT: return %[[Y]]
    %y = graph.softmax %x {dim = 1 : i64, dist.strategy = #dist.strategy<"d1=model">}
      : (tensor<4x8xf32>) -> tensor<4x8xf32>
    return %y : tensor<4x8xf32>
  }
}

// -----

// Its gradient needs one sum.
module attributes {dist.mesh = #dist.mesh<"model=2">} {
  // CHECK-LABEL: func.func @gradient
  func.func @gradient(%dy: tensor<4x8xf32> {dist.sharding = #dist.sharding<"[-, model]">},
                      %y: tensor<4x8xf32> {dist.sharding = #dist.sharding<"[-, model]">})
      -> (tensor<4x8xf32> {dist.sharding = #dist.sharding<"[-, model]">}) {
    // CHECK-NOT: reduce_max
    // CHECK-COUNT-1: dist.reshard
    // CHECK-NOT: dist.reshard
    // CHECK: return
    %dx = graph.softmax_grad %dy, %y {dim = 1 : i64, dist.strategy = #dist.strategy<"d1=model">}
      : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    return %dx : tensor<4x8xf32>
  }
}

// -----

// Cut along the batch it is one kernel, and what arrives cut otherwise is moved.
module attributes {dist.mesh = #dist.mesh<"data=2">} {
  // CHECK-LABEL: func.func @rows
  func.func @rows(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<"[-, data]">})
      -> (tensor<4x8xf32> {dist.sharding = #dist.sharding<"[data, -]">}) {
    // CHECK-NEXT: %[[X:.*]] = dist.reshard %arg0 from <"[-, data]"> to <"[data, -]">
    // CHECK-NEXT: %[[Y:.*]] = graph.softmax %[[X]]
    // CHECK-NEXT: return %[[Y]]
    %y = graph.softmax %x {dim = 1 : i64, dist.strategy = #dist.strategy<"d0=data">}
      : (tensor<4x8xf32>) -> tensor<4x8xf32>
    return %y : tensor<4x8xf32>
  }
}
