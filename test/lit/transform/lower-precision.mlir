// RUN: tessera-opt --graph-lower-precision=type=bf16 %s | FileCheck %s
// RUN: not tessera-opt --graph-lower-precision=type=f8 %s 2>&1 | FileCheck %s --check-prefix=TYPE
// TYPE: the type is bf16 or f16, not f8

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
