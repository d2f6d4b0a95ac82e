// RUN: tessera-opt --graph-schedule %s | FileCheck %s

// A reduce-scatter keeps a part of what it frees, and runs at once. A gather takes memory and stays where it stood.
module attributes {dist.mesh = #dist.mesh<"data=2">} {
  // CHECK-LABEL: func.func @moves
  func.func @moves(%x: tensor<8x8xf32> {graph.role = "input"}) -> (tensor<4x8xf32>, tensor<16x8xf32>, tensor<16x8xf32>) {
    // CHECK-NEXT: %[[A:.*]] = graph.matmul
    // CHECK-NEXT: %[[S:.*]] = dist.collective "reduce-scatter" %[[A]]
    // CHECK-NEXT: %[[B:.*]] = graph.concat
    // CHECK-NEXT: %[[G:.*]] = dist.collective "all-gather" %arg0
    // CHECK-NEXT: return %[[S]], %[[B]], %[[G]]
    %a = graph.matmul %x, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %b = graph.concat %x, %x {dim = 0 : i64} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %g = dist.collective "all-gather" %x {axes = ["data"], dim = 0 : i64} : (tensor<8x8xf32>) -> tensor<16x8xf32>
    %s = dist.collective "reduce-scatter" %a {axes = ["data"], dim = 0 : i64, reduction = "sum"} : (tensor<8x8xf32>) -> tensor<4x8xf32>
    return %s, %b, %g : tensor<4x8xf32>, tensor<16x8xf32>, tensor<16x8xf32>
  }
}
