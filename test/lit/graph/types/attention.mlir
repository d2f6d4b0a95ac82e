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

func.func @gradient(%y: tensor<2x4x8x3xf32>, %q: tensor<2x4x8x2xf32>, %k: tensor<2x4x8x2xf32>, %v: tensor<2x4x8x2xf32>, %s: tensor<2x4x8xf32>) {
  // expected-error @+1 {{dy or y is not what attention makes of q, k and v}}
  %0:3 = graph.attention_grad %y, %q, %k, %v, %q, %s {scale = 0.5 : f64} : (tensor<2x4x8x3xf32>, tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>, tensor<2x4x8xf32>) -> (tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>)
  return
}

// -----

func.func @gradient_y(%y: tensor<2x4x8x3xf32>, %q: tensor<2x4x8x2xf32>, %k: tensor<2x4x8x2xf32>, %v: tensor<2x4x8x2xf32>, %s: tensor<2x4x8xf32>) {
  // expected-error @+1 {{dy or y is not what attention makes of q, k and v}}
  %0:3 = graph.attention_grad %q, %q, %k, %v, %y, %s {scale = 0.5 : f64} : (tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>, tensor<2x4x8x3xf32>, tensor<2x4x8xf32>) -> (tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>)
  return
}

// -----

// Statistics have heads before rows, whatever stands first elsewhere, and 32 bits beside operands of 16.
func.func @gradient_statistics(%q: tensor<2x8x4x2xf16>, %s: tensor<2x8x4xf32>) {
  // expected-error @+1 {{the statistics are not those of the rows of q}}
  %0:3 = graph.attention_grad %q, %q, %q, %q, %q, %s {scale = 0.5 : f64, rows_first = true} : (tensor<2x8x4x2xf16>, tensor<2x8x4x2xf16>, tensor<2x8x4x2xf16>, tensor<2x8x4x2xf16>, tensor<2x8x4x2xf16>, tensor<2x8x4xf32>) -> (tensor<2x8x4x2xf16>, tensor<2x8x4x2xf16>, tensor<2x8x4x2xf16>)
  return
}

// -----

func.func @statistics_type(%q: tensor<2x4x8x2xf16>) {
  // expected-error @+1 {{'graph.attention' op inferred type(s) 'tensor<2x4x8x2xf16>', 'tensor<2x4x8xf32>' are incompatible}}
  %0:2 = graph.attention %q, %q, %q {scale = 0.5 : f64, keeps_statistics} : (tensor<2x4x8x2xf16>, tensor<2x4x8x2xf16>, tensor<2x4x8x2xf16>) -> (tensor<2x4x8x2xf16>, tensor<2x4x8xf16>)
  return
}

// -----

func.func @gradient_keys(%y: tensor<2x4x8x2xf32>, %q: tensor<2x4x8x2xf32>, %k: tensor<2x4x6x2xf32>, %v: tensor<2x4x8x2xf32>, %s: tensor<2x4x8xf32>) {
  // expected-error @+1 {{k and v differ in length}}
  %0:3 = graph.attention_grad %y, %q, %k, %v, %y, %s {scale = 0.5 : f64} : (tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>, tensor<2x4x6x2xf32>, tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>, tensor<2x4x8xf32>) -> (tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>)
  return
}

// -----

func.func @keep(%q: tensor<2x4x8x2xf32>) {
  // expected-error @+1 {{attention with keep_scale has no operand that says what is kept}}
  %0 = graph.attention %q, %q, %q {scale = 0.5 : f64, keep_scale = 2.0 : f64} : (tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>) -> tensor<2x4x8x2xf32>
  return
}

// -----

func.func @keep_shape(%q: tensor<2x4x8x2xf32>, %keep: tensor<2x1x8x8xi1>) {
  // expected-error @+1 {{what dropout keeps is not one i1, or number of q's type, for each score}}
  %0 = graph.attention %q, %q, %q, %keep {scale = 0.5 : f64, keep_scale = 2.0 : f64} : (tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>, tensor<2x1x8x8xi1>) -> tensor<2x4x8x2xf32>
  return
}

// -----

func.func @keep_type(%q: tensor<2x4x8x2xf32>, %keep: tensor<2x4x8x8xbf16>) {
  // expected-error @+1 {{what dropout keeps is not one i1, or number of q's type, for each score}}
  %0 = graph.attention %q, %q, %q, %keep {scale = 0.5 : f64, keep_scale = 2.0 : f64} : (tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>, tensor<2x4x8x8xbf16>) -> tensor<2x4x8x2xf32>
  return
}

// -----

func.func @biases(%q: tensor<2x4x8x2xf32>, %b: tensor<8xf32>) {
  // expected-error @+1 {{attention has one bias at most}}
  %0 = graph.attention %q, %q, %q, %b, %b {scale = 0.5 : f64} : (tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x4x8x2xf32>
  return
}

// -----

// With a bias and without, rows first or heads: what is kept lies like the scores.
func.func @kept(%q: tensor<2x8x4x2xf32>, %b: tensor<8xf32>, %keep: tensor<2x4x8x8xi1>, %one: tensor<2x4x8x8xf32>, %s: tensor<2x4x8xf32>) {
  %0 = graph.attention %q, %q, %q, %b, %keep {rows_first = true, scale = 0.5 : f64, keep_scale = 2.0 : f64} : (tensor<2x8x4x2xf32>, tensor<2x8x4x2xf32>, tensor<2x8x4x2xf32>, tensor<8xf32>, tensor<2x4x8x8xi1>) -> tensor<2x8x4x2xf32>
  %1 = graph.attention %q, %q, %q, %one {rows_first = true, scale = 0.5 : f64, keep_scale = 2.0 : f64} : (tensor<2x8x4x2xf32>, tensor<2x8x4x2xf32>, tensor<2x8x4x2xf32>, tensor<2x4x8x8xf32>) -> tensor<2x8x4x2xf32>
  %2:3 = graph.attention_grad %0, %q, %q, %q, %0, %s, %b, %keep {rows_first = true, scale = 0.5 : f64, keep_scale = 2.0 : f64} : (tensor<2x8x4x2xf32>, tensor<2x8x4x2xf32>, tensor<2x8x4x2xf32>, tensor<2x8x4x2xf32>, tensor<2x8x4x2xf32>, tensor<2x4x8xf32>, tensor<8xf32>, tensor<2x4x8x8xi1>) -> (tensor<2x8x4x2xf32>, tensor<2x8x4x2xf32>, tensor<2x8x4x2xf32>)
  return
}
