// RUN: tessera-opt %s --split-input-file --verify-diagnostics=only-expected

// Attention: what its rows, heads and masks have in common.

func.func @rank(%q: tensor<8x2xf32>, %k: tensor<8x2xf32>, %v: tensor<8x2xf32>) {
  // expected-error @+1 {{attention needs q, k and v of one rank, at least 3}}
  %0 = graph.attention %q, %k, %v {scale = 0.5 : f64} : (tensor<8x2xf32>, tensor<8x2xf32>, tensor<8x2xf32>) -> tensor<8x2xf32>
  return
}

// -----

func.func @types(%q: tensor<2x4x8x2xf32>, %k: tensor<2x4x8x2xf64>, %v: tensor<2x4x8x2xf32>) {
  // expected-error @+1 {{attention needs q, k and v of one floating-point type}}
  %0 = graph.attention %q, %k, %v {scale = 0.5 : f64} : (tensor<2x4x8x2xf32>, tensor<2x4x8x2xf64>, tensor<2x4x8x2xf32>) -> tensor<2x4x8x2xf32>
  return
}

// -----

func.func @integers(%q: tensor<2x4x8x2xi32>, %k: tensor<2x4x8x2xi32>, %v: tensor<2x4x8x2xi32>) {
  // expected-error @+1 {{attention needs q, k and v of one floating-point type}}
  %0 = graph.attention %q, %k, %v {scale = 0.5 : f64} : (tensor<2x4x8x2xi32>, tensor<2x4x8x2xi32>, tensor<2x4x8x2xi32>) -> tensor<2x4x8x2xi32>
  return
}

// -----

func.func @batch(%q: tensor<2x4x8x2xf32>, %k: tensor<3x4x8x2xf32>, %v: tensor<3x4x8x2xf32>) {
  // expected-error @+1 {{attention needs q, k and v of the same batch}}
  %0 = graph.attention %q, %k, %v {scale = 0.5 : f64} : (tensor<2x4x8x2xf32>, tensor<3x4x8x2xf32>, tensor<3x4x8x2xf32>) -> tensor<2x4x8x2xf32>
  return
}

// -----

func.func @groups(%q: tensor<2x4x8x2xf32>, %k: tensor<2x3x8x2xf32>, %v: tensor<2x3x8x2xf32>) {
  // expected-error @+1 {{4 heads of q do not fit 3 of k and 3 of v}}
  %0 = graph.attention %q, %k, %v {scale = 0.5 : f64} : (tensor<2x4x8x2xf32>, tensor<2x3x8x2xf32>, tensor<2x3x8x2xf32>) -> tensor<2x4x8x2xf32>
  return
}

// -----

func.func @value_heads(%q: tensor<2x4x8x2xf32>, %k: tensor<2x2x8x2xf32>, %v: tensor<2x4x8x2xf32>) {
  // expected-error @+1 {{4 heads of q do not fit 2 of k and 4 of v}}
  %0 = graph.attention %q, %k, %v {scale = 0.5 : f64} : (tensor<2x4x8x2xf32>, tensor<2x2x8x2xf32>, tensor<2x4x8x2xf32>) -> tensor<2x4x8x2xf32>
  return
}

// -----

func.func @depth(%q: tensor<2x4x8x2xf32>, %k: tensor<2x4x8x3xf32>, %v: tensor<2x4x8x2xf32>) {
  // expected-error @+1 {{rows of q and k differ in length}}
  %0 = graph.attention %q, %k, %v {scale = 0.5 : f64} : (tensor<2x4x8x2xf32>, tensor<2x4x8x3xf32>, tensor<2x4x8x2xf32>) -> tensor<2x4x8x2xf32>
  return
}

// -----

func.func @keys(%q: tensor<2x4x8x2xf32>, %k: tensor<2x4x6x2xf32>, %v: tensor<2x4x8x2xf32>) {
  // expected-error @+1 {{k and v differ in length}}
  %0 = graph.attention %q, %k, %v {scale = 0.5 : f64} : (tensor<2x4x8x2xf32>, tensor<2x4x6x2xf32>, tensor<2x4x8x2xf32>) -> tensor<2x4x8x2xf32>
  return
}

// -----

func.func @keys_of_rows_first(%q: tensor<2x8x4x2xf32>, %k: tensor<2x6x4x2xf32>, %v: tensor<2x8x4x2xf32>) {
  // expected-error @+1 {{k and v differ in length}}
  %0 = graph.attention %q, %k, %v {scale = 0.5 : f64, rows_first = true} : (tensor<2x8x4x2xf32>, tensor<2x6x4x2xf32>, tensor<2x8x4x2xf32>) -> tensor<2x8x4x2xf32>
  return
}

// -----

func.func @bias(%q: tensor<2x4x8x2xf32>, %k: tensor<2x4x8x2xf32>, %v: tensor<2x4x8x2xf32>, %b: tensor<3x8x8xf32>) {
  // expected-error @+1 {{the bias of attention does not broadcast to its scores}}
  %0 = graph.attention %q, %k, %v, %b {scale = 0.5 : f64} : (tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>, tensor<3x8x8xf32>) -> tensor<2x4x8x2xf32>
  return
}

// -----

func.func @bias_type(%q: tensor<2x4x8x2xf32>, %k: tensor<2x4x8x2xf32>, %v: tensor<2x4x8x2xf32>, %b: tensor<8x8xf64>) {
  // expected-error @+1 {{the bias of attention does not broadcast to its scores}}
  %0 = graph.attention %q, %k, %v, %b {scale = 0.5 : f64} : (tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>, tensor<8x8xf64>) -> tensor<2x4x8x2xf32>
  return
}

// -----

func.func @gradient(%y: tensor<2x4x8x3xf32>, %q: tensor<2x4x8x2xf32>, %k: tensor<2x4x8x2xf32>, %v: tensor<2x4x8x2xf32>) {
  // expected-error @+1 {{dy is not what attention makes of q, k and v}}
  %0:3 = graph.attention_grad %y, %q, %k, %v {scale = 0.5 : f64} : (tensor<2x4x8x3xf32>, tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>) -> (tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>)
  return
}

// -----

func.func @gradient_keys(%y: tensor<2x4x8x2xf32>, %q: tensor<2x4x8x2xf32>, %k: tensor<2x4x6x2xf32>, %v: tensor<2x4x8x2xf32>) {
  // expected-error @+1 {{k and v differ in length}}
  %0:3 = graph.attention_grad %y, %q, %k, %v {scale = 0.5 : f64} : (tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>, tensor<2x4x6x2xf32>, tensor<2x4x8x2xf32>) -> (tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>)
  return
}
