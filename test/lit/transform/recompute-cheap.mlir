// RUN: tessera-opt --graph-recompute=level=cheap %s | FileCheck %s

// What an activation function makes is computed again, though it reads its operand twice, and though a weight is larger
// by far: backward has the operand in any case.
// CHECK-LABEL: func.func @gelu
// CHECK: %[[H:.*]] = graph.matmul {{.*}}name = "h"
// CHECK: graph.matmul {{.*}}name = "y"
// CHECK: %[[A:.*]] = graph.add %[[H]], {{.*}}name = "again/a"
// CHECK: %[[E:.*]] = graph.erf %[[A]] {{.*}}name = "again/e"
// CHECK: %[[G:.*]] = graph.mul %[[A]], %[[E]] {{.*}}name = "again/g"
// CHECK: graph.matmul %[[G]], {{.*}}name = "dv"
func.func @gelu(%x: tensor<8x64xf32> {graph.role = "input", graph.name = "x"}, %w: tensor<64x64xf32> {graph.role = "parameter", graph.name = "w"},
                %b: tensor<64xf32> {graph.role = "parameter", graph.name = "b"}, %t: tensor<4096x64xf32> {graph.role = "parameter", graph.name = "t"})
    -> (tensor<64x64xf32>, tensor<8x64xf32>, tensor<4096x64xf32>) {
  %decayed = graph.add %t, %b {graph.name = "decayed"} : (tensor<4096x64xf32>, tensor<64xf32>) -> tensor<4096x64xf32>
  %h = graph.matmul %x, %w {graph.name = "h"} : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
  %a = graph.add %h, %b {graph.name = "a"} : (tensor<8x64xf32>, tensor<64xf32>) -> tensor<8x64xf32>
  %e = graph.erf %a {graph.name = "e"} : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %g = graph.mul %a, %e {graph.name = "g"} : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  %y = graph.matmul %g, %w {graph.name = "y"} : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
  %dv = graph.matmul %g, %y {transpose_a = true, graph.grad_of = "y", graph.name = "dv"} : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<64x64xf32>
  %dh = graph.mul %h, %y {graph.grad_of = "h", graph.name = "dh"} : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  return %dv, %dh, %decayed : tensor<64x64xf32>, tensor<8x64xf32>, tensor<4096x64xf32>
}

// A stream that other operators read as well is kept: from there it would lead back to the first layer.
// CHECK-LABEL: func.func @stream
// CHECK-NOT: again/
// CHECK: return
func.func @stream(%x: tensor<8x64xf32> {graph.role = "input", graph.name = "x"}, %w: tensor<64x64xf32> {graph.role = "parameter", graph.name = "w"})
    -> tensor<8x64xf32> {
  %h = graph.matmul %x, %w {graph.name = "h"} : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
  %s = graph.add %h, %x {graph.name = "s"} : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  %r = graph.relu %s {graph.name = "r"} : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %y = graph.matmul %r, %w {graph.name = "y"} : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
  %t = graph.add %y, %s {graph.name = "t"} : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  %dr = graph.mul %r, %t {graph.grad_of = "r", graph.name = "dr"} : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  %dh = graph.mul %dr, %h {graph.grad_of = "h", graph.name = "dh"} : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  return %dh : tensor<8x64xf32>
}
