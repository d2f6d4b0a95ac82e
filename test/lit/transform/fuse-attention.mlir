// RUN: tessera-opt --graph-fuse-attention --split-input-file %s | FileCheck %s

// An encoder's: heads behind rows before, a division, an additive mask. Transpositions go, the result keeps its name.
// CHECK-LABEL: func.func @forward(
// CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<2x5x4x8xf32>, %[[K:[a-z0-9]+]]: tensor<2x7x4x8xf32>, %[[V:[a-z0-9]+]]: tensor<2x7x4x6xf32>, %[[MASK:[a-z0-9]+]]
// CHECK-NEXT: %[[Y:.*]] = graph.attention %[[Q]], %[[K]], %[[V]], %[[MASK]] {graph.name = "mix", rows_first = true, scale = 1.250000e-01 : f64}
// CHECK-SAME: -> tensor<2x5x4x6xf32>
// CHECK-NEXT: return %[[Y]]
func.func @forward(%q: tensor<2x5x4x8xf32>, %k: tensor<2x7x4x8xf32>, %v: tensor<2x7x4x6xf32>, %mask: tensor<2x1x1x7xf32> {graph.role = "input"}) -> tensor<2x5x4x6xf32> {
  %qh = graph.transpose %q {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x5x4x8xf32>) -> tensor<2x4x5x8xf32>
  %kt = graph.transpose %k {perm = array<i64: 0, 2, 3, 1>} : (tensor<2x7x4x8xf32>) -> tensor<2x4x8x7xf32>
  %vh = graph.transpose %v {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x7x4x6xf32>) -> tensor<2x4x7x6xf32>
  %c = graph.constant dense<8.0> : tensor<f32>
  %s = graph.matmul %qh, %kt {graph.name = "scores"} : (tensor<2x4x5x8xf32>, tensor<2x4x8x7xf32>) -> tensor<2x4x5x7xf32>
  %t = graph.div %s, %c : (tensor<2x4x5x7xf32>, tensor<f32>) -> tensor<2x4x5x7xf32>
  %m = graph.add %t, %mask : (tensor<2x4x5x7xf32>, tensor<2x1x1x7xf32>) -> tensor<2x4x5x7xf32>
  %p = graph.softmax %m {dim = 3 : i64} : (tensor<2x4x5x7xf32>) -> tensor<2x4x5x7xf32>
  %y = graph.matmul %p, %vh {graph.name = "mix"} : (tensor<2x4x5x7xf32>, tensor<2x4x7x6xf32>) -> tensor<2x4x5x6xf32>
  %r = graph.transpose %y {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x4x5x6xf32>) -> tensor<2x5x4x6xf32>
  return %r : tensor<2x5x4x6xf32>
}

// -----

// A decoder's: a constant triangle chooses the scores, a mask is added behind; q is scaled before. The result is read as it is.
// CHECK-LABEL: func.func @forward
// CHECK: %[[B:.*]] = graph.add %arg3, %arg4 {graph.name = "mix/bias"}
// CHECK: graph.attention %arg0, %arg1, %arg2, %[[B]] {causal = true, graph.name = "mix", outside = -1.000000e+04 : f64, scale = 5.000000e-01 : f64, start = 1 : i64}
func.func @forward(%q: tensor<2x2x4xf32>, %k: tensor<2x3x4xf32>, %v: tensor<2x3x4xf32>, %one: tensor<2x1x3xf32>, %two: tensor<3xf32>) -> tensor<2x2x4xf32> {
  %half = graph.constant dense<0.5> : tensor<f32>
  %far = graph.constant dense<-10000.0> : tensor<f32>
  %triangle = graph.constant dense<[[[true, true, false], [true, true, true]]]> : tensor<1x2x3xi1>
  %scaled = graph.mul %half, %q : (tensor<f32>, tensor<2x2x4xf32>) -> tensor<2x2x4xf32>
  %s = graph.matmul %scaled, %k {transpose_b = true} : (tensor<2x2x4xf32>, tensor<2x3x4xf32>) -> tensor<2x2x3xf32>
  %c = graph.select %triangle, %s, %far : (tensor<1x2x3xi1>, tensor<2x2x3xf32>, tensor<f32>) -> tensor<2x2x3xf32>
  %m = graph.add %two, %c : (tensor<3xf32>, tensor<2x2x3xf32>) -> tensor<2x2x3xf32>
  %n = graph.add %one, %m : (tensor<2x1x3xf32>, tensor<2x2x3xf32>) -> tensor<2x2x3xf32>
  %p = graph.softmax %n {dim = 2 : i64} : (tensor<2x2x3xf32>) -> tensor<2x2x3xf32>
  %y = graph.matmul %p, %v {graph.name = "mix"} : (tensor<2x2x3xf32>, tensor<2x3x4xf32>) -> tensor<2x2x4xf32>
  return %y : tensor<2x2x4xf32>
}

