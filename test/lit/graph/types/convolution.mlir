// RUN: tessera-opt %s --split-input-file --verify-diagnostics=only-expected

// Convolutions and their adjoints: channels, groups and windows.

func.func @rank(%x: tensor<1x4x4xf32>, %w: tensor<2x1x3x3xf32>) {
  // expected-error @+1 {{conv needs x and w of the same rank, at least 3}}
  %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x4x4xf32>, tensor<2x1x3x3xf32>) -> tensor<1x2x2x2xf32>
  return
}

// -----

func.func @channels(%x: tensor<1x3x4x4xf32>, %w: tensor<2x1x3x3xf32>) {
  // expected-error @+1 {{channels 3 do not fit weights of 1 channels in 1 groups}}
  %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x3x4x4xf32>, tensor<2x1x3x3xf32>) -> tensor<1x2x2x2xf32>
  return
}

// -----

func.func @filters(%x: tensor<1x2x4x4xf32>, %w: tensor<3x1x3x3xf32>) {
  // expected-error @+1 {{channels 2 do not fit weights of 1 channels in 2 groups}}
  %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 2 : i64} : (tensor<1x2x4x4xf32>, tensor<3x1x3x3xf32>) -> tensor<1x3x2x2xf32>
  return
}

// -----

func.func @window(%x: tensor<1x1x2x4xf32>, %w: tensor<2x1x3x3xf32>) {
  // expected-error @+1 {{the window is larger than the padded input}}
  %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x1x2x4xf32>, tensor<2x1x3x3xf32>) -> tensor<1x2x1x2xf32>
  return
}

// -----

func.func @strides(%x: tensor<1x1x4x4xf32>, %w: tensor<2x1x3x3xf32>) {
  // expected-error @+1 {{kernel, strides, dilations need one and pads two numbers per spatial dimension}}
  %0 = graph.conv %x, %w {strides = array<i64: 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x1x4x4xf32>, tensor<2x1x3x3xf32>) -> tensor<1x2x2x2xf32>
  return
}

// -----

func.func @stride(%x: tensor<1x1x4x4xf32>, %w: tensor<2x1x3x3xf32>) {
  // expected-error @+1 {{kernel, strides and dilations must be positive}}
  %0 = graph.conv %x, %w {strides = array<i64: 1, 0>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x1x4x4xf32>, tensor<2x1x3x3xf32>) -> tensor<1x2x2x2xf32>
  return
}

// -----

func.func @input_sizes(%y: tensor<1x2x2x2xf32>, %w: tensor<2x1x3x3xf32>) {
  // expected-error @+1 {{conv_input_grad needs dy and w of the same rank and one input size per spatial dimension}}
  %0 = graph.conv_input_grad %y, %w {input_sizes = array<i64: 4>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x2x2x2xf32>, tensor<2x1x3x3xf32>) -> tensor<1x1x4x4xf32>
  return
}

// -----

func.func @input_channels(%y: tensor<1x3x2x2xf32>, %w: tensor<2x1x3x3xf32>) {
  // expected-error @+1 {{channels do not fit the weights}}
  %0 = graph.conv_input_grad %y, %w {input_sizes = array<i64: 4, 4>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x3x2x2xf32>, tensor<2x1x3x3xf32>) -> tensor<1x1x4x4xf32>
  return
}

// -----

func.func @kernel_sizes(%x: tensor<1x1x4x4xf32>, %y: tensor<1x2x2x2xf32>) {
  // expected-error @+1 {{conv_weight_grad needs x and dy of the same rank and one kernel size per spatial dimension}}
  %0 = graph.conv_weight_grad %x, %y {kernel_sizes = array<i64: 3>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x1x4x4xf32>, tensor<1x2x2x2xf32>) -> tensor<2x1x3x3xf32>
  return
}

// -----

func.func @samples(%x: tensor<2x1x4x4xf32>, %y: tensor<1x2x2x2xf32>) {
  // expected-error @+1 {{batch or channels do not fit}}
  %0 = graph.conv_weight_grad %x, %y {kernel_sizes = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x1x4x4xf32>, tensor<1x2x2x2xf32>) -> tensor<2x1x3x3xf32>
  return
}
