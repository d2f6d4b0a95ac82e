// RUN: tessera-opt --dist-insert-reshards --dist-verify-resharded %s -split-input-file -verify-diagnostics | FileCheck %s

// Operators that move elements carry cuts and sums with them.

// A transposed tensor is cut transposed.
module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  // CHECK-LABEL: func.func @transpose
  func.func @transpose(%x: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[data, model]">})
      -> (tensor<6x8xf32> {dist.sharding = #dist.sharding<"[model, data]">}) {
    // CHECK-NEXT: %[[Y:.*]] = graph.transpose
    // CHECK-NEXT: return %[[Y]]
    %y = graph.transpose %x {perm = array<i64: 1, 0>, dist.strategy = #dist.strategy<"d0=data, d1=model">}
      : (tensor<8x6xf32>) -> tensor<6x8xf32>
    return %y : tensor<6x8xf32>
  }
}

// -----

// The first of two merged dimensions stays cut.
module attributes {dist.mesh = #dist.mesh<"data=2">} {
  // CHECK-LABEL: func.func @merge
  func.func @merge(%x: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[data, -]">})
      -> (tensor<48xf32> {dist.sharding = #dist.sharding<"[data]">}) {
    // CHECK-NEXT: %[[Y:.*]] = graph.reshape
    // CHECK-NEXT: return %[[Y]]
    %y = graph.reshape %x {dist.strategy = #dist.strategy<"r0=data">} : (tensor<8x6xf32>) -> tensor<48xf32>
    return %y : tensor<48xf32>
  }
}

// -----

// The second of them would be cut into stripes: it is moved to the first.
module attributes {dist.mesh = #dist.mesh<"data=2">} {
  // CHECK-LABEL: func.func @stripes
  func.func @stripes(%x: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[-, data]">})
      -> (tensor<48xf32> {dist.sharding = #dist.sharding<"[data]">}) {
    // CHECK-NEXT: %[[X:.*]] = dist.reshard %arg0 from <"[-, data]"> to <"[data, -]">
    // CHECK-NEXT: graph.reshape %[[X]]
    %y = graph.reshape %x {dist.strategy = #dist.strategy<"r0=data">} : (tensor<8x6xf32>) -> tensor<48xf32>
    return %y : tensor<48xf32>
  }
}

// -----

// What is sliced is whole in that dimension, and cut in the others.
module attributes {dist.mesh = #dist.mesh<"data=2">} {
  // CHECK-LABEL: func.func @slice
  func.func @slice(%x: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[-, data]">})
      -> (tensor<8x3xf32> {dist.sharding = #dist.sharding<"[data, -]">}) {
    // CHECK-NEXT: %[[X:.*]] = dist.reshard %arg0 from <"[-, data]"> to <"[data, -]">
    // CHECK-NEXT: %[[Y:.*]] = graph.slice %[[X]]
    // CHECK-NEXT: return %[[Y]]
    %y = graph.slice %x {starts = array<i64: 0, 1>, limits = array<i64: 8, 4>, strides = array<i64: 1, 1>,
        dist.strategy = #dist.strategy<"d0=data">} : (tensor<8x6xf32>) -> tensor<8x3xf32>
    return %y : tensor<8x3xf32>
  }
}

// -----

// Zeros around a sum are zeros on every rank; ones would be counted once per rank.
module attributes {dist.mesh = #dist.mesh<"model=2">} {
  // CHECK-LABEL: func.func @pad
  func.func @pad(%x: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[-, model]">},
                 %y: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[-, model]">})
      -> (tensor<9xf32> {dist.sharding = #dist.sharding<"[-]">},
          tensor<9xf32> {dist.sharding = #dist.sharding<"[-]">}) {
    // CHECK: %[[A:.*]] = graph.reduce_sum %arg0
    // CHECK-NEXT: %[[B:.*]] = graph.pad %[[A]]
    // CHECK-NEXT: dist.reshard %[[B]] from <"[-] sum(model)"> to <"[-]"> {{.*}}: tensor<9xf32>
    // CHECK: %[[C:.*]] = graph.reduce_sum %arg1
    // CHECK-NEXT: %[[PAID:.*]] = dist.reshard %[[C]] from <"[-] sum(model)"> to <"[-]"> {{.*}}: tensor<8xf32>
    // CHECK-NEXT: graph.pad %[[PAID]]
    %a = graph.reduce_sum %x {dims = array<i64: 1>, keepdims = false, dist.strategy = #dist.strategy<"d1=model">}
      : (tensor<8x6xf32>) -> tensor<8xf32>
    %b = graph.pad %a {lo = array<i64: 1>, hi = array<i64: 0>, inner = array<i64: 0>, value = 0.0 : f64,
        dist.strategy = #dist.strategy<"| partial 0(model)">} : (tensor<8xf32>) -> tensor<9xf32>
    %c = graph.reduce_sum %y {dims = array<i64: 1>, keepdims = false, dist.strategy = #dist.strategy<"d1=model">}
      : (tensor<8x6xf32>) -> tensor<8xf32>
    %d = graph.pad %c {lo = array<i64: 1>, hi = array<i64: 0>, inner = array<i64: 0>, value = 1.0 : f64,
        dist.strategy = #dist.strategy<"">} : (tensor<8xf32>) -> tensor<9xf32>
    return %b, %d : tensor<9xf32>, tensor<9xf32>
  }
}

// -----

// Operands of a concat are cut alike: the one that differs is moved.
module attributes {dist.mesh = #dist.mesh<"data=2">} {
  // CHECK-LABEL: func.func @concat
  func.func @concat(%x: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[data, -]">},
                    %y: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[-, data]">})
      -> (tensor<8x12xf32> {dist.sharding = #dist.sharding<"[data, -]">}) {
    // CHECK-NEXT: %[[Y:.*]] = dist.reshard %arg1 from <"[-, data]"> to <"[data, -]">
    // CHECK-NEXT: graph.concat %arg0, %[[Y]]
    %z = graph.concat %x, %y {dim = 1 : i64, dist.strategy = #dist.strategy<"d0=data">}
      : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x12xf32>
    return %z : tensor<8x12xf32>
  }
}
