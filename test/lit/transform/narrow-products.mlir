// RUN: tessera-opt --graph-lower-precision="type=bf16 products=narrow" %s | FileCheck %s

// A product that another one depends on stores 16 bits, and what follows it is in 16 bits, whoever reads it. The last
// product before the loss and the gradient of a parameter are sums in float32.
// CHECK-LABEL: func.func @mlp
func.func @mlp(%x: tensor<4x8xf32> {graph.role = "input", graph.name = "x"}, %w: tensor<8x6xf32> {graph.role = "parameter", graph.name = "w"},
               %b: tensor<6xf32> {graph.role = "parameter", graph.name = "b"}, %v: tensor<6x2xf32> {graph.role = "parameter", graph.name = "v"})
    -> (tensor<4x2xf32>, tensor<8x6xf32>) {
  // CHECK: %[[H:.*]] = graph.matmul {{.*}} {graph.name = "fc1"} : (tensor<4x8xbf16>, tensor<8x6xbf16>) -> tensor<4x6xbf16>
  // CHECK: %[[A:.*]] = graph.add %[[H]], {{.*}} -> tensor<4x6xbf16>
  // CHECK: %[[R:.*]] = graph.relu %[[A]] {{.*}} -> tensor<4x6xbf16>
  // CHECK: graph.matmul %[[R]], {{.*}} {graph.name = "fc2", wide} : {{.*}} -> tensor<4x2xf32>
  // CHECK: graph.matmul {{.*}} {graph.name = "grad", transpose_a = true, wide} : {{.*}} -> tensor<8x6xf32>
  %h = graph.matmul %x, %w {graph.name = "fc1"} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %a = graph.add %h, %b {graph.name = "bias"} : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  %r = graph.relu %a {graph.name = "relu"} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %y = graph.matmul %r, %v {graph.name = "fc2"} : (tensor<4x6xf32>, tensor<6x2xf32>) -> tensor<4x2xf32>
  %z = graph.log_softmax %y {dim = 1 : i64, graph.name = "loss"} : (tensor<4x2xf32>) -> tensor<4x2xf32>
  %g = graph.matmul %x, %r {transpose_a = true, graph.name = "grad"} : (tensor<4x8xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
  %u = graph.sub %w, %g {graph.name = "update"} : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
  return %z, %u : tensor<4x2xf32>, tensor<8x6xf32>
}

// A residual stream in float32 widens what is added to it, in the loop that adds. By default nothing would
// round the sum of "out" here.
// CHECK-LABEL: func.func @residual
func.func @residual(%x: tensor<4x8xf32> {graph.role = "input", graph.name = "x"}, %w: tensor<8x8xf32> {graph.role = "parameter", graph.name = "w"})
    -> tensor<4x8xf32> {
  // CHECK: %[[H:.*]] = graph.matmul {{.*}} {graph.name = "out"} : {{.*}} -> tensor<4x8xbf16>
  // CHECK: %[[S:.*]] = graph.reshape %[[H]] {{.*}} -> tensor<2x2x8xbf16>
  // CHECK: %[[T:.*]] = graph.reshape %[[S]] {{.*}} -> tensor<4x8xbf16>
  // CHECK: %[[W:.*]] = graph.cast %[[T]] {{.*}} -> tensor<4x8xf32>
  // CHECK: graph.add %arg0, %[[W]] {{.*}} -> tensor<4x8xf32>
  %h = graph.matmul %x, %w {graph.name = "out"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %s = graph.reshape %h {graph.name = "heads"} : (tensor<4x8xf32>) -> tensor<2x2x8xf32>
  %t = graph.reshape %s {graph.name = "joined"} : (tensor<2x2x8xf32>) -> tensor<4x8xf32>
  %a = graph.add %x, %t {graph.name = "stream"} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = graph.matmul %a, %w {graph.name = "next"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// Attention is a product: its result is rounded, its statistics are not.
// CHECK-LABEL: func.func @attention
// CHECK: graph.attention %{{[^{]*}} {{{.*}}name = "mix"{{.*}} -> (tensor<2x5x3x4xbf16>, tensor<2x3x5xf32>)
// CHECK: graph.attention_grad {{.*}} -> (tensor<2x5x3x4xbf16>, tensor<2x5x3x4xbf16>, tensor<2x5x3x4xbf16>)
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
