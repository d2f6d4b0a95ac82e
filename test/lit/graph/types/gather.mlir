// RUN: tessera-opt %s --split-input-file --verify-diagnostics=only-expected

// Gathers and their adjoints: axes, indices and common dimensions.

func.func @axis(%t: tensor<4x3xf32>, %i: tensor<2xi64>) {
  // expected-error @+1 {{axis is out of range}}
  %0 = graph.gather %t, %i {axis = 2 : i64} : (tensor<4x3xf32>, tensor<2xi64>) -> tensor<4x2xf32>
  return
}

// -----

func.func @indices(%t: tensor<4x3xf32>, %i: tensor<2xf32>) {
  // expected-error @+1 {{indices must be integers}}
  %0 = graph.gather %t, %i {axis = 0 : i64} : (tensor<4x3xf32>, tensor<2xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @batch(%t: tensor<4x3xf32>, %i: tensor<2x2xi64>) {
  // expected-error @+1 {{table and indices do not agree in 1 batch dimensions}}
  %0 = graph.gather %t, %i {axis = 1 : i64, batch_dims = 1 : i64} : (tensor<4x3xf32>, tensor<2x2xi64>) -> tensor<4x2xf32>
  return
}

// -----

func.func @batch_axis(%t: tensor<4x3xf32>, %i: tensor<4x2xi64>) {
  // expected-error @+1 {{table and indices do not agree in 1 batch dimensions}}
  %0 = graph.gather %t, %i {axis = 0 : i64, batch_dims = 1 : i64} : (tensor<4x3xf32>, tensor<4x2xi64>) -> tensor<4x2xf32>
  return
}

// -----

func.func @adjoint_axis(%i: tensor<2xi64>, %u: tensor<2x3xf32>) {
  // expected-error @+1 {{axis is out of range}}
  %0 = graph.scatter_add %i, %u {axis = 2 : i64, size = 4 : i64} : (tensor<2xi64>, tensor<2x3xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @adjoint_size(%i: tensor<2xi64>, %u: tensor<2x3xf32>) {
  // expected-error @+1 {{axis is out of range}}
  %0 = graph.scatter_add %i, %u {axis = 0 : i64, size = -4 : i64} : (tensor<2xi64>, tensor<2x3xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @adjoint_indices(%i: tensor<2xf32>, %u: tensor<2x3xf32>) {
  // expected-error @+1 {{indices must be integers}}
  %0 = graph.scatter_add %i, %u {axis = 0 : i64, size = 4 : i64} : (tensor<2xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @adjoint_updates(%i: tensor<2xi64>, %u: tensor<5x3xf32>) {
  // expected-error @+1 {{updates do not have the shape of the indices at axis 0}}
  %0 = graph.scatter_add %i, %u {axis = 0 : i64, size = 4 : i64} : (tensor<2xi64>, tensor<5x3xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @adjoint_batch(%i: tensor<2x2xi64>, %u: tensor<4x2xf32>) {
  // expected-error @+1 {{indices and updates do not agree in 1 batch dimensions}}
  %0 = graph.scatter_add %i, %u {axis = 1 : i64, size = 3 : i64, batch_dims = 1 : i64} : (tensor<2x2xi64>, tensor<4x2xf32>) -> tensor<4x3xf32>
  return
}
