// RUN: tessera-opt %s --split-input-file --verify-diagnostics=only-expected

// Products: ranks, inner extents and what comes before them.

func.func @vector(%a: tensor<3xf32>, %b: tensor<3x4xf32>) {
  // expected-error @+1 {{matmul needs operands of at least two dimensions}}
  %0 = graph.matmul %a, %b : (tensor<3xf32>, tensor<3x4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @types(%a: tensor<2x3xf32>, %b: tensor<3x4xf64>) {
  // expected-error @+1 {{operands have different element types}}
  %0 = graph.matmul %a, %b : (tensor<2x3xf32>, tensor<3x4xf64>) -> tensor<2x4xf32>
  return
}

// -----

func.func @inner(%a: tensor<2x3xf32>, %b: tensor<4x5xf32>) {
  // expected-error @+1 {{matmul of inner extents 3 and 4}}
  %0 = graph.matmul %a, %b : (tensor<2x3xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
  return
}

// -----

func.func @transposed(%a: tensor<2x3xf32>, %b: tensor<3x5xf32>) {
  // expected-error @+1 {{matmul of inner extents 3 and 5}}
  %0 = graph.matmul %a, %b {transpose_b = true} : (tensor<2x3xf32>, tensor<3x5xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @batch(%a: tensor<2x2x3xf32>, %b: tensor<3x3x4xf32>) {
  // expected-error @+1 {{batch dimensions do not broadcast}}
  %0 = graph.matmul %a, %b : (tensor<2x2x3xf32>, tensor<3x3x4xf32>) -> tensor<2x2x4xf32>
  return
}

// -----

func.func @wide(%a: tensor<2x3xf16>, %b: tensor<3x4xf16>) {
  // expected-error @+1 {{inferred type(s) 'tensor<2x4xf32>' are incompatible}}
  %0 = graph.matmul %a, %b {wide} : (tensor<2x3xf16>, tensor<3x4xf16>) -> tensor<2x4xf16>
  return
}
