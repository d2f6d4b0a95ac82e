// RUN: tessera-opt --graph-expire-copies %s | FileCheck %s

// Two micro-batches. Both halves read the weights %w, each through a view of its own, behind the view that may keep a
// copy for both. The update reads them as they are, and the bias %b is too small to matter.
// CHECK-LABEL: func.func @train
// CHECK: %[[R:.*]] = graph.micro_rows %arg0
// CHECK: %[[K:.*]] = graph.reshape %arg1 {graph.keeps_copy, graph.name = "kept/w"}
// CHECK: %[[F:.*]] = graph.reshape %[[K]] {graph.anew = 2 : i64, graph.name = "forward/w"}
// CHECK: graph.matmul %[[R]], %[[F]] {graph.name = "fc"}
// CHECK: graph.add %{{.*}}, %arg2 {graph.name = "bias"}
// CHECK: %[[B:.*]] = graph.reshape %[[K]] {graph.anew = 2 : i64, graph.name = "backward/w"}
// CHECK: graph.matmul %{{.*}}, %[[B]] {graph.grad_of = "fc", graph.name = "fc.grad_a"
// CHECK: graph.sub %arg1, %{{.*}} {graph.name = "update"}
func.func @train(%x: tensor<128x64xf32> {graph.role = "input", graph.name = "x"}, %w: tensor<64x64xf32> {graph.role = "parameter", graph.name = "w", graph.update = 0 : i64}, %b: tensor<64xf32> {graph.role = "parameter", graph.name = "b"}) -> (tensor<64x64xf32> {graph.role = "update", graph.name = "w"}) {
  %r = graph.micro_rows %x {parts = 2, graph.name = "rows"} : (tensor<128x64xf32>) -> tensor<64x64xf32>
  %m = graph.matmul %r, %w {graph.name = "fc"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %y = graph.add %m, %b {graph.name = "bias"} : (tensor<64x64xf32>, tensor<64xf32>) -> tensor<64x64xf32>
  %e = graph.matmul %y, %w {transpose_b = true, graph.grad_of = "fc", graph.name = "fc.grad_a"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %g = graph.matmul %r, %e {transpose_a = true, graph.grad_of = "fc", graph.name = "fc.grad_b"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %s = graph.accumulate %g {parts = 2, graph.name = "sum"} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %u = graph.sub %w, %s {graph.name = "update"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %u : tensor<64x64xf32>
}

// One micro-batch. The forward half reads what may be kept, the backward half a view of it. A parameter that one half
// alone reads (%v) stays as it is, and so does a function without a backward half.
// CHECK-LABEL: func.func @once
// CHECK: graph.matmul %arg0, %arg2 {graph.name = "embed"}
// CHECK: %[[C:.*]] = graph.cast %arg1 {graph.name = "w.cast"}
// CHECK: %[[K:.*]] = graph.reshape %[[C]] {graph.keeps_copy, graph.name = "kept/w.cast"}
// CHECK: graph.matmul %{{.*}}, %[[K]] {graph.name = "fc"
// CHECK: %[[B:.*]] = graph.reshape %[[K]] {graph.anew = 1 : i64, graph.name = "backward/w.cast"}
// CHECK: graph.matmul %{{.*}}, %[[B]] {graph.grad_of = "fc"
func.func @once(%x: tensor<64x64xbf16> {graph.role = "input", graph.name = "x"}, %w: tensor<64x64xf32> {graph.role = "parameter", graph.name = "w"}, %v: tensor<64x64xbf16> {graph.role = "parameter", graph.name = "v"}) -> tensor<64x64xbf16> {
  %n = graph.matmul %x, %v {graph.name = "embed"} : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
  %c = graph.cast %w {graph.name = "w.cast"} : (tensor<64x64xf32>) -> tensor<64x64xbf16>
  %m = graph.matmul %n, %c {graph.name = "fc"} : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
  %e = graph.matmul %m, %c {transpose_b = true, graph.grad_of = "fc", graph.name = "fc.grad_a"} : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
  return %e : tensor<64x64xbf16>
}

// CHECK-LABEL: func.func @infer
// CHECK-NOT: graph.reshape
func.func @infer(%x: tensor<64x64xf32> {graph.role = "input", graph.name = "x"}, %w: tensor<64x64xf32> {graph.role = "parameter", graph.name = "w"}) -> tensor<64x64xf32> {
  %m = graph.matmul %x, %w {graph.name = "fc"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %n = graph.matmul %m, %w {graph.name = "fc2"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %n : tensor<64x64xf32>
}