// -----

// The other polarity of the triangle; -infinity where something else masks; grouped queries without copies of k and v;
// heads first, since k is.
// CHECK-LABEL: func.func @forward
// CHECK: %[[Q:.*]] = graph.transpose %arg0
// CHECK: %[[ZERO:.*]] = graph.constant dense<0.000000e+00>
// CHECK: %[[NONE:.*]] = graph.constant dense<0xFF800000>
// CHECK: %[[B:.*]] = graph.select %arg3, %[[NONE]], %[[ZERO]] {graph.name = "mix/bias"}
// CHECK: %[[Y:.*]] = graph.attention %[[Q]], %arg1, %arg2, %[[B]] {causal = true, graph.name = "mix", outside = -1.000000e+09 : f64, scale = 1.000000e+00 : f64} : (tensor<2x4x3x8xf32>, tensor<2x2x3x8xf32>, tensor<2x2x3x8xf32>, tensor<2x1x1x3xf32>) -> tensor<2x4x3x8xf32>
// CHECK: graph.transpose %[[Y]]
func.func @forward(%q: tensor<2x3x4x8xf32>, %k: tensor<2x2x3x8xf32>, %v: tensor<2x2x3x8xf32>, %mask: tensor<2x1x1x3xi1>) -> tensor<2x3x4x8xf32> {
  %qh = graph.transpose %q {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x3x4x8xf32>) -> tensor<2x4x3x8xf32>
  %k0 = graph.reshape %k : (tensor<2x2x3x8xf32>) -> tensor<2x2x1x3x8xf32>
  %k1 = graph.broadcast %k0 : (tensor<2x2x1x3x8xf32>) -> tensor<2x2x2x3x8xf32>
  %k2 = graph.reshape %k1 : (tensor<2x2x2x3x8xf32>) -> tensor<2x4x3x8xf32>
  %v0 = graph.reshape %v : (tensor<2x2x3x8xf32>) -> tensor<2x2x1x3x8xf32>
  %v1 = graph.broadcast %v0 : (tensor<2x2x1x3x8xf32>) -> tensor<2x2x2x3x8xf32>
  %v2 = graph.reshape %v1 : (tensor<2x2x2x3x8xf32>) -> tensor<2x4x3x8xf32>
  %kt = graph.transpose %k2 {perm = array<i64: 0, 1, 3, 2>} : (tensor<2x4x3x8xf32>) -> tensor<2x4x8x3xf32>
  %triangle = graph.constant dense<[[false, true, true], [false, false, true], [false, false, false]]> : tensor<3x3xi1>
  %far = graph.constant dense<-1.0e+09> : tensor<f32>
  %none = graph.constant dense<0xFF800000> : tensor<f32>
  %s = graph.matmul %qh, %kt : (tensor<2x4x3x8xf32>, tensor<2x4x8x3xf32>) -> tensor<2x4x3x3xf32>
  %c = graph.select %triangle, %far, %s : (tensor<3x3xi1>, tensor<f32>, tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %m = graph.select %mask, %none, %c : (tensor<2x1x1x3xi1>, tensor<f32>, tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %p = graph.softmax %m {dim = 3 : i64} : (tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %y = graph.matmul %p, %v2 {graph.name = "mix"} : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  %r = graph.transpose %y {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x4x3x8xf32>) -> tensor<2x3x4x8xf32>
  return %r : tensor<2x3x4x8xf32>
}

// -----

// Heads of queries, keys and values side by side in one tensor, which is transposed as a whole and then sliced: the
// slices are of the tensor as it was.
// CHECK-LABEL: func.func @forward
// CHECK: %[[Q:.*]] = graph.slice %arg0 {graph.name = "mix/operand", limits = array<i64: 2, 5, 4, 8>, starts = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1, 1, 1>}
// CHECK: %[[K:.*]] = graph.slice %arg0 {graph.name = "mix/operand.1", limits = array<i64: 2, 5, 4, 16>, starts = array<i64: 0, 0, 0, 8>,
// CHECK: %[[V:.*]] = graph.slice %arg0 {graph.name = "mix/operand.2", limits = array<i64: 2, 5, 4, 24>, starts = array<i64: 0, 0, 0, 16>,
// CHECK-NEXT: %[[Y:.*]] = graph.attention %[[Q]], %[[K]], %[[V]] {graph.name = "mix", rows_first = true, scale = 1.000000e+00 : f64}
// CHECK-NEXT: return %[[Y]]
func.func @forward(%qkv: tensor<2x5x4x24xf32>) -> tensor<2x5x4x8xf32> {
  %h = graph.transpose %qkv {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x5x4x24xf32>) -> tensor<2x4x5x24xf32>
  %q = graph.slice %h {starts = array<i64: 0, 0, 0, 0>, limits = array<i64: 2, 4, 5, 8>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x4x5x24xf32>) -> tensor<2x4x5x8xf32>
  %k = graph.slice %h {starts = array<i64: 0, 0, 0, 8>, limits = array<i64: 2, 4, 5, 16>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x4x5x24xf32>) -> tensor<2x4x5x8xf32>
  %v = graph.slice %h {starts = array<i64: 0, 0, 0, 16>, limits = array<i64: 2, 4, 5, 24>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x4x5x24xf32>) -> tensor<2x4x5x8xf32>
  %kt = graph.transpose %k {perm = array<i64: 0, 1, 3, 2>} : (tensor<2x4x5x8xf32>) -> tensor<2x4x8x5xf32>
  %s = graph.matmul %q, %kt : (tensor<2x4x5x8xf32>, tensor<2x4x8x5xf32>) -> tensor<2x4x5x5xf32>
  %p = graph.softmax %s {dim = 3 : i64} : (tensor<2x4x5x5xf32>) -> tensor<2x4x5x5xf32>
  %y = graph.matmul %p, %v {graph.name = "mix"} : (tensor<2x4x5x5xf32>, tensor<2x4x5x8xf32>) -> tensor<2x4x5x8xf32>
  %r = graph.transpose %y {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x4x5x8xf32>) -> tensor<2x5x4x8xf32>
  return %r : tensor<2x5x4x8xf32>
}

// -----

// Values have their heads first: the others keep their slices of the transposed tensor.
// CHECK-LABEL: func.func @forward
// CHECK: %[[H:.*]] = graph.transpose %arg0
// CHECK: %[[Q:.*]] = graph.slice %[[H]]
// CHECK: %[[K:.*]] = graph.slice %[[H]]
// CHECK-NOT: graph.slice
// CHECK: graph.attention %[[Q]], %[[K]], %arg1 {graph.name = "mix", scale = 1.000000e+00 : f64}
func.func @forward(%qk: tensor<2x5x4x16xf32>, %v: tensor<2x4x5x8xf32>) -> tensor<2x4x5x8xf32> {
  %h = graph.transpose %qk {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x5x4x16xf32>) -> tensor<2x4x5x16xf32>
  %q = graph.slice %h {starts = array<i64: 0, 0, 0, 0>, limits = array<i64: 2, 4, 5, 8>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x4x5x16xf32>) -> tensor<2x4x5x8xf32>
  %k = graph.slice %h {starts = array<i64: 0, 0, 0, 8>, limits = array<i64: 2, 4, 5, 16>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x4x5x16xf32>) -> tensor<2x4x5x8xf32>
  %s = graph.matmul %q, %k {transpose_b = true} : (tensor<2x4x5x8xf32>, tensor<2x4x5x8xf32>) -> tensor<2x4x5x5xf32>
  %p = graph.softmax %s {dim = 3 : i64} : (tensor<2x4x5x5xf32>) -> tensor<2x4x5x5xf32>
  %y = graph.matmul %p, %v {graph.name = "mix"} : (tensor<2x4x5x5xf32>, tensor<2x4x5x8xf32>) -> tensor<2x4x5x8xf32>
  return %y : tensor<2x4x5x8xf32>
}

// -----

// Dropout of the probabilities, as an exporter's Dropout is imported.
// CHECK-LABEL: func.func @forward
// CHECK: %[[R:.*]] = graph.random
// CHECK: %[[DROP:.*]] = graph.lt %[[R]]
// CHECK-NEXT: %[[KEEP:.*]] = graph.not %[[DROP]] {graph.name = "mix/keep"}
// CHECK-NEXT: graph.attention %arg0, %arg0, %arg0, %arg2, %[[KEEP]] {graph.name = "mix", keep_scale = 1.250000e+00 : f64, scale = 1.000000e+00 : f64}
// CHECK-SAME: (tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<3xf32>, tensor<2x3x3xi1>) -> tensor<2x3x4xf32>
// CHECK-NEXT: return
func.func @forward(%q: tensor<2x3x4xf32>, %step: tensor<i64>, %bias: tensor<3xf32>) -> tensor<2x3x4xf32> {
  %ratio = graph.constant dense<0.2> : tensor<f32>
  %zero = graph.constant dense<0.0> : tensor<f32>
  %more = graph.constant dense<1.25> : tensor<f32>
  %s = graph.matmul %q, %q {transpose_b = true} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x3xf32>
  %m = graph.add %s, %bias : (tensor<2x3x3xf32>, tensor<3xf32>) -> tensor<2x3x3xf32>
  %p = graph.softmax %m {dim = 2 : i64} : (tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
  %r = graph.random %step {seed = 1 : i64, stream = 2 : i64} : (tensor<i64>) -> tensor<2x3x3xf32>
  %drop = graph.lt %r, %ratio : (tensor<2x3x3xf32>, tensor<f32>) -> tensor<2x3x3xi1>
  %f = graph.select %drop, %zero, %more : (tensor<2x3x3xi1>, tensor<f32>, tensor<f32>) -> tensor<2x3x3xf32>
  %d = graph.mul %p, %f : (tensor<2x3x3xf32>, tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
  %y = graph.matmul %d, %q {graph.name = "mix"} : (tensor<2x3x3xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  return %y : tensor<2x3x4xf32>
}

// -----

// The condition says what is kept, and the factor stands first.
// CHECK-LABEL: func.func @forward
// CHECK: graph.attention %arg0, %arg0, %arg0, %arg1 {keep_scale = 2.000000e+00 : f64, scale = 1.000000e+00 : f64}
func.func @forward(%q: tensor<2x3x4xf32>, %keep: tensor<2x3x3xi1>) -> tensor<2x3x4xf32> {
  %zero = graph.constant dense<0.0> : tensor<f32>
  %two = graph.constant dense<2.0> : tensor<f32>
  %s = graph.matmul %q, %q {transpose_b = true} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x3xf32>
  %p = graph.softmax %s {dim = 2 : i64} : (tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
  %f = graph.select %keep, %two, %zero : (tensor<2x3x3xi1>, tensor<f32>, tensor<f32>) -> tensor<2x3x3xf32>
  %d = graph.mul %f, %p : (tensor<2x3x3xf32>, tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
  %y = graph.matmul %d, %q : (tensor<2x3x3xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  return %y : tensor<2x3x4xf32>
}

// -----

// Two numbers of which none is 0, one for a whole head, and probabilities that something else reads, too.
// CHECK-LABEL: func.func @forward
// CHECK-NOT: graph.attention
func.func @forward(%q: tensor<2x3x4xf32>, %keep: tensor<2x3x3xi1>, %head: tensor<2x1x1xi1>) -> (tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x3xf32>) {
  %zero = graph.constant dense<0.0> : tensor<f32>
  %one = graph.constant dense<1.0> : tensor<f32>
  %two = graph.constant dense<2.0> : tensor<f32>
  %s = graph.matmul %q, %q {transpose_b = true} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x3xf32>
  %p = graph.softmax %s {dim = 2 : i64} : (tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
  %f = graph.select %keep, %two, %one : (tensor<2x3x3xi1>, tensor<f32>, tensor<f32>) -> tensor<2x3x3xf32>
  %d = graph.mul %p, %f : (tensor<2x3x3xf32>, tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
  %y = graph.matmul %d, %q : (tensor<2x3x3xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %t = graph.matmul %q, %q {transpose_b = true} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x3xf32>
  %o = graph.softmax %t {dim = 2 : i64} : (tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
  %g = graph.select %head, %two, %zero : (tensor<2x1x1xi1>, tensor<f32>, tensor<f32>) -> tensor<2x1x1xf32>
  %e = graph.mul %o, %g : (tensor<2x3x3xf32>, tensor<2x1x1xf32>) -> tensor<2x3x3xf32>
  %x = graph.matmul %e, %q : (tensor<2x3x3xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %u = graph.matmul %q, %q {transpose_b = true} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x3xf32>
  %w = graph.softmax %u {dim = 2 : i64} : (tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
  %h = graph.select %keep, %two, %zero : (tensor<2x3x3xi1>, tensor<f32>, tensor<f32>) -> tensor<2x3x3xf32>
  %a = graph.mul %w, %h : (tensor<2x3x3xf32>, tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
  %z = graph.matmul %a, %q : (tensor<2x3x3xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  return %y, %x, %z, %a : tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x3xf32>
}

// -----

// Probabilities that are multiplied by anything.
// CHECK-LABEL: func.func @forward
// CHECK-NOT: graph.attention
func.func @forward(%q: tensor<2x3x4xf32>, %drop: tensor<2x3x3xf32>) -> tensor<2x3x4xf32> {
  %s = graph.matmul %q, %q {transpose_b = true} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x3xf32>
  %p = graph.softmax %s {dim = 2 : i64} : (tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
  %d = graph.mul %p, %drop : (tensor<2x3x3xf32>, tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
  %y = graph.matmul %d, %q : (tensor<2x3x3xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  return %y : tensor<2x3x4xf32>
}

// -----

// A trained bias, through something else: not where it is trained, but in inference.
// CHECK-LABEL: func.func @forward
// CHECK-NOT: graph.attention
// CHECK-LABEL: func.func @infer
// CHECK: graph.attention %arg0, %arg0, %arg0,
func.func @forward(%q: tensor<2x3x4xf32>, %b: tensor<3x3xf32> {graph.role = "parameter"}) -> tensor<2x3x4xf32> {
  %e = graph.exp %b : (tensor<3x3xf32>) -> tensor<3x3xf32>
  %s = graph.matmul %q, %q {transpose_b = true} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x3xf32>
  %m = graph.add %s, %e : (tensor<2x3x3xf32>, tensor<3x3xf32>) -> tensor<2x3x3xf32>
  %p = graph.softmax %m {dim = 2 : i64} : (tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
  %y = graph.matmul %p, %q : (tensor<2x3x3xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  return %y : tensor<2x3x4xf32>
}
func.func @infer(%q: tensor<2x3x4xf32>, %b: tensor<3x3xf32> {graph.role = "parameter"}) -> tensor<2x3x4xf32> {
  %e = graph.exp %b : (tensor<3x3xf32>) -> tensor<3x3xf32>
  %s = graph.matmul %q, %q {transpose_b = true} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x3xf32>
  %m = graph.add %s, %e : (tensor<2x3x3xf32>, tensor<3x3xf32>) -> tensor<2x3x3xf32>
  %p = graph.softmax %m {dim = 2 : i64} : (tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
  %y = graph.matmul %p, %q : (tensor<2x3x3xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  return %y : tensor<2x3x4xf32>
}

// -----

// Scores that are read elsewhere, statistics over rows, a mask that replaces scores by a number, a bias before the scaling,
// a triangle with a hole, k without a batch, 16 bits.
// CHECK-LABEL: func.func @forward
// CHECK-NOT: graph.attention
func.func @forward(%q: tensor<2x3x4xf32>, %mask: tensor<2x1x3xi1>, %b: tensor<3xf32>, %k: tensor<3x4xf32>, %h: tensor<2x3x4xbf16>) -> (tensor<2x3x3xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xbf16>) {
  %s0 = graph.matmul %q, %q {transpose_b = true} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x3xf32>
  %p0 = graph.softmax %s0 {dim = 2 : i64} : (tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
  %y0 = graph.matmul %p0, %q : (tensor<2x3x3xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>

  %s1 = graph.matmul %q, %q {transpose_b = true} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x3xf32>
  %p1 = graph.softmax %s1 {dim = 1 : i64} : (tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
  %y1 = graph.matmul %p1, %q : (tensor<2x3x3xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>

  %far = graph.constant dense<-1.0e+09> : tensor<f32>
  %s2 = graph.matmul %q, %q {transpose_b = true} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x3xf32>
  %m2 = graph.select %mask, %far, %s2 : (tensor<2x1x3xi1>, tensor<f32>, tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
  %p2 = graph.softmax %m2 {dim = 2 : i64} : (tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
  %y2 = graph.matmul %p2, %q : (tensor<2x3x3xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>

  %two = graph.constant dense<2.0> : tensor<f32>
  %s3 = graph.matmul %q, %q {transpose_b = true} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x3xf32>
  %m3 = graph.add %s3, %b : (tensor<2x3x3xf32>, tensor<3xf32>) -> tensor<2x3x3xf32>
  %t3 = graph.mul %m3, %two : (tensor<2x3x3xf32>, tensor<f32>) -> tensor<2x3x3xf32>
  %p3 = graph.softmax %t3 {dim = 2 : i64} : (tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
  %y3 = graph.matmul %p3, %q : (tensor<2x3x3xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>

  %hole = graph.constant dense<[[true, false, false], [false, true, false], [true, true, true]]> : tensor<3x3xi1>
  %s4 = graph.matmul %q, %q {transpose_b = true} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x3xf32>
  %m4 = graph.select %hole, %s4, %far : (tensor<3x3xi1>, tensor<2x3x3xf32>, tensor<f32>) -> tensor<2x3x3xf32>
  %p4 = graph.softmax %m4 {dim = 2 : i64} : (tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
  %y4 = graph.matmul %p4, %q : (tensor<2x3x3xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>

  %s5 = graph.matmul %q, %k {transpose_b = true} : (tensor<2x3x4xf32>, tensor<3x4xf32>) -> tensor<2x3x3xf32>
  %p5 = graph.softmax %s5 {dim = 2 : i64} : (tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
  %y5 = graph.matmul %p5, %q : (tensor<2x3x3xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>

  %s6 = graph.matmul %h, %h {transpose_b = true} : (tensor<2x3x4xbf16>, tensor<2x3x4xbf16>) -> tensor<2x3x3xbf16>
  %p6 = graph.softmax %s6 {dim = 2 : i64} : (tensor<2x3x3xbf16>) -> tensor<2x3x3xbf16>
  %y6 = graph.matmul %p6, %h : (tensor<2x3x3xbf16>, tensor<2x3x4xbf16>) -> tensor<2x3x4xbf16>
  return %s0, %y0, %y1, %y2, %y3, %y4, %y5, %y6 : tensor<2x3x3xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xbf16>
}

// -----

// A mask that is computed and added, as PyTorch's scaled_dot_product_attention is exported: Trilu of ones, compared with 0.
// The transposition of k goes through batch dimensions made one and many again.
// CHECK-LABEL: func.func @forward
// CHECK-NEXT: %[[Y:.*]] = graph.attention %arg0, %arg1, %arg2 {causal = true, graph.name = "mix", outside = -3.4028234663852886E+38 : f64, scale = 1.000000e+00 : f64}
// CHECK-NEXT: return %[[Y]]
func.func @forward(%q: tensor<2x3x4096x8xf32>, %k: tensor<2x3x4096x8xf32>, %v: tensor<2x3x4096x8xf32>) -> tensor<2x3x4096x8xf32> {
  %rows = graph.iota {dim = 0 : i64} : () -> tensor<4096x4096xi64>
  %keys = graph.iota {dim = 1 : i64} : () -> tensor<4096x4096xi64>
  %diagonal = graph.constant dense<0> : tensor<i64>
  %edge = graph.add %rows, %diagonal : (tensor<4096x4096xi64>, tensor<i64>) -> tensor<4096x4096xi64>
  %keep = graph.le %keys, %edge : (tensor<4096x4096xi64>, tensor<4096x4096xi64>) -> tensor<4096x4096xi1>
  %ones = graph.constant dense<1.0> : tensor<4096x4096xf32>
  %zero = graph.constant dense<0.0> : tensor<f32>
  %min = graph.constant dense<0xFF7FFFFF> : tensor<f32>
  %tril = graph.select %keep, %ones, %zero : (tensor<4096x4096xi1>, tensor<4096x4096xf32>, tensor<f32>) -> tensor<4096x4096xf32>
  %unseen = graph.eq %tril, %zero : (tensor<4096x4096xf32>, tensor<f32>) -> tensor<4096x4096xi1>
  %mask = graph.select %unseen, %min, %zero : (tensor<4096x4096xi1>, tensor<f32>, tensor<f32>) -> tensor<4096x4096xf32>
  %k1 = graph.reshape %k : (tensor<2x3x4096x8xf32>) -> tensor<6x4096x8xf32>
  %k2 = graph.transpose %k1 {perm = array<i64: 0, 2, 1>} : (tensor<6x4096x8xf32>) -> tensor<6x8x4096xf32>
  %kt = graph.reshape %k2 : (tensor<6x8x4096xf32>) -> tensor<2x3x8x4096xf32>
  %s = graph.matmul %q, %kt : (tensor<2x3x4096x8xf32>, tensor<2x3x8x4096xf32>) -> tensor<2x3x4096x4096xf32>
  %m = graph.add %s, %mask : (tensor<2x3x4096x4096xf32>, tensor<4096x4096xf32>) -> tensor<2x3x4096x4096xf32>
  %p = graph.softmax %m {dim = 3 : i64} : (tensor<2x3x4096x4096xf32>) -> tensor<2x3x4096x4096xf32>
  %y = graph.matmul %p, %v {graph.name = "mix"} : (tensor<2x3x4096x4096xf32>, tensor<2x3x4096x8xf32>) -> tensor<2x3x4096x8xf32>
  return %y : tensor<2x3x4096x8xf32>
}

// -----

// Positions as vectors, moved, cut and compared the other way round: keys 1 to 6 of a row that stands at position 3 and more.
// CHECK-LABEL: func.func @forward
// CHECK-NEXT: graph.attention %arg0, %arg1, %arg1 {causal = true, outside = 0xFFF0000000000000 : f64, scale = 1.000000e+00 : f64, start = 2 : i64}
func.func @forward(%q: tensor<2x4x8xf32>, %k: tensor<2x6x8xf32>) -> tensor<2x4x8xf32> {
  %all = graph.constant dense<[3, 4, 5, 6]> : tensor<4xi64>
  %rows = graph.reshape %all : (tensor<4xi64>) -> tensor<4x1xi64>
  %positions = graph.iota {dim = 0 : i64} : () -> tensor<8xi32>
  %some = graph.slice %positions {starts = array<i64: 1>, limits = array<i64: 7>, strides = array<i64: 1>} : (tensor<8xi32>) -> tensor<6xi32>
  %wide = graph.cast %some : (tensor<6xi32>) -> tensor<6xi64>
  %keys = graph.broadcast %wide : (tensor<6xi64>) -> tensor<1x4x6xi64>
  %later = graph.lt %rows, %keys : (tensor<4x1xi64>, tensor<1x4x6xi64>) -> tensor<1x4x6xi1>
  %seen = graph.not %later : (tensor<1x4x6xi1>) -> tensor<1x4x6xi1>
  %true = graph.constant dense<true> : tensor<4x6xi1>
  %both = graph.and %seen, %true : (tensor<1x4x6xi1>, tensor<4x6xi1>) -> tensor<1x4x6xi1>
  %none = graph.constant dense<0xFF800000> : tensor<4x6xf32>
  %s = graph.matmul %q, %k {transpose_b = true} : (tensor<2x4x8xf32>, tensor<2x6x8xf32>) -> tensor<2x4x6xf32>
  %m = graph.select %both, %s, %none : (tensor<1x4x6xi1>, tensor<2x4x6xf32>, tensor<4x6xf32>) -> tensor<2x4x6xf32>
  %p = graph.softmax %m {dim = 2 : i64} : (tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %y = graph.matmul %p, %k : (tensor<2x4x6xf32>, tensor<2x6x8xf32>) -> tensor<2x4x8xf32>
  return %y : tensor<2x4x8xf32>
}

// -----

// Added masks that stay a bias: one that a large score can make up for, one in which the first row sees no key, a band.
// CHECK-LABEL: func.func @forward
// CHECK-COUNT-3: graph.attention %arg0, %arg0, %arg0, %{{[a-z0-9_]+}} {scale
func.func @forward(%q: tensor<2x3x4xf32>) -> (tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>) {
  %m0 = graph.constant dense<[[0.0, -1.0e+04, -1.0e+04], [0.0, 0.0, -1.0e+04], [0.0, 0.0, 0.0]]> : tensor<3x3xf32>
  %s0 = graph.matmul %q, %q {transpose_b = true} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x3xf32>
  %a0 = graph.add %s0, %m0 : (tensor<2x3x3xf32>, tensor<3x3xf32>) -> tensor<2x3x3xf32>
  %p0 = graph.softmax %a0 {dim = 2 : i64} : (tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
  %y0 = graph.matmul %p0, %q : (tensor<2x3x3xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>

  %m1 = graph.constant dense<[[-1.0e+09, -1.0e+09, -1.0e+09], [0.0, -1.0e+09, -1.0e+09], [0.0, 0.0, -1.0e+09]]> : tensor<3x3xf32>
  %s1 = graph.matmul %q, %q {transpose_b = true} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x3xf32>
  %a1 = graph.add %s1, %m1 : (tensor<2x3x3xf32>, tensor<3x3xf32>) -> tensor<2x3x3xf32>
  %p1 = graph.softmax %a1 {dim = 2 : i64} : (tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
  %y1 = graph.matmul %p1, %q : (tensor<2x3x3xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>

  %m2 = graph.constant dense<[[0.0, -1.0e+09, -1.0e+09], [0.0, 0.0, -1.0e+09], [-1.0e+09, 0.0, 0.0]]> : tensor<3x3xf32>
  %s2 = graph.matmul %q, %q {transpose_b = true} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x3xf32>
  %a2 = graph.add %s2, %m2 : (tensor<2x3x3xf32>, tensor<3x3xf32>) -> tensor<2x3x3xf32>
  %p2 = graph.softmax %a2 {dim = 2 : i64} : (tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
  %y2 = graph.matmul %p2, %q : (tensor<2x3x3xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  return %y0, %y1, %y2 : tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>
}
