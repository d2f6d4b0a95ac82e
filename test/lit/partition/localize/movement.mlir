// RUN: tessera-opt --dist-localize --dist-verify-local %s -split-input-file -verify-diagnostics | FileCheck %s

// Operators that move elements, in blocks.

// Dimensions that a slice leaves alone end where the block ends.
module attributes {dist.mesh = #dist.mesh<"data=2">} {
  // CHECK-LABEL: func.func @slice
  func.func @slice(%x: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[data, -]">})
      -> (tensor<8x3xf32> {dist.sharding = #dist.sharding<"[data, -]">}) {
    // CHECK-NEXT: graph.slice %arg0 {{{.*}}limits = array<i64: 4, 4>, starts = array<i64: 0, 1>, strides = array<i64: 1, 1>} : (tensor<4x6xf32>) -> tensor<4x3xf32>
    %y = graph.slice %x {starts = array<i64: 0, 1>, limits = array<i64: 8, 4>, strides = array<i64: 1, 1>,
        dist.strategy = #dist.strategy<"d0=data">} : (tensor<8x6xf32>) -> tensor<8x3xf32>
    return %y : tensor<8x3xf32>
  }
}

// -----

// A transposed block is the block of the transposed tensor.
module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  // CHECK-LABEL: func.func @transpose
  func.func @transpose(%x: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[data, model]">})
      -> (tensor<6x8xf32> {dist.sharding = #dist.sharding<"[model, data]">}) {
    // CHECK-NEXT: graph.transpose %arg0 {{{.*}}perm = array<i64: 1, 0>} : (tensor<4x3xf32>) -> tensor<3x4xf32>
    %y = graph.transpose %x {perm = array<i64: 1, 0>, dist.strategy = #dist.strategy<"d0=data, d1=model">}
      : (tensor<8x6xf32>) -> tensor<6x8xf32>
    return %y : tensor<6x8xf32>
  }
}

// -----

// A split into heads cuts the heads.
module attributes {dist.mesh = #dist.mesh<"model=2">} {
  // CHECK-LABEL: func.func @split
  func.func @split(%x: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[-, model]">})
      -> (tensor<8x2x3xf32> {dist.sharding = #dist.sharding<"[-, model, -]">}) {
    // CHECK-NEXT: graph.reshape %arg0 {{.*}}: (tensor<8x3xf32>) -> tensor<8x1x3xf32>
    %y = graph.reshape %x {dist.strategy = #dist.strategy<"r1=model">} : (tensor<8x6xf32>) -> tensor<8x2x3xf32>
    return %y : tensor<8x2x3xf32>
  }
}

// -----

// Padding is added to every block.
module attributes {dist.mesh = #dist.mesh<"data=2">} {
  // CHECK-LABEL: func.func @pad
  func.func @pad(%x: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[data, -]">})
      -> (tensor<8x9xf32> {dist.sharding = #dist.sharding<"[data, -]">}) {
    // CHECK-NEXT: graph.pad %arg0 {{{.*}}hi = array<i64: 0, 2>, inner = array<i64: 0, 0>, lo = array<i64: 0, 1>, value = 0.000000e+00 : f64} : (tensor<4x6xf32>) -> tensor<4x9xf32>
    %y = graph.pad %x {lo = array<i64: 0, 1>, hi = array<i64: 0, 2>, inner = array<i64: 0, 0>, value = 0.0 : f64,
        dist.strategy = #dist.strategy<"d0=data">} : (tensor<8x6xf32>) -> tensor<8x9xf32>
    return %y : tensor<8x9xf32>
  }
}

// -----

// A cut that moves to another dimension is an all-to-all; one that begins is a slice, which sends nothing.
module attributes {dist.mesh = #dist.mesh<"data=2">} {
  // CHECK-LABEL: func.func @reshards
  func.func @reshards(%x: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[data, -]">},
                      %y: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[-, -]">})
      -> (tensor<8x6xf32> {dist.sharding = #dist.sharding<"[-, data]">},
          tensor<8x6xf32> {dist.sharding = #dist.sharding<"[data, -]">}) {
    // CHECK-NEXT: dist.collective "all-to-all" %arg0 {axes = ["data"], dim = 0 : i64, split_dim = 1 : i64} : (tensor<4x6xf32>) -> tensor<8x3xf32>
    // CHECK-NEXT: dist.collective "slice" %arg1 {axes = ["data"], dim = 0 : i64} : (tensor<8x6xf32>) -> tensor<4x6xf32>
    // CHECK-NEXT: return
    %a = dist.reshard %x from <"[data, -]"> to <"[-, data]"> : tensor<8x6xf32>
    %b = dist.reshard %y from <"[-, -]"> to <"[data, -]"> : tensor<8x6xf32>
    return %a, %b : tensor<8x6xf32>, tensor<8x6xf32>
  }
}

// -----

// Blocks of a concat lie beside each other.
module attributes {dist.mesh = #dist.mesh<"data=2">} {
  // CHECK-LABEL: func.func @concat
  func.func @concat(%x: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[data, -]">},
                    %y: tensor<8x2xf32> {dist.sharding = #dist.sharding<"[data, -]">})
      -> (tensor<8x8xf32> {dist.sharding = #dist.sharding<"[data, -]">}) {
    // CHECK-NEXT: graph.concat %arg0, %arg1 {dim = 1 : i64, {{.*}} : (tensor<4x6xf32>, tensor<4x2xf32>) -> tensor<4x8xf32>
    %z = graph.concat %x, %y {dim = 1 : i64, dist.strategy = #dist.strategy<"d0=data">}
      : (tensor<8x6xf32>, tensor<8x2xf32>) -> tensor<8x8xf32>
    return %z : tensor<8x8xf32>
  }
}
