// RUN: tessera-opt --graph-lower-precision=type=bf16 %s | FileCheck %s
// RUN: not tessera-opt --graph-lower-precision=type=f8 %s 2>&1 | FileCheck %s --check-prefix=TYPE
// TYPE: the type is bf16 or f16, not f8
// RUN: not tessera-opt --graph-lower-precision="type=bf16 products=small" %s 2>&1 | FileCheck %s --check-prefix=PRODUCTS
// PRODUCTS: products are wide or narrow, not small

// Products take 16 bits, what lies between them runs in 16 bits, their sums reach the loss and the update as they are.
// CHECK-LABEL: func.func @mlp
func.func @mlp(%x: tensor<4x8xf32> {graph.role = "input", graph.name = "x"}, %w: tensor<8x6xf32> {graph.role = "parameter", graph.name = "w"},
               %b: tensor<6xf32> {graph.role = "parameter", graph.name = "b"}, %v: tensor<6x2xf32> {graph.role = "parameter", graph.name = "v"})
    -> (tensor<4x2xf32>, tensor<8x6xf32>) {
  // CHECK-NEXT: %[[X:.*]] = graph.cast %arg0 {graph.name = "x.cast"} : (tensor<4x8xf32>) -> tensor<4x8xbf16>
  // CHECK-NEXT: %[[W:.*]] = graph.cast %arg1
  // CHECK-NEXT: %[[H:.*]] = graph.matmul %[[X]], %[[W]] {graph.name = "fc1", wide} : (tensor<4x8xbf16>, tensor<8x6xbf16>) -> tensor<4x6xf32>
  // CHECK-NEXT: %[[HL:.*]] = graph.cast %[[H]]
  // CHECK-NEXT: %[[B:.*]] = graph.cast %arg2
  // CHECK-NEXT: %[[A:.*]] = graph.add %[[HL]], %[[B]] {{.*}} -> tensor<4x6xbf16>
  // CHECK-NEXT: %[[R:.*]] = graph.relu %[[A]] {{.*}} -> tensor<4x6xbf16>
  // CHECK-NEXT: %[[V:.*]] = graph.cast %arg3
  // CHECK-NEXT: %[[Y:.*]] = graph.matmul %[[R]], %[[V]] {graph.name = "fc2", wide} : {{.*}} -> tensor<4x2xf32>
  // CHECK-NEXT: %[[Z:.*]] = graph.log_softmax %[[Y]] {{.*}} -> tensor<4x2xf32>
  // CHECK-NEXT: %[[G:.*]] = graph.matmul %[[X]], %[[R]] {graph.name = "grad", transpose_a = true, wide} : {{.*}} -> tensor<8x6xf32>
  // CHECK-NEXT: %[[G2:.*]] = graph.add %[[G]], %[[G]] {{.*}} -> tensor<8x6xf32>
  // CHECK-NEXT: %[[U:.*]] = graph.sub %arg1, %[[G2]] {{.*}} -> tensor<8x6xf32>
  // CHECK-NEXT: return %[[Z]], %[[U]]
  %h = graph.matmul %x, %w {graph.name = "fc1"} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %a = graph.add %h, %b {graph.name = "bias"} : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  %r = graph.relu %a {graph.name = "relu"} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %y = graph.matmul %r, %v {graph.name = "fc2"} : (tensor<4x6xf32>, tensor<6x2xf32>) -> tensor<4x2xf32>
  %z = graph.log_softmax %y {dim = 1 : i64, graph.name = "loss"} : (tensor<4x2xf32>) -> tensor<4x2xf32>
  %g = graph.matmul %x, %r {transpose_a = true, graph.name = "grad"} : (tensor<4x8xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
  %g2 = graph.add %g, %g {graph.name = "accumulate"} : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
  %u = graph.sub %w, %g2 {graph.name = "update"} : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
  return %z, %u : tensor<4x2xf32>, tensor<8x6xf32>
}

// Statistics are of float32 numbers, but what they normalise is held in 16 bits.
// CHECK-LABEL: func.func @norm
func.func @norm(%x: tensor<4x8x9xf32> {graph.role = "input", graph.name = "x"}, %w: tensor<6x8x1xf32> {graph.role = "parameter", graph.name = "w"},
                %s: tensor<6xf32> {graph.role = "parameter", graph.name = "s"}) -> (tensor<4x6x6xf32>, tensor<6xf32>) {
  // CHECK: %[[H:.*]] = graph.conv {{.*}}wide{{.*}} -> tensor<4x6x9xf32>
  // CHECK-NEXT: %[[HL:.*]] = graph.cast %[[H]] {{.*}} -> tensor<4x6x9xbf16>
  // CHECK-NEXT: %[[HW:.*]] = graph.cast %[[HL]] {{.*}} -> tensor<4x6x9xf32>
  // CHECK-NEXT: %[[Y:.*]], %[[M:.*]], %{{.*}} = graph.batch_norm %[[HW]], %arg2, %arg2
  // CHECK-NEXT: %[[YL:.*]] = graph.cast %[[Y]] {{.*}} -> tensor<4x6x9xbf16>
  // CHECK-NEXT: %[[R:.*]] = graph.relu %[[YL]]
  // CHECK-NEXT: graph.matmul %[[R]], %[[R]]
  %h = graph.conv %x, %w {strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, groups = 1 : i64, graph.name = "conv"} : (tensor<4x8x9xf32>, tensor<6x8x1xf32>) -> tensor<4x6x9xf32>
  %y, %m, %v = graph.batch_norm %h, %s, %s {epsilon = 1.0e-05 : f64, graph.name = "bn"} : (tensor<4x6x9xf32>, tensor<6xf32>, tensor<6xf32>) -> (tensor<4x6x9xf32>, tensor<6xf32>, tensor<6xf32>)
  %r = graph.relu %y {graph.name = "relu"} : (tensor<4x6x9xf32>) -> tensor<4x6x9xf32>
  %q = graph.matmul %r, %r {transpose_b = true, graph.name = "gram"} : (tensor<4x6x9xf32>, tensor<4x6x9xf32>) -> tensor<4x6x6xf32>
  return %q, %m : tensor<4x6x6xf32>, tensor<6xf32>
}

// A float32 operand that is no parameter keeps a sum in float32; nothing that wants 16 bits reads the other.
// CHECK-LABEL: func.func @mixed
func.func @mixed(%x: tensor<4x4xf32> {graph.role = "input", graph.name = "x"}) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  // CHECK: %[[H:.*]] = graph.matmul
  // CHECK-NEXT: %[[R:.*]] = graph.add %[[H]], %arg0 {{.*}} -> tensor<4x4xf32>
  // CHECK-NEXT: %[[N:.*]] = graph.neg %[[H]] {{.*}} -> tensor<4x4xf32>
  // CHECK-NEXT: return %[[R]], %[[N]]
  %h = graph.matmul %x, %x {graph.name = "fc"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %r = graph.add %h, %x {graph.name = "residual"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %n = graph.neg %h {graph.name = "neg"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %r, %n : tensor<4x4xf32>, tensor<4x4xf32>
}

// A value that readers see under several shapes is converted once, where it is made. A conversion behind what only moves
// elements stays with its reader.
// CHECK-LABEL: func.func @shapes
// CHECK: %[[E:.*]] = graph.exp
// CHECK-NEXT: %[[L:.*]] = graph.cast %[[E]]
// CHECK: %[[A:.*]] = graph.reshape %[[L]] {{.*}} -> tensor<4x4xbf16>
// CHECK: graph.matmul %[[A]]
// CHECK-NEXT: graph.matmul %[[L]]
// CHECK: %[[T:.*]] = graph.transpose %[[E]]
// CHECK: %[[R:.*]] = graph.reshape %[[T]] {{.*}} -> tensor<8x2xf32>
// CHECK: graph.cast %[[R]]
func.func @shapes(%x: tensor<2x2x4xf32> {graph.role = "input"}, %w: tensor<4x4xf32> {graph.role = "parameter", graph.name = "w"}, %v: tensor<2x4xf32> {graph.role = "parameter", graph.name = "v"}) -> (tensor<4x4xf32>, tensor<2x2x4xf32>, tensor<8x4xf32>) {
  %e = graph.exp %x {graph.name = "e"} : (tensor<2x2x4xf32>) -> tensor<2x2x4xf32>
  %a = graph.reshape %e {graph.name = "a"} : (tensor<2x2x4xf32>) -> tensor<4x4xf32>
  %p = graph.matmul %a, %w {graph.name = "p"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %q = graph.matmul %e, %w {graph.name = "q"} : (tensor<2x2x4xf32>, tensor<4x4xf32>) -> tensor<2x2x4xf32>
  %t = graph.transpose %e {graph.name = "t", perm = array<i64: 1, 2, 0>} : (tensor<2x2x4xf32>) -> tensor<2x4x2xf32>
  %b = graph.reshape %t {graph.name = "b"} : (tensor<2x4x2xf32>) -> tensor<8x2xf32>
  %r = graph.matmul %b, %v {graph.name = "r"} : (tensor<8x2xf32>, tensor<2x4xf32>) -> tensor<8x4xf32>
  return %p, %q, %r : tensor<4x4xf32>, tensor<2x2x4xf32>, tensor<8x4xf32>
}

// Attention multiplies queries, keys, values, its result and what arrives from behind, and adds a mask, which stays as it
// is, as the statistics of its rows do. What lies between it and other products runs in 16 bits.
// CHECK-LABEL: func.func @attention
// CHECK: %[[H:.*]] = graph.matmul {{.*}}wide
// CHECK: %[[Q:.*]] = graph.slice %{{.*}} -> tensor<2x5x3x4xbf16>
// CHECK: %[[Y:.*]], %[[S:.*]] = graph.attention %[[Q]], %{{.*}}, %{{.*}}, %arg2 {{.*}}wide{{.*}} : (tensor<2x5x3x4xbf16>, tensor<2x5x3x4xbf16>, tensor<2x5x3x4xbf16>, tensor<2x1x1x5xf32>) -> (tensor<2x5x3x4xf32>, tensor<2x3x5xf32>)
// CHECK: %[[L:.*]] = graph.cast %[[Y]] {{.*}} -> tensor<2x5x3x4xbf16>
// CHECK-NOT: graph.cast %[[Y]]
// CHECK: graph.attention_grad {{.*}}, %[[L]], %[[S]], %arg2 {{.*}}wide{{.*}} : (tensor<2x5x3x4xbf16>, tensor<2x5x3x4xbf16>, tensor<2x5x3x4xbf16>, tensor<2x5x3x4xbf16>, tensor<2x5x3x4xbf16>, tensor<2x3x5xf32>, tensor<2x1x1x5xf32>) -> (tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>)
// CHECK: graph.concat {{.*}} -> tensor<2x5x3x12xbf16>
func.func @attention(%x: tensor<2x5x8xf32> {graph.role = "input", graph.name = "x"}, %w: tensor<8x36xf32> {graph.role = "parameter", graph.name = "w"}, %m: tensor<2x1x1x5xf32> {graph.role = "input", graph.name = "m"}, %o: tensor<12x8xf32> {graph.role = "parameter", graph.name = "o"}, %e: tensor<2x5x8xf32> {graph.role = "input", graph.name = "e"}) -> (tensor<2x5x8xf32>, tensor<2x5x8xf32>) {
  %h = graph.matmul %x, %w {graph.name = "qkv"} : (tensor<2x5x8xf32>, tensor<8x36xf32>) -> tensor<2x5x36xf32>
  %r = graph.reshape %h {graph.name = "heads"} : (tensor<2x5x36xf32>) -> tensor<2x5x3x12xf32>
  %q = graph.slice %r {starts = array<i64: 0, 0, 0, 0>, limits = array<i64: 2, 5, 3, 4>, strides = array<i64: 1, 1, 1, 1>, graph.name = "q"} : (tensor<2x5x3x12xf32>) -> tensor<2x5x3x4xf32>
  %k = graph.slice %r {starts = array<i64: 0, 0, 0, 4>, limits = array<i64: 2, 5, 3, 8>, strides = array<i64: 1, 1, 1, 1>, graph.name = "k"} : (tensor<2x5x3x12xf32>) -> tensor<2x5x3x4xf32>
  %v = graph.slice %r {starts = array<i64: 0, 0, 0, 8>, limits = array<i64: 2, 5, 3, 12>, strides = array<i64: 1, 1, 1, 1>, graph.name = "v"} : (tensor<2x5x3x12xf32>) -> tensor<2x5x3x4xf32>
  %y, %s = graph.attention %q, %k, %v, %m {scale = 0.5 : f64, rows_first = true, keeps_statistics, graph.name = "mix"} : (tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>, tensor<2x1x1x5xf32>) -> (tensor<2x5x3x4xf32>, tensor<2x3x5xf32>)
  %f = graph.reshape %y {graph.name = "flat"} : (tensor<2x5x3x4xf32>) -> tensor<2x5x12xf32>
  %z = graph.matmul %f, %o {graph.name = "out"} : (tensor<2x5x12xf32>, tensor<12x8xf32>) -> tensor<2x5x8xf32>
  %df = graph.matmul %e, %o {transpose_b = true, graph.name = "df"} : (tensor<2x5x8xf32>, tensor<12x8xf32>) -> tensor<2x5x12xf32>
  %dy = graph.reshape %df {graph.name = "dy"} : (tensor<2x5x12xf32>) -> tensor<2x5x3x4xf32>
  %dq, %dk, %dv = graph.attention_grad %dy, %q, %k, %v, %y, %s, %m {scale = 0.5 : f64, rows_first = true, graph.name = "dmix"} : (tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>, tensor<2x3x5xf32>, tensor<2x1x1x5xf32>) -> (tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>)
  %dr = graph.concat %dq, %dk, %dv {dim = 3 : i64, graph.name = "dr"} : (tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>) -> tensor<2x5x3x12xf32>
  %dh = graph.reshape %dr {graph.name = "dh"} : (tensor<2x5x3x12xf32>) -> tensor<2x5x36xf32>
  %dx = graph.matmul %dh, %w {transpose_b = true, graph.name = "dx"} : (tensor<2x5x36xf32>, tensor<8x36xf32>) -> tensor<2x5x8xf32>
  return %z, %dx : tensor<2x5x8xf32>, tensor<2x5x8xf32>
}

// What dropout keeps is a factor of 0 or 1: in 16 bits for attention. Its gradient takes what is in memory until then,
// which is a byte each.
// CHECK-LABEL: func.func @dropout
// CHECK: %[[KEEP:.*]] = graph.not
// CHECK-NEXT: %[[ONES:.*]] = graph.cast %[[KEEP]] {graph.name = "keep/cast"{{.*}} -> tensor<2x3x5x5xbf16>
// CHECK: graph.attention %{{.*}}, %{{.*}}, %{{.*}}, %[[ONES]] {
// CHECK: graph.attention_grad {{.*}}, %[[KEEP]] {
func.func @dropout(%x: tensor<2x5x3x4xf32> {graph.role = "input", graph.name = "x"}, %drop: tensor<2x3x5x5xi1> {graph.role = "input", graph.name = "drop"}, %dy: tensor<2x5x3x4xf32> {graph.role = "input", graph.name = "dy"}) -> (tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>) {
  %keep = graph.not %drop {graph.name = "keep"} : (tensor<2x3x5x5xi1>) -> tensor<2x3x5x5xi1>
  %y, %s = graph.attention %x, %x, %x, %keep {scale = 0.5 : f64, keep_scale = 1.25 : f64, rows_first = true, keeps_statistics, graph.name = "mix"} : (tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>, tensor<2x3x5x5xi1>) -> (tensor<2x5x3x4xf32>, tensor<2x3x5xf32>)
  %dq, %dk, %dv = graph.attention_grad %dy, %x, %x, %x, %y, %s, %keep {scale = 0.5 : f64, keep_scale = 1.25 : f64, rows_first = true, graph.name = "dmix"} : (tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>, tensor<2x3x5xf32>, tensor<2x3x5x5xi1>) -> (tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>)
  return %y, %dq : tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>
}
