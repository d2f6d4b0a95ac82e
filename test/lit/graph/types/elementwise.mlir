// RUN: tessera-opt %s --split-input-file --verify-diagnostics=only-expected

// Operands of an elementwise operator have one element type and broadcast, and its result has their shape.

func.func @types(%a: tensor<4xf32>, %b: tensor<4xf64>) {
  // expected-error @+1 {{operands have different element types}}
  %0 = graph.add %a, %b : (tensor<4xf32>, tensor<4xf64>) -> tensor<4xf32>
  return
}

// -----

func.func @shapes(%a: tensor<4xf32>, %b: tensor<3xf32>) {
  // expected-error @+1 {{operand shapes do not broadcast}}
  %0 = graph.mul %a, %b : (tensor<4xf32>, tensor<3xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @result(%a: tensor<4xf32>, %b: tensor<1xf32>) {
  // expected-error @+1 {{inferred type(s) 'tensor<4xf32>' are incompatible with return type(s) of operation 'tensor<1xf32>'}}
  %0 = graph.sub %a, %b : (tensor<4xf32>, tensor<1xf32>) -> tensor<1xf32>
  return
}

// -----

func.func @comparison(%a: tensor<4xf32>, %b: tensor<4xi64>) {
  // expected-error @+1 {{operands have different element types}}
  %0 = graph.lt %a, %b : (tensor<4xf32>, tensor<4xi64>) -> tensor<4xi1>
  return
}

// -----

func.func @truth(%a: tensor<4xf32>, %b: tensor<4xf32>) {
  // expected-error @+1 {{inferred type(s) 'tensor<4xi1>' are incompatible}}
  %0 = graph.le %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @condition(%c: tensor<4xf32>, %a: tensor<4xf32>, %b: tensor<4xf32>) {
  // expected-error @+1 {{the condition of select must be i1}}
  %0 = graph.select %c, %a, %b : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @branches(%c: tensor<4xi1>, %a: tensor<4xf32>, %b: tensor<4xf64>) {
  // expected-error @+1 {{operands have different element types}}
  %0 = graph.select %c, %a, %b : (tensor<4xi1>, tensor<4xf32>, tensor<4xf64>) -> tensor<4xf32>
  return
}

// -----

func.func @branch_shapes(%c: tensor<4xi1>, %a: tensor<4xf32>, %b: tensor<3xf32>) {
  // expected-error @+1 {{operand shapes do not broadcast}}
  %0 = graph.select %c, %a, %b : (tensor<4xi1>, tensor<4xf32>, tensor<3xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @cast(%x: tensor<4xf32>) {
  // expected-error @+1 {{'graph.cast' op changes the shape}}
  %0 = graph.cast %x : (tensor<4xf32>) -> tensor<2x2xf64>
  return
}
