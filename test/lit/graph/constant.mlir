// RUN: tessera-opt %s --split-input-file --verify-diagnostics | FileCheck %s

// The number that a splat was rounded from stays beside it.
// CHECK-LABEL: @rounded
func.func @rounded() -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK: graph.constant {exact = 1.000000e-01 : f64} dense<1.000000e-01> : tensor<4xf32>
  %tenth = graph.constant {exact = 0.1 : f64} dense<0.1> : tensor<4xf32>
  // CHECK: graph.constant dense<5.000000e-01> : tensor<4xf32>
  %half = graph.constant dense<0.5> : tensor<4xf32>
  return %tenth, %half : tensor<4xf32>, tensor<4xf32>
}

// -----

func.func @another_number() -> tensor<4xf32> {
  // expected-error @+1 {{'graph.constant' op has a value that is not what 'exact' rounds to in f32}}
  %0 = graph.constant {exact = 0.2 : f64} dense<0.1> : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @no_splat() -> tensor<2xf32> {
  // expected-error @+1 {{'graph.constant' op has 'exact', which only a splat of f32 can have}}
  %0 = graph.constant {exact = 0.1 : f64} dense<[0.1, 0.2]> : tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

func.func @double_already() -> tensor<4xf64> {
  // expected-error @+1 {{'graph.constant' op has 'exact', which only a splat of f32 can have}}
  %0 = graph.constant {exact = 0.1 : f64} dense<0.1> : tensor<4xf64>
  return %0 : tensor<4xf64>
}
