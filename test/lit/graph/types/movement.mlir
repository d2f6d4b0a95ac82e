// RUN: tessera-opt %s --split-input-file --verify-diagnostics=only-expected

// Operators that only move data: how the result's shape follows.

func.func @perm(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{perm is no permutation of the dimensions}}
  %0 = graph.transpose %x {perm = array<i64: 0, 0>} : (tensor<2x3xf32>) -> tensor<2x2xf32>
  return
}

// -----

func.func @perm_range(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{perm is no permutation of the dimensions}}
  %0 = graph.transpose %x {perm = array<i64: 0, 2>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @perm_rank(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{perm is no permutation of the dimensions}}
  %0 = graph.transpose %x {perm = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @slice_rank(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{starts, limits and strides need one number per dimension}}
  %0 = graph.slice %x {starts = array<i64: 0>, limits = array<i64: 1>, strides = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<1x3xf32>
  return
}

// -----

func.func @slice_limit(%x: tensor<4xf32>) {
  // expected-error @+1 {{slice of dimension 0 is out of bounds}}
  %0 = graph.slice %x {starts = array<i64: 0>, limits = array<i64: 5>, strides = array<i64: 1>} : (tensor<4xf32>) -> tensor<5xf32>
  return
}

// -----

func.func @slice_backwards(%x: tensor<2x4xf32>) {
  // expected-error @+1 {{slice of dimension 1 is out of bounds}}
  %0 = graph.slice %x {starts = array<i64: 0, 3>, limits = array<i64: 2, 2>, strides = array<i64: 1, 1>} : (tensor<2x4xf32>) -> tensor<2x1xf32>
  return
}

// -----

func.func @slice_stride(%x: tensor<4xf32>) {
  // expected-error @+1 {{slice of dimension 0 is out of bounds}}
  %0 = graph.slice %x {starts = array<i64: 0>, limits = array<i64: 4>, strides = array<i64: 0>} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @pad_rank(%x: tensor<4xf32>) {
  // expected-error @+1 {{lo, hi and inner need one number per dimension}}
  %0 = graph.pad %x {lo = array<i64: 1, 1>, hi = array<i64: 0>, inner = array<i64: 0>, value = 0.0 : f64} : (tensor<4xf32>) -> tensor<5xf32>
  return
}

// -----

func.func @pad_negative(%x: tensor<4xf32>) {
  // expected-error @+1 {{negative padding}}
  %0 = graph.pad %x {lo = array<i64: 1>, hi = array<i64: -1>, inner = array<i64: 0>, value = 0.0 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @concat_nothing() {
  // expected-error @+1 {{concat of nothing}}
  %0 = graph.concat {dim = 0 : i64} : () -> tensor<0xf32>
  return
}

// -----

func.func @concat_dim(%x: tensor<4xf32>) {
  // expected-error @+1 {{dim is out of range}}
  %0 = graph.concat %x {dim = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @concat_rank(%a: tensor<4xf32>, %b: tensor<4x1xf32>) {
  // expected-error @+1 {{operands differ in rank or element type}}
  %0 = graph.concat %a, %b {dim = 0 : i64} : (tensor<4xf32>, tensor<4x1xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @concat_extent(%a: tensor<4x2xf32>, %b: tensor<4x3xf32>) {
  // expected-error @+1 {{operands differ in dimension 1}}
  %0 = graph.concat %a, %b {dim = 0 : i64} : (tensor<4x2xf32>, tensor<4x3xf32>) -> tensor<8x2xf32>
  return
}

// -----

func.func @broadcast(%x: tensor<3xf32>) {
  // expected-error @+1 {{'graph.broadcast' op operand does not broadcast to the result}}
  %0 = graph.broadcast %x : (tensor<3xf32>) -> tensor<2x4xf32>
  return
}

// -----

func.func @broadcast_narrower(%x: tensor<2x4xf32>) {
  // expected-error @+1 {{'graph.broadcast' op operand does not broadcast to the result}}
  %0 = graph.broadcast %x : (tensor<2x4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @broadcast_type(%x: tensor<4xf32>) {
  // expected-error @+1 {{'graph.broadcast' op operand does not broadcast to the result}}
  %0 = graph.broadcast %x : (tensor<4xf32>) -> tensor<2x4xf64>
  return
}

// -----

func.func @reshape_count(%x: tensor<6xf32>) {
  // expected-error @+1 {{'graph.reshape' op changes the number or the type of elements}}
  %0 = graph.reshape %x : (tensor<6xf32>) -> tensor<2x4xf32>
  return
}

// -----

func.func @reshape_type(%x: tensor<6xf32>) {
  // expected-error @+1 {{'graph.reshape' op changes the number or the type of elements}}
  %0 = graph.reshape %x : (tensor<6xf32>) -> tensor<2x3xi32>
  return
}
