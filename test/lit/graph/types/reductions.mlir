// RUN: tessera-opt %s --split-input-file --verify-diagnostics=only-expected

// Reductions and selections of the largest.

func.func @dims(%x: tensor<4x3xf32>) {
  // expected-error @+1 {{dims are out of range or repeated}}
  %0 = graph.reduce_sum %x {dims = array<i64: 2>, keepdims = false} : (tensor<4x3xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @dims_twice(%x: tensor<4x3xf32>) {
  // expected-error @+1 {{dims are out of range or repeated}}
  %0 = graph.reduce_max %x {dims = array<i64: 1, 1>, keepdims = false} : (tensor<4x3xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @kept(%x: tensor<4x3xf32>) {
  // expected-error @+1 {{inferred type(s) 'tensor<4x1xf32>' are incompatible}}
  %0 = graph.reduce_min %x {dims = array<i64: 1>, keepdims = true} : (tensor<4x3xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @argmax(%x: tensor<4x3xf32>) {
  // expected-error @+1 {{dims are out of range or repeated}}
  %0 = graph.argmax %x {dim = 2 : i64, keepdims = false} : (tensor<4x3xf32>) -> tensor<4x3xi64>
  return
}

// -----

func.func @too_many(%x: tensor<4x3xf32>) {
  // expected-error @+1 {{k = 4 is not within dimension 1}}
  %0 = graph.topk %x {k = 4 : i64, dim = 1 : i64, smallest = false} : (tensor<4x3xf32>) -> tensor<4x4xi64>
  return
}

// -----

func.func @none(%x: tensor<4x3xf32>) {
  // expected-error @+1 {{k = 0 is not within dimension 1}}
  %0 = graph.topk %x {k = 0 : i64, dim = 1 : i64, smallest = false} : (tensor<4x3xf32>) -> tensor<4x0xi64>
  return
}

// -----

func.func @no_dimension(%x: tensor<4x3xf32>) {
  // expected-error @+1 {{k = 1 is not within dimension 2}}
  %0 = graph.topk %x {k = 1 : i64, dim = 2 : i64, smallest = false} : (tensor<4x3xf32>) -> tensor<4x1xi64>
  return
}
