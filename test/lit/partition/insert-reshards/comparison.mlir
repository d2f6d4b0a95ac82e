// RUN: tessera-opt --dist-insert-reshards --dist-verify-resharded %s -split-input-file -verify-diagnostics | FileCheck %s

// Comparison and selection.

// Both branches are partial, and the condition is not. The choice is partial and is reduced once.
module attributes {dist.mesh = #dist.mesh<"model=2">} {
  // CHECK-LABEL: func.func @both
  func.func @both(%c: tensor<8xi1> {dist.sharding = #dist.sharding<"[-]">},
                  %x: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[-, model]">},
                  %y: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[-, model]">})
      -> (tensor<8xf32> {dist.sharding = #dist.sharding<"[-]">}) {
    // CHECK: %[[A:.*]] = graph.reduce_sum %arg1
    // CHECK-NEXT: %[[B:.*]] = graph.reduce_sum %arg2
    // CHECK-NEXT: %[[Z:.*]] = graph.select %arg0, %[[A]], %[[B]]
    // CHECK-NEXT: dist.reshard %[[Z]] from <"[-] sum(model)"> to <"[-]">
    %a = graph.reduce_sum %x {dims = array<i64: 1>, keepdims = false, dist.strategy = #dist.strategy<"d1=model">}
      : (tensor<8x6xf32>) -> tensor<8xf32>
    %b = graph.reduce_sum %y {dims = array<i64: 1>, keepdims = false, dist.strategy = #dist.strategy<"d1=model">}
      : (tensor<8x6xf32>) -> tensor<8xf32>
    %z = graph.select %c, %a, %b {dist.strategy = #dist.strategy<"| partial 0(model)">}
      : (tensor<8xi1>, tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    return %z : tensor<8xf32>
  }
}

// -----

// One branch is partial, and the other one is not. The sum is reduced before the choice.
module attributes {dist.mesh = #dist.mesh<"model=2">} {
  // CHECK-LABEL: func.func @one
  func.func @one(%c: tensor<8xi1> {dist.sharding = #dist.sharding<"[-]">},
                 %x: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[-, model]">},
                 %b: tensor<8xf32> {dist.sharding = #dist.sharding<"[-]">})
      -> (tensor<8xf32> {dist.sharding = #dist.sharding<"[-]">}) {
    // CHECK: %[[A:.*]] = graph.reduce_sum
    // CHECK-NEXT: %[[PAID:.*]] = dist.reshard %[[A]] from <"[-] sum(model)"> to <"[-]">
    // CHECK-NEXT: graph.select %arg0, %[[PAID]], %arg2
    %a = graph.reduce_sum %x {dims = array<i64: 1>, keepdims = false, dist.strategy = #dist.strategy<"d1=model">}
      : (tensor<8x6xf32>) -> tensor<8xf32>
    %z = graph.select %c, %a, %b {dist.strategy = #dist.strategy<"">}
      : (tensor<8xi1>, tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    return %z : tensor<8xf32>
  }
}

// -----

// A sum is compared when it is complete; each rank compares its rows.
module attributes {dist.mesh = #dist.mesh<"model=2">} {
  // CHECK-LABEL: func.func @compared
  func.func @compared(%x: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[-, model]">},
                      %b: tensor<8xf32> {dist.sharding = #dist.sharding<"[model]">})
      -> (tensor<8xi1> {dist.sharding = #dist.sharding<"[model]">}) {
    // CHECK: %[[A:.*]] = graph.reduce_sum
    // CHECK-NEXT: %[[PAID:.*]] = dist.reshard %[[A]] from <"[-] sum(model)"> to <"[model]">
    // CHECK-NEXT: graph.lt %[[PAID]], %arg1
    %a = graph.reduce_sum %x {dims = array<i64: 1>, keepdims = false, dist.strategy = #dist.strategy<"d1=model">}
      : (tensor<8x6xf32>) -> tensor<8xf32>
    %z = graph.lt %a, %b {dist.strategy = #dist.strategy<"b0=model">} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
    return %z : tensor<8xi1>
  }
}
