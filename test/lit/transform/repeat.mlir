// RUN: tessera-opt --graph-repeat %s | FileCheck %s

// A normalised activation is in memory for a product. Its gradient's loops read x anyway, and make the activation again:
// the first for its mask, and the second the masked gradient, so that this is not written.
// CHECK-LABEL: func.func @mask
// CHECK: %[[Y:.*]] = graph.relu %{{.*}} {graph.name = "y"}
// CHECK: graph.matmul %[[Y]]
// CHECK: %[[A:.*]] = graph.mul %arg0, %arg2 {graph.name = "again/a", graph.repeats}
// CHECK-NEXT: %[[R:.*]] = graph.relu %[[A]] {graph.name = "again/y", graph.repeats}
// CHECK-NEXT: %[[M:.*]] = graph.lt %{{.*}}, %[[R]]
// CHECK: graph.reduce_sum
// CHECK: %[[D:.*]] = graph.select %{{.*}}, %{{.*}}, %{{.*}} {graph.name = "again/d", graph.repeats}
// CHECK-NEXT: graph.sub %[[D]]
func.func @mask(%x: tensor<512x256xf32>, %w: tensor<256x256xf32>, %s: tensor<1x256xf32>) -> (tensor<512x256xf32>, tensor<512x256xf32>) {
  %zero = graph.constant dense<0.0> : tensor<f32>
  %a = graph.mul %x, %s {graph.name = "a"} : (tensor<512x256xf32>, tensor<1x256xf32>) -> tensor<512x256xf32>
  %y = graph.relu %a {graph.name = "y"} : (tensor<512x256xf32>) -> tensor<512x256xf32>
  %z = graph.matmul %y, %w {graph.name = "z"} : (tensor<512x256xf32>, tensor<256x256xf32>) -> tensor<512x256xf32>
  %dy = graph.matmul %z, %w {transpose_b = true, graph.name = "dy"} : (tensor<512x256xf32>, tensor<256x256xf32>) -> tensor<512x256xf32>
  %m = graph.lt %zero, %y {graph.name = "m"} : (tensor<f32>, tensor<512x256xf32>) -> tensor<512x256xi1>
  %d = graph.select %m, %dy, %zero {graph.name = "d"} : (tensor<512x256xi1>, tensor<512x256xf32>, tensor<f32>) -> tensor<512x256xf32>
  %p = graph.mul %d, %x {graph.name = "p"} : (tensor<512x256xf32>, tensor<512x256xf32>) -> tensor<512x256xf32>
  %sum = graph.reduce_sum %p {dims = array<i64: 0>, keepdims = true, graph.name = "sum"} : (tensor<512x256xf32>) -> tensor<1x256xf32>
  %c = graph.mul %x, %sum {graph.name = "c"} : (tensor<512x256xf32>, tensor<1x256xf32>) -> tensor<512x256xf32>
  %dx = graph.sub %d, %c {graph.name = "dx"} : (tensor<512x256xf32>, tensor<512x256xf32>) -> tensor<512x256xf32>
  return %z, %dx : tensor<512x256xf32>, tensor<512x256xf32>
}

// What follows from one value is kept as that value alone: one that stays in its loop now, or an operand of the loop. Of
// equally large ones it is the first, such as the result of a product, which may then be stored in 16 bits.
// CHECK-LABEL: func.func @one_for_three
// CHECK: %[[L:.*]] = graph.cast %{{.*}} {graph.name = "l"}
// CHECK: graph.matmul
// CHECK: graph.matmul
// CHECK-NEXT: %[[X:.*]] = graph.add %[[L]], %arg2 {graph.name = "again/x", graph.repeats}
// CHECK-NEXT: %[[C:.*]] = graph.mul %[[X]], %{{.*}} {graph.name = "again/half", graph.repeats}
// CHECK-NEXT: graph.mul %{{.*}}, %[[C]] {graph.name = "d1"}
// CHECK-NEXT: %[[E:.*]] = graph.erf %[[X]] {graph.name = "again/e", graph.repeats}
// CHECK-NEXT: graph.mul %{{.*}}, %[[E]] {graph.name = "d2"}
func.func @one_for_three(%i: tensor<512x256xbf16>, %w: tensor<256x256xbf16>, %b: tensor<256xbf16>) -> (tensor<512x256xbf16>, tensor<512x256xbf16>) {
  %c = graph.constant dense<0.5> : tensor<bf16>
  %h = graph.matmul %i, %w {wide, graph.name = "h"} : (tensor<512x256xbf16>, tensor<256x256xbf16>) -> tensor<512x256xf32>
  %l = graph.cast %h {graph.name = "l"} : (tensor<512x256xf32>) -> tensor<512x256xbf16>
  %x = graph.add %l, %b {graph.name = "x"} : (tensor<512x256xbf16>, tensor<256xbf16>) -> tensor<512x256xbf16>
  %half = graph.mul %x, %c {graph.name = "half"} : (tensor<512x256xbf16>, tensor<bf16>) -> tensor<512x256xbf16>
  %e = graph.erf %x {graph.name = "e"} : (tensor<512x256xbf16>) -> tensor<512x256xbf16>
  %y = graph.mul %half, %e {graph.name = "y"} : (tensor<512x256xbf16>, tensor<512x256xbf16>) -> tensor<512x256xbf16>
  %z = graph.matmul %y, %w {graph.name = "z"} : (tensor<512x256xbf16>, tensor<256x256xbf16>) -> tensor<512x256xbf16>
  %dy = graph.matmul %z, %w {transpose_b = true, graph.name = "dy"} : (tensor<512x256xbf16>, tensor<256x256xbf16>) -> tensor<512x256xbf16>
  %d1 = graph.mul %dy, %half {graph.name = "d1"} : (tensor<512x256xbf16>, tensor<512x256xbf16>) -> tensor<512x256xbf16>
  %d2 = graph.mul %dy, %e {graph.name = "d2"} : (tensor<512x256xbf16>, tensor<512x256xbf16>) -> tensor<512x256xbf16>
  %dx = graph.add %d1, %d2 {graph.name = "dx"} : (tensor<512x256xbf16>, tensor<512x256xbf16>) -> tensor<512x256xbf16>
  return %z, %dx : tensor<512x256xbf16>, tensor<512x256xbf16>
}

