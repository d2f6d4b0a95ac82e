// RUN: tessera-opt %s --split-input-file --verify-diagnostics=only-expected

// What an operator without tensors makes.

func.func @iota() {
  // expected-error @+1 {{'graph.iota' op dim is out of range}}
  %0 = graph.iota {dim = 1 : i64} : () -> tensor<4xi64>
  return
}

// -----

func.func @step(%s: tensor<1xi64>) {
  // expected-error @+1 {{'graph.random' op needs the step as an i64 scalar}}
  %0 = graph.random %s {seed = 1 : i64, stream = 0 : i64} : (tensor<1xi64>) -> tensor<4xf32>
  return
}

// -----

func.func @step_type(%s: tensor<i32>) {
  // expected-error @+1 {{'graph.random' op needs the step as an i64 scalar}}
  %0 = graph.random %s {seed = 1 : i64, stream = 0 : i64} : (tensor<i32>) -> tensor<4xf32>
  return
}

// -----

func.func @numbers(%s: tensor<i64>) {
  // expected-error @+1 {{'graph.random' op makes floating-point numbers only}}
  %0 = graph.random %s {seed = 1 : i64, stream = 0 : i64} : (tensor<i64>) -> tensor<4xi64>
  return
}
