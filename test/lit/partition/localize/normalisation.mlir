// RUN: tessera-opt --dist-decompose-stats --dist-insert-reshards --dist-localize --dist-verify-local %s -split-input-file | FileCheck %s

// Softmax in blocks.

// Along the cut dimension: a maximum and a sum per row, reduced between the ranks.
module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  // CHECK-LABEL: func.func @cut
  func.func @cut(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<"[data, model]">})
      -> (tensor<4x8xf32> {dist.sharding = #dist.sharding<"[data, model]">}) {
    // CHECK-NEXT: %[[M:.*]] = graph.reduce_max %arg0 {{.*}} : (tensor<2x4xf32>) -> tensor<2x1xf32>
    // CHECK-NEXT: dist.collective "all-reduce" %[[M]] {axes = ["model"],{{.*}}reduction = "max"} : (tensor<2x1xf32>)
    // CHECK: %[[S:.*]] = graph.reduce_sum {{.*}} -> tensor<2x1xf32>
    // CHECK-NEXT: dist.collective "all-reduce" %[[S]] {axes = ["model"],{{.*}}reduction = "sum"} : (tensor<2x1xf32>)
    // CHECK: graph.div {{.*}} -> tensor<2x4xf32>
    %y = graph.softmax %x {dim = 1 : i64, dist.strategy = #dist.strategy<"d0=data, d1=model">}
      : (tensor<4x8xf32>) -> tensor<4x8xf32>
    return %y : tensor<4x8xf32>
  }
}

// -----

// Along another: one kernel on half of the rows.
module attributes {dist.mesh = #dist.mesh<"data=2">} {
  // CHECK-LABEL: func.func @rows
  func.func @rows(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<"[data, -]">})
      -> (tensor<4x8xf32> {dist.sharding = #dist.sharding<"[data, -]">}) {
    // CHECK-NEXT: %[[Y:.*]] = graph.softmax %arg0 {dim = 1 : i64, {{.*}} : (tensor<2x8xf32>) -> tensor<2x8xf32>
    // CHECK-NEXT: return %[[Y]]
    %y = graph.softmax %x {dim = 1 : i64, dist.strategy = #dist.strategy<"d0=data">}
      : (tensor<4x8xf32>) -> tensor<4x8xf32>
    return %y : tensor<4x8xf32>
  }
}

// -----

// 7 numbers over 2 ranks: the padding must not win the maximum, nor count in the sum.
module attributes {dist.mesh = #dist.mesh<"model=2">} {
  // CHECK-LABEL: func.func @padded
  func.func @padded(%x: tensor<4x7xf32> {dist.sharding = #dist.sharding<"[-, model]">})
      -> (tensor<4x7xf32> {dist.sharding = #dist.sharding<"[-, model]">}) {
    // CHECK: %[[LOW:.*]] = graph.constant {{.*}}dense<0xFF800000>
    // CHECK: %[[X:.*]] = graph.select %{{.*}}, %arg0, %[[LOW]]
    // CHECK-NEXT: graph.reduce_max %[[X]]
    // CHECK: %[[E:.*]] = graph.exp
    // CHECK: %[[ZERO:.*]] = graph.constant {{.*}}dense<0.000000e+00>
    // CHECK: %[[F:.*]] = graph.select %{{.*}}, %[[E]], %[[ZERO]]
    // CHECK-NEXT: graph.reduce_sum %[[F]]
    %y = graph.softmax %x {dim = 1 : i64, dist.strategy = #dist.strategy<"d1=model">}
      : (tensor<4x7xf32>) -> tensor<4x7xf32>
    return %y : tensor<4x7xf32>
  }
}
