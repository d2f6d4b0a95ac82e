// RUN: tessera-opt --dist-localize --dist-verify-local %s -split-input-file -verify-diagnostics | FileCheck %s

// Convolutions: what a rank needs of its neighbours.

// Stride 2, kernel 3, padding 1: output j reads rows 2j - 1 to 2j + 1. A block of 8 rows lacks the one above it.
module attributes {dist.mesh = #dist.mesh<"space=2">} {
  // CHECK-LABEL: func.func @stride
  func.func @stride(%x: tensor<1x2x16x8xf32> {dist.sharding = #dist.sharding<"[-, -, space, -]">},
                    %w: tensor<4x2x3x3xf32> {dist.sharding = #dist.sharding<"[-, -, -, -]">})
      -> (tensor<1x4x8x4xf32> {dist.sharding = #dist.sharding<"[-, -, space, -]">}) {
    // CHECK: %[[X:.*]] = dist.collective "halo" %arg0 {{.*}}dim = 2 : i64, {{.*}}halo_lo = 1 : i64} : (tensor<1x2x8x8xf32>) -> tensor<1x2x9x8xf32>
    // CHECK-NEXT: graph.conv %[[X]], %arg1 {{.*}}pads = array<i64: 0, 1, 0, 1>{{.*}} -> tensor<1x4x4x4xf32>
    %y = graph.conv %x, %w {strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64,
        dist.strategy = #dist.strategy<"h=space">}
      : (tensor<1x2x16x8xf32>, tensor<4x2x3x3xf32>) -> tensor<1x4x8x4xf32>
    return %y : tensor<1x4x8x4xf32>
  }
}

// -----

// Dilation 2 reaches two rows.
module attributes {dist.mesh = #dist.mesh<"space=2">} {
  // CHECK-LABEL: func.func @dilation
  func.func @dilation(%x: tensor<1x2x8x8xf32> {dist.sharding = #dist.sharding<"[-, -, space, -]">},
                      %w: tensor<4x2x3x3xf32> {dist.sharding = #dist.sharding<"[-, -, -, -]">})
      -> (tensor<1x4x8x8xf32> {dist.sharding = #dist.sharding<"[-, -, space, -]">}) {
    // CHECK: dist.collective "halo" %arg0 {{.*}}halo_hi = 2 : i64, halo_lo = 2 : i64} : (tensor<1x2x4x8xf32>) -> tensor<1x2x8x8xf32>
    %y = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 2, 2, 2, 2>, dilations = array<i64: 2, 2>, groups = 1 : i64,
        dist.strategy = #dist.strategy<"h=space">} : (tensor<1x2x8x8xf32>, tensor<4x2x3x3xf32>) -> tensor<1x4x8x8xf32>
    return %y : tensor<1x4x8x8xf32>
  }
}

// -----

// A kernel of one point needs nothing.
module attributes {dist.mesh = #dist.mesh<"space=2">} {
  // CHECK-LABEL: func.func @point
  func.func @point(%x: tensor<1x2x8x8xf32> {dist.sharding = #dist.sharding<"[-, -, space, -]">},
                   %w: tensor<4x2x1x1xf32> {dist.sharding = #dist.sharding<"[-, -, -, -]">})
      -> (tensor<1x4x8x8xf32> {dist.sharding = #dist.sharding<"[-, -, space, -]">}) {
    // CHECK-NEXT: %[[Y:.*]] = graph.conv %arg0, %arg1 {{.*}} -> tensor<1x4x4x8xf32>
    // CHECK-NEXT: return %[[Y]]
    %y = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64,
        dist.strategy = #dist.strategy<"h=space">} : (tensor<1x2x8x8xf32>, tensor<4x2x1x1xf32>) -> tensor<1x4x8x8xf32>
    return %y : tensor<1x4x8x8xf32>
  }
}

// -----

// Blocks of 2 rows cannot lend 3.
module attributes {dist.mesh = #dist.mesh<"space=4">} {
  func.func @too_narrow(%x: tensor<1x2x8x8xf32> {dist.sharding = #dist.sharding<"[-, -, space, -]">},
                        %w: tensor<4x2x7x7xf32> {dist.sharding = #dist.sharding<"[-, -, -, -]">})
      -> (tensor<1x4x8x8xf32> {dist.sharding = #dist.sharding<"[-, -, space, -]">}) {
    // expected-error @+1 {{operator 'wide': factor 'h' of extent 8 cannot be cut in 4 parts}}
    %y = graph.conv %x, %w {graph.name = "wide", strides = array<i64: 1, 1>, pads = array<i64: 3, 3, 3, 3>, dilations = array<i64: 1, 1>, groups = 1 : i64,
        dist.strategy = #dist.strategy<"h=space">} : (tensor<1x2x8x8xf32>, tensor<4x2x7x7xf32>) -> tensor<1x4x8x8xf32>
    return %y : tensor<1x4x8x8xf32>
  }
}

// -----

// Height and width cut: the rows come first, and the columns are fetched with them, corners included.
module attributes {dist.mesh = #dist.mesh<"h=2,w=2">} {
  // CHECK-LABEL: func.func @corners
  func.func @corners(%x: tensor<1x2x8x8xf32> {dist.sharding = #dist.sharding<"[-, -, h, w]">},
                     %w: tensor<4x2x3x3xf32> {dist.sharding = #dist.sharding<"[-, -, -, -]">})
      -> (tensor<1x4x8x8xf32> {dist.sharding = #dist.sharding<"[-, -, h, w]">}) {
    // CHECK-NEXT: %[[A:.*]] = dist.collective "halo" %arg0 {axes = ["h"], dim = 2 : i64{{.*}} : (tensor<1x2x4x4xf32>) -> tensor<1x2x6x4xf32>
    // CHECK-NEXT: %[[B:.*]] = dist.collective "halo" %[[A]] {axes = ["w"], dim = 3 : i64{{.*}} : (tensor<1x2x6x4xf32>) -> tensor<1x2x6x6xf32>
    // CHECK-NEXT: graph.conv %[[B]], %arg1 {{.*}}pads = array<i64: 0, 0, 0, 0>{{.*}} -> tensor<1x4x4x4xf32>
    %y = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64,
        dist.strategy = #dist.strategy<"h=h, w=w">}
      : (tensor<1x2x8x8xf32>, tensor<4x2x3x3xf32>) -> tensor<1x4x8x8xf32>
    return %y : tensor<1x4x8x8xf32>
  }
}

// -----

// Half of the groups.
module attributes {dist.mesh = #dist.mesh<"model=2">} {
  // CHECK-LABEL: func.func @groups
  func.func @groups(%x: tensor<1x8x4x4xf32> {dist.sharding = #dist.sharding<"[-, model, -, -]">},
                    %w: tensor<8x2x3x3xf32> {dist.sharding = #dist.sharding<"[model, -, -, -]">})
      -> (tensor<1x8x4x4xf32> {dist.sharding = #dist.sharding<"[-, model, -, -]">}) {
    // CHECK-NEXT: graph.conv %arg0, %arg1 {{.*}}groups = 2 : i64{{.*}} : (tensor<1x4x4x4xf32>, tensor<4x2x3x3xf32>) -> tensor<1x4x4x4xf32>
    %y = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 4 : i64,
        dist.strategy = #dist.strategy<"g=model">} : (tensor<1x8x4x4xf32>, tensor<8x2x3x3xf32>) -> tensor<1x8x4x4xf32>
    return %y : tensor<1x8x4x4xf32>
  }
}

// -----

// The kernel's gradient reads the same border and is a sum over the blocks.
module attributes {dist.mesh = #dist.mesh<"space=2">} {
  // CHECK-LABEL: func.func @weight_gradient
  func.func @weight_gradient(%x: tensor<1x2x8x8xf32> {dist.sharding = #dist.sharding<"[-, -, space, -]">},
                             %dy: tensor<1x4x8x8xf32> {dist.sharding = #dist.sharding<"[-, -, space, -]">})
      -> (tensor<4x2x3x3xf32> {dist.sharding = #dist.sharding<"[-, -, -, -]">}) {
    // CHECK: %[[X:.*]] = dist.collective "halo" %arg0 {{.*}}halo_hi = 1 : i64, halo_lo = 1 : i64}
    // CHECK-NEXT: %[[DW:.*]] = graph.conv_weight_grad %[[X]], %arg1 {{.*}}pads = array<i64: 0, 1, 0, 1>
    // CHECK-NEXT: dist.collective "all-reduce" %[[DW]] {axes = ["space"], reduction = "sum"} : (tensor<4x2x3x3xf32>)
    %dw = graph.conv_weight_grad %x, %dy {kernel_sizes = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64,
        dist.strategy = #dist.strategy<"h=space">} : (tensor<1x2x8x8xf32>, tensor<1x4x8x8xf32>) -> tensor<4x2x3x3xf32>
    %z = dist.reshard %dw from <"[-, -, -, -] sum(space)"> to <"[-, -, -, -]"> : tensor<4x2x3x3xf32>
    return %z : tensor<4x2x3x3xf32>
  }
}

// -----

// The input's gradient reads the border of dy. Its first row now lies one row before the block: one more of padding.
module attributes {dist.mesh = #dist.mesh<"space=2">} {
  // CHECK-LABEL: func.func @input_gradient
  func.func @input_gradient(%dy: tensor<1x4x8x8xf32> {dist.sharding = #dist.sharding<"[-, -, space, -]">},
                            %w: tensor<4x2x3x3xf32> {dist.sharding = #dist.sharding<"[-, -, -, -]">})
      -> (tensor<1x2x8x8xf32> {dist.sharding = #dist.sharding<"[-, -, space, -]">}) {
    // CHECK: %[[DY:.*]] = dist.collective "halo" %arg0 {{.*}}halo_hi = 1 : i64, halo_lo = 1 : i64} : (tensor<1x4x4x8xf32>) -> tensor<1x4x6x8xf32>
    // CHECK-NEXT: graph.conv_input_grad %[[DY]], %arg1 {{.*}}input_sizes = array<i64: 4, 8>, pads = array<i64: 2, 1, 2, 1>{{.*}} -> tensor<1x2x4x8xf32>
    %dx = graph.conv_input_grad %dy, %w {input_sizes = array<i64: 8, 8>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64,
        dist.strategy = #dist.strategy<"h=space">} : (tensor<1x4x8x8xf32>, tensor<4x2x3x3xf32>) -> tensor<1x2x8x8xf32>
    return %dx : tensor<1x2x8x8xf32>
  }
}
