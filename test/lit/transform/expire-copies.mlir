// RUN: tessera-opt --graph-expire-copies %s | FileCheck %s --check-prefixes=CHECK,PARAMETERS
// RUN: tessera-opt --graph-expire-copies=activations=true %s | FileCheck %s --check-prefixes=CHECK,ACTIVATIONS

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

// What both halves read of an activation, the backward half reads anew: as it is, through a view of its own where the
// forward half has one (%v, %w), and widened for itself (%c). The forward half no longer shows
// anything for the backward half alone (%w). What one half alone reads (%m, %e) stays as it is, and so do small values (%s).
// CHECK-LABEL: func.func @activations
// PARAMETERS-NOT: graph.anew
// ACTIVATIONS: %[[X:.*]] = graph.matmul %arg0, %arg1 {graph.name = "embed"}
// ACTIVATIONS-NEXT: %[[C:.*]] = graph.cast %[[X]] {graph.name = "widen"}
// ACTIVATIONS-NEXT: graph.reduce_sum %[[C]]
// ACTIVATIONS-NEXT: %[[V:.*]] = graph.reshape %[[X]] {graph.name = "flat"}
// ACTIVATIONS-NEXT: graph.matmul %[[V]], %arg1 {graph.name = "fc"}
// ACTIVATIONS: %[[M:.*]] = graph.matmul %{{.*}}, %arg1 {graph.name = "fc2"}
// ACTIVATIONS-NEXT: graph.cast %[[M]]
// ACTIVATIONS-NEXT: %[[B:.*]] = graph.reshape %[[X]] {graph.anew = 1 : i64, graph.name = "backward/embed"}
// ACTIVATIONS-NEXT: %[[BC:.*]] = graph.cast %[[B]] {graph.grad_of = "widen", graph.name = "backward/widen"}
// ACTIVATIONS-NEXT: %[[BV:.*]] = graph.reshape %[[B]] {graph.grad_of = "flat", graph.name = "backward/flat"}
// ACTIVATIONS-NEXT: %[[BW:.*]] = graph.reshape %[[B]] {graph.grad_of = "turned", graph.name = "backward/turned"}
// ACTIVATIONS: graph.mul %{{.*}}, %[[BC]] {graph.grad_of = "widen"
// ACTIVATIONS: graph.matmul %[[BV]], %[[M]] {graph.grad_of = "fc"
// ACTIVATIONS: graph.matmul %[[BW]], %[[M]] {graph.grad_of = "turned"
func.func @activations(%x: tensor<64x64xbf16> {graph.role = "input", graph.name = "x"}, %p: tensor<64x64xbf16> {graph.role = "parameter", graph.name = "p"}) -> (tensor<64x64xf32>, tensor<64x64xbf16>, tensor<64x64xbf16>) {
  %a = graph.matmul %x, %p {graph.name = "embed"} : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
  %c = graph.cast %a {graph.name = "widen"} : (tensor<64x64xbf16>) -> tensor<64x64xf32>
  %s = graph.reduce_sum %c {dims = array<i64: 1>, keepdims = false, graph.name = "mean"} : (tensor<64x64xf32>) -> tensor<64xf32>
  %v = graph.reshape %a {graph.name = "flat"} : (tensor<64x64xbf16>) -> tensor<64x64xbf16>
  %w = graph.reshape %a {graph.name = "turned"} : (tensor<64x64xbf16>) -> tensor<64x64xbf16>
  %n = graph.matmul %v, %p {graph.name = "fc"} : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
  %t = graph.cast %s {graph.name = "narrow"} : (tensor<64xf32>) -> tensor<64xbf16>
  %b = graph.add %n, %t {graph.name = "bias"} : (tensor<64x64xbf16>, tensor<64xbf16>) -> tensor<64x64xbf16>
  %m = graph.matmul %b, %p {graph.name = "fc2"} : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
  %d = graph.cast %m {graph.grad_of = "widen", graph.name = "widen.grad_x"} : (tensor<64x64xbf16>) -> tensor<64x64xf32>
  %e = graph.mul %d, %c {graph.grad_of = "widen", graph.name = "widen.grad_c"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %f = graph.mul %e, %s {graph.grad_of = "mean", graph.name = "mean.grad_x"} : (tensor<64x64xf32>, tensor<64xf32>) -> tensor<64x64xf32>
  %g = graph.matmul %v, %m {transpose_a = true, graph.grad_of = "fc", graph.name = "fc.grad_b"} : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
  %h = graph.matmul %w, %m {transpose_a = true, graph.grad_of = "turned", graph.name = "turned.grad_b"} : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
  return %f, %g, %h : tensor<64x64xf32>, tensor<64x64xbf16>, tensor<64x64xbf16>
}

// CHECK-LABEL: func.func @infer
// CHECK-NOT: graph.reshape
func.func @infer(%x: tensor<64x64xf32> {graph.role = "input", graph.name = "x"}, %w: tensor<64x64xf32> {graph.role = "parameter", graph.name = "w"}) -> tensor<64x64xf32> {
  %m = graph.matmul %x, %w {graph.name = "fc"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %n = graph.matmul %m, %w {graph.name = "fc2"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %n : tensor<64x64xf32>
}