// CHECK-LABEL: func.func @operand
// CHECK: %[[H:.*]] = graph.matmul %arg0
// CHECK: graph.matmul
// CHECK: graph.add %[[H]], %arg2 {graph.name = "again/x", graph.repeats}
func.func @operand(%i: tensor<512x256xf32>, %w: tensor<256x256xf32>, %b: tensor<256xf32>) -> (tensor<512x256xf32>, tensor<512x256xf32>) {
  %h = graph.matmul %i, %w {graph.name = "h"} : (tensor<512x256xf32>, tensor<256x256xf32>) -> tensor<512x256xf32>
  %x = graph.add %h, %b {graph.name = "x"} : (tensor<512x256xf32>, tensor<256xf32>) -> tensor<512x256xf32>
  %y = graph.relu %x {graph.name = "y"} : (tensor<512x256xf32>) -> tensor<512x256xf32>
  %z = graph.matmul %y, %w {graph.name = "z"} : (tensor<512x256xf32>, tensor<256x256xf32>) -> tensor<512x256xf32>
  %dx = graph.mul %z, %x {graph.name = "dx"} : (tensor<512x256xf32>, tensor<512x256xf32>) -> tensor<512x256xf32>
  return %z, %dx : tensor<512x256xf32>, tensor<512x256xf32>
}

// What would hold more memory, is random, or is in the caches, is read.
// CHECK-LABEL: func.func @read
// CHECK-NOT: graph.repeats
func.func @read(%x: tensor<512x256xf32>, %w: tensor<256x256xf32>, %small: tensor<8x256xf32>, %step: tensor<i64>) -> (tensor<512x256xf32>, tensor<512x256xf32>, tensor<8x256xf32>) {
  %y = graph.exp %x {graph.name = "y"} : (tensor<512x256xf32>) -> tensor<512x256xf32>
  %z = graph.matmul %y, %w {graph.name = "z"} : (tensor<512x256xf32>, tensor<256x256xf32>) -> tensor<512x256xf32>
  %kept = graph.mul %z, %y {graph.name = "kept"} : (tensor<512x256xf32>, tensor<512x256xf32>) -> tensor<512x256xf32>
  %r = graph.random %step {seed = 1 : i64, stream = 2 : i64, graph.name = "r"} : (tensor<i64>) -> tensor<512x256xf32>
  %q = graph.matmul %r, %w {graph.name = "q"} : (tensor<512x256xf32>, tensor<256x256xf32>) -> tensor<512x256xf32>
  %dropped = graph.mul %q, %r {graph.name = "dropped"} : (tensor<512x256xf32>, tensor<512x256xf32>) -> tensor<512x256xf32>
  %e = graph.exp %small {graph.name = "e"} : (tensor<8x256xf32>) -> tensor<8x256xf32>
  %f = graph.matmul %e, %w {graph.name = "f"} : (tensor<8x256xf32>, tensor<256x256xf32>) -> tensor<8x256xf32>
  %g = graph.mul %f, %e {graph.name = "g"} : (tensor<8x256xf32>, tensor<8x256xf32>) -> tensor<8x256xf32>
  return %kept, %dropped, %g : tensor<512x256xf32>, tensor<512x256xf32>, tensor<8x256xf32>
}
