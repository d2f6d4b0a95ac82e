// RUN: tessera-opt --dist-optimize-collectives %s | FileCheck %s
module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  // All users keep their block: a reduce-scatter. (The slices by another axis keep the all-reduce.)
  // CHECK-LABEL: func.func @scatter
  func.func @scatter(%x: tensor<8x6xf32>, %z: tensor<8x6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>) {
    // CHECK-NEXT: %[[A:.*]] = dist.collective "reduce-scatter" %arg0 {axes = ["data"], dim = 0 : i64, reduction = "sum"} : (tensor<8x6xf32>) -> tensor<4x6xf32>
    %a = dist.collective "all-reduce" %x {axes = ["data"], reduction = "sum"} : (tensor<8x6xf32>) -> tensor<8x6xf32>
    %b = dist.collective "slice" %a {axes = ["data"], dim = 0 : i64} : (tensor<8x6xf32>) -> tensor<4x6xf32>
    // CHECK-NEXT: %[[C:.*]] = dist.collective "all-reduce" %arg1
    // CHECK-NEXT: %[[D:.*]] = dist.collective "slice" %[[C]]
    %c = dist.collective "all-reduce" %z {axes = ["data"], reduction = "sum"} : (tensor<8x6xf32>) -> tensor<8x6xf32>
    %d = dist.collective "slice" %c {axes = ["model"], dim = 0 : i64} : (tensor<8x6xf32>) -> tensor<4x6xf32>
    // CHECK-NEXT: return %[[A]], %[[D]]
    return %b, %d : tensor<4x6xf32>, tensor<4x6xf32>
  }

  // Equal collectives are made once, whatever their names; unused ones not at all.
  // CHECK-LABEL: func.func @share
  func.func @share(%x: tensor<4x6xf32>) -> (tensor<8x6xf32>, tensor<8x6xf32>) {
    // CHECK-NEXT: %[[A:.*]] = dist.collective "all-gather"
    // CHECK-NEXT: return %[[A]], %[[A]]
    %a = dist.collective "all-gather" %x {axes = ["data"], dim = 0 : i64, graph.name = "one"} : (tensor<4x6xf32>) -> tensor<8x6xf32>
    %b = dist.collective "all-gather" %x {axes = ["data"], dim = 0 : i64, graph.name = "two"} : (tensor<4x6xf32>) -> tensor<8x6xf32>
    %c = dist.collective "all-reduce" %x {axes = ["data"], reduction = "sum"} : (tensor<4x6xf32>) -> tensor<4x6xf32>
    return %a, %b : tensor<8x6xf32>, tensor<8x6xf32>
  }
}
