// RUN: tessera-opt %s --split-input-file --verify-diagnostics=only-expected

// Pooling: windows and spatial dimensions.

func.func @maximum_rank(%x: tensor<2x4xf32>) {
  // expected-error @+1 {{pooling needs a batch, a channel and a spatial dimension}}
  %0 = graph.max_pool %x {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

func.func @mean_rank(%x: tensor<2x4xf32>) {
  // expected-error @+1 {{pooling needs a batch, a channel and a spatial dimension}}
  %0 = graph.avg_pool %x {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, include_pad = true} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return
}

// -----

func.func @kernel(%x: tensor<1x1x4x4xf32>) {
  // expected-error @+1 {{kernel, strides, dilations need one and pads two numbers per spatial dimension}}
  %0 = graph.max_pool %x {kernel = array<i64: 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x1x4x4xf32>) -> tensor<1x1x2x2xf32>
  return
}

// -----

func.func @empty(%x: tensor<1x1x4x4xf32>) {
  // expected-error @+1 {{kernel, strides and dilations must be positive}}
  %0 = graph.avg_pool %x {kernel = array<i64: 2, 0>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, include_pad = true} : (tensor<1x1x4x4xf32>) -> tensor<1x1x2x2xf32>
  return
}

// -----

func.func @large(%x: tensor<1x1x4x4xf32>) {
  // expected-error @+1 {{the window is larger than the padded input}}
  %0 = graph.max_pool %x {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 2, 1>} : (tensor<1x1x4x4xf32>) -> tensor<1x1x1x1xf32>
  return
}

// -----

func.func @gradient(%y: tensor<1x1x2x2xf32>) {
  // expected-error @+1 {{avg_pool_grad needs one input size per spatial dimension}}
  %0 = graph.avg_pool_grad %y {input_sizes = array<i64: 4>, kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, include_pad = true} : (tensor<1x1x2x2xf32>) -> tensor<1x1x4x4xf32>
  return
}
