// RUN: tessera-opt --dist-insert-reshards --dist-verify-resharded %s -split-input-file -verify-diagnostics | FileCheck %s

// Elementwise operators: through which of them a partial sum may pass.

// A sum of partial sums and a multiple of it are partial. One reshard at the end reduces them.
module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  // CHECK-LABEL: func.func @linear
  func.func @linear(%x: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[-, model]">},
                    %y: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[-, model]">},
                    %s: tensor<f32> {dist.sharding = #dist.sharding<"[]">})
      -> (tensor<8xf32> {dist.sharding = #dist.sharding<"[-]">}) {
    // CHECK: %[[A:.*]] = graph.reduce_sum %arg0
    // CHECK-NEXT: %[[B:.*]] = graph.reduce_sum %arg1
    // CHECK-NEXT: %[[C:.*]] = graph.add %[[A]], %[[B]]
    // CHECK-NEXT: %[[D:.*]] = graph.mul %[[C]], %arg2
    // CHECK-NEXT: %[[PAID:.*]] = dist.reshard %[[D]] from <"[-] sum(model)"> to <"[-]">
    // CHECK-NEXT: return %[[PAID]]
    %a = graph.reduce_sum %x {dims = array<i64: 1>, keepdims = false, dist.strategy = #dist.strategy<"d1=model">}
      : (tensor<8x6xf32>) -> tensor<8xf32>
    %b = graph.reduce_sum %y {dims = array<i64: 1>, keepdims = false, dist.strategy = #dist.strategy<"d1=model">}
      : (tensor<8x6xf32>) -> tensor<8xf32>
    %c = graph.add %a, %b {dist.strategy = #dist.strategy<"| partial 0(model)">}
      : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %d = graph.mul %c, %s {dist.strategy = #dist.strategy<"| partial 0(model)">}
      : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    return %d : tensor<8xf32>
  }
}

// -----

// The maximum of sums is not the sum of maxima: both are reduced before.
module attributes {dist.mesh = #dist.mesh<"model=2">} {
  // CHECK-LABEL: func.func @maximum
  func.func @maximum(%x: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[-, model]">},
                     %y: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[-, model]">})
      -> (tensor<8xf32> {dist.sharding = #dist.sharding<"[-]">}) {
    // CHECK-DAG: %[[A:.*]] = dist.reshard %{{.*}} from <"[-] sum(model)"> to <"[-]">
    // CHECK-DAG: %[[B:.*]] = dist.reshard %{{.*}} from <"[-] sum(model)"> to <"[-]">
    // CHECK: graph.max %[[A]], %[[B]]
    %a = graph.reduce_sum %x {dims = array<i64: 1>, keepdims = false, dist.strategy = #dist.strategy<"d1=model">}
      : (tensor<8x6xf32>) -> tensor<8xf32>
    %b = graph.reduce_sum %y {dims = array<i64: 1>, keepdims = false, dist.strategy = #dist.strategy<"d1=model">}
      : (tensor<8x6xf32>) -> tensor<8xf32>
    %c = graph.max %a, %b {dist.strategy = #dist.strategy<"">} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    return %c : tensor<8xf32>
  }
}

// -----

// A sum is reduced into the blocks in which it is read, not whole.
module attributes {dist.mesh = #dist.mesh<"model=2">} {
  // CHECK-LABEL: func.func @scattered
  func.func @scattered(%x: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[-, model]">})
      -> (tensor<8xf32> {dist.sharding = #dist.sharding<"[model]">}) {
    // CHECK: %[[A:.*]] = graph.reduce_sum
    // CHECK-NEXT: %[[PAID:.*]] = dist.reshard %[[A]] from <"[-] sum(model)"> to <"[model]">
    // CHECK-NEXT: graph.exp %[[PAID]]
    %a = graph.reduce_sum %x {dims = array<i64: 1>, keepdims = false, dist.strategy = #dist.strategy<"d1=model">}
      : (tensor<8x6xf32>) -> tensor<8xf32>
    %b = graph.exp %a {dist.strategy = #dist.strategy<"b0=model">} : (tensor<8xf32>) -> tensor<8xf32>
    return %b : tensor<8xf32>
  }
}

// -----

// A bias is cut as the dimension that it is aligned with. A column that stretches is cut by its rows only.
module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  // CHECK-LABEL: func.func @broadcast
  func.func @broadcast(%x: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[data, model]">},
                       %b: tensor<6xf32> {dist.sharding = #dist.sharding<"[-]">},
                       %c: tensor<8x1xf32> {dist.sharding = #dist.sharding<"[data, -]">})
      -> (tensor<8x6xf32> {dist.sharding = #dist.sharding<"[data, model]">}) {
    // CHECK-NEXT: %[[B:.*]] = dist.reshard %arg1 from <"[-]"> to <"[model]">
    // CHECK-NEXT: %[[Y:.*]] = graph.add %arg0, %[[B]]
    // CHECK-NEXT: %[[Z:.*]] = graph.mul %[[Y]], %arg2
    // CHECK-NEXT: return %[[Z]]
    %y = graph.add %x, %b {dist.strategy = #dist.strategy<"b0=data, b1=model">}
      : (tensor<8x6xf32>, tensor<6xf32>) -> tensor<8x6xf32>
    %z = graph.mul %y, %c {dist.strategy = #dist.strategy<"b0=data, b1=model">}
      : (tensor<8x6xf32>, tensor<8x1xf32>) -> tensor<8x6xf32>
    return %z : tensor<8x6xf32>
  }
}

// -----

// A cast to more digits passes a sum on; one to integers would round every summand.
module attributes {dist.mesh = #dist.mesh<"model=2">} {
  // CHECK-LABEL: func.func @casts
  func.func @casts(%x: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[-, model]">},
                   %y: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[-, model]">})
      -> (tensor<8xf64> {dist.sharding = #dist.sharding<"[-]">},
          tensor<8xi64> {dist.sharding = #dist.sharding<"[-]">}) {
    // CHECK: %[[A:.*]] = graph.reduce_sum %arg0
    // CHECK-NEXT: %[[WIDE:.*]] = graph.cast %[[A]]
    // CHECK-NEXT: dist.reshard %[[WIDE]] from <"[-] sum(model)"> to <"[-]">
    // CHECK: %[[B:.*]] = graph.reduce_sum %arg1
    // CHECK-NEXT: %[[PAID:.*]] = dist.reshard %[[B]] from <"[-] sum(model)"> to <"[-]">
    // CHECK-NEXT: graph.cast %[[PAID]]
    %a = graph.reduce_sum %x {dims = array<i64: 1>, keepdims = false, dist.strategy = #dist.strategy<"d1=model">}
      : (tensor<8x6xf32>) -> tensor<8xf32>
    %c = graph.cast %a {dist.strategy = #dist.strategy<"| partial 0(model)">} : (tensor<8xf32>) -> tensor<8xf64>
    %b = graph.reduce_sum %y {dims = array<i64: 1>, keepdims = false, dist.strategy = #dist.strategy<"d1=model">}
      : (tensor<8x6xf32>) -> tensor<8xf32>
    %d = graph.cast %b {dist.strategy = #dist.strategy<"">} : (tensor<8xf32>) -> tensor<8xi64>
    return %c, %d : tensor<8xf64>, tensor<8xi64>
  }
}

// -----

// Nothing may be handed to an operator as a sum that its rule does not let through.
module attributes {dist.mesh = #dist.mesh<"model=2">} {
  func.func @refused(%x: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[-, model]">})
      -> (tensor<8xf32> {dist.sharding = #dist.sharding<"[-]">}) {
    %a = graph.reduce_sum %x {dims = array<i64: 1>, keepdims = false, dist.strategy = #dist.strategy<"d1=model">}
      : (tensor<8x6xf32>) -> tensor<8xf32>
    // expected-error @+1 {{expected 'partial GROUP(axes)' with a group of the operator's linear clause}}
    %b = graph.relu %a {graph.name = "act", dist.strategy = #dist.strategy<"| partial 0(model)">}
      : (tensor<8xf32>) -> tensor<8xf32>
    return %b : tensor<8xf32>
  }
}
