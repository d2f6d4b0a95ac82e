// RUN: tessera-opt --dist-insert-reshards --dist-verify-resharded %s -split-input-file -verify-diagnostics | FileCheck %s

// Convolutions and their gradients.

// One convolution is cut by channels out, and the next by channels in. Nothing moves between them, and the result is
// one partial sum.
module attributes {dist.mesh = #dist.mesh<"model=2">} {
  // CHECK-LABEL: func.func @channels
  func.func @channels(%x: tensor<2x4x8x8xf32> {dist.sharding = #dist.sharding<"[-, -, -, -]">},
                      %a: tensor<6x4x3x3xf32> {dist.sharding = #dist.sharding<"[model, -, -, -]">},
                      %b: tensor<4x6x3x3xf32> {dist.sharding = #dist.sharding<"[-, model, -, -]">})
      -> (tensor<2x4x8x8xf32> {dist.sharding = #dist.sharding<"[-, -, -, -]">}) {
    // CHECK-NEXT: %[[Y:.*]] = graph.conv %arg0, %arg1
    // CHECK-NEXT: %[[Z:.*]] = graph.conv %[[Y]], %arg2
    // CHECK-NEXT: dist.reshard %[[Z]] from <"[-, -, -, -] sum(model)"> to <"[-, -, -, -]">
    %y = graph.conv %x, %a {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64,
        dist.strategy = #dist.strategy<"f=model">} : (tensor<2x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<2x6x8x8xf32>
    %z = graph.conv %y, %b {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64,
        dist.strategy = #dist.strategy<"c=model">} : (tensor<2x6x8x8xf32>, tensor<4x6x3x3xf32>) -> tensor<2x4x8x8xf32>
    return %z : tensor<2x4x8x8xf32>
  }
}

// -----

// The border between blocks of space is no reshard: localisation fetches it.
module attributes {dist.mesh = #dist.mesh<"space=2">} {
  // CHECK-LABEL: func.func @space
  func.func @space(%x: tensor<2x4x8x8xf32> {dist.sharding = #dist.sharding<"[-, -, space, -]">},
                   %w: tensor<4x4x3x3xf32> {dist.sharding = #dist.sharding<"[-, -, -, -]">})
      -> (tensor<2x4x8x8xf32> {dist.sharding = #dist.sharding<"[-, -, space, -]">}) {
    // CHECK-NEXT: %[[Y:.*]] = graph.conv %arg0, %arg1
    // CHECK-NEXT: return %[[Y]]
    %y = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64,
        dist.strategy = #dist.strategy<"h=space">} : (tensor<2x4x8x8xf32>, tensor<4x4x3x3xf32>) -> tensor<2x4x8x8xf32>
    return %y : tensor<2x4x8x8xf32>
  }
}

// -----

// The kernel's gradient is summed over the batch and over space. It is reduced into the blocks of the update.
module attributes {dist.mesh = #dist.mesh<"data=2,space=2">} {
  // CHECK-LABEL: func.func @weight_gradient
  func.func @weight_gradient(%x: tensor<2x4x8x8xf32> {dist.sharding = #dist.sharding<"[data, -, space, -]">},
                             %dy: tensor<2x4x8x8xf32> {dist.sharding = #dist.sharding<"[data, -, space, -]">},
                             %w: tensor<4x4x3x3xf32> {dist.sharding = #dist.sharding<"[data, -, -, -]">})
      -> (tensor<4x4x3x3xf32> {dist.sharding = #dist.sharding<"[data, -, -, -]">}) {
    // CHECK-NEXT: %[[DW:.*]] = graph.conv_weight_grad %arg0, %arg1
    // CHECK-NEXT: %[[PAID:.*]] = dist.reshard %[[DW]] from <"[-, -, -, -] sum(data,space)"> to <"[data, -, -, -]">
    // CHECK-NEXT: graph.sub %arg2, %[[PAID]]
    %dw = graph.conv_weight_grad %x, %dy {kernel_sizes = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64,
        dist.strategy = #dist.strategy<"n=data, h=space">}
      : (tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>) -> tensor<4x4x3x3xf32>
    %n = graph.sub %w, %dw {dist.strategy = #dist.strategy<"b0=data">}
      : (tensor<4x4x3x3xf32>, tensor<4x4x3x3xf32>) -> tensor<4x4x3x3xf32>
    return %n : tensor<4x4x3x3xf32>
  }
}

// -----

// The input's gradient is summed over channels out.
module attributes {dist.mesh = #dist.mesh<"model=2">} {
  // CHECK-LABEL: func.func @input_gradient
  func.func @input_gradient(%dy: tensor<2x4x8x8xf32> {dist.sharding = #dist.sharding<"[-, model, -, -]">},
                            %w: tensor<4x6x3x3xf32> {dist.sharding = #dist.sharding<"[model, -, -, -]">})
      -> (tensor<2x6x8x8xf32> {dist.sharding = #dist.sharding<"[-, -, -, -]">}) {
    // CHECK-NEXT: %[[DX:.*]] = graph.conv_input_grad %arg0, %arg1
    // CHECK-NEXT: dist.reshard %[[DX]] from <"[-, -, -, -] sum(model)"> to <"[-, -, -, -]">
    %dx = graph.conv_input_grad %dy, %w {input_sizes = array<i64: 8, 8>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64,
        dist.strategy = #dist.strategy<"f=model">} : (tensor<2x4x8x8xf32>, tensor<4x6x3x3xf32>) -> tensor<2x6x8x8xf32>
    return %dx : tensor<2x6x8x8xf32>
  }
}

// -----

// Groups are cut on both sides alike: the result of a depthwise convolution is not partial.
module attributes {dist.mesh = #dist.mesh<"model=2">} {
  // CHECK-LABEL: func.func @groups
  func.func @groups(%x: tensor<2x4x8x8xf32> {dist.sharding = #dist.sharding<"[-, model, -, -]">},
                    %w: tensor<4x1x3x3xf32> {dist.sharding = #dist.sharding<"[model, -, -, -]">})
      -> (tensor<2x4x8x8xf32> {dist.sharding = #dist.sharding<"[-, model, -, -]">}) {
    // CHECK-NEXT: %[[Y:.*]] = graph.conv %arg0, %arg1
    // CHECK-NEXT: return %[[Y]]
    %y = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 4 : i64,
        dist.strategy = #dist.strategy<"g=model">} : (tensor<2x4x8x8xf32>, tensor<4x1x3x3xf32>) -> tensor<2x4x8x8xf32>
    return %y : tensor<2x4x8x8xf32>
  }
}
