// RUN: tessera-opt --graph-schedule %s | FileCheck %s
// RUN: tessera-opt --graph-fuse --graph-schedule %s | FileCheck %s --check-prefix=FUSED

module attributes {dist.mesh = #dist.mesh<"data=2">} {
  // The update runs last, as its turn says, though it could free the gradient before the next one. Who has no turn runs
  // with its reader. No turn comes before what its operator needs, and turns are gone afterwards.
  // CHECK-LABEL: func.func @train
  // CHECK-NEXT: %[[G1:.*]] = graph.matmul
  // CHECK-NEXT: %[[S1:.*]] = dist.collective "all-reduce" %[[G1]] {{.*}}dist.beside
  // CHECK-NEXT: %[[G2:.*]] = graph.matmul
  // CHECK-NEXT: %[[S2:.*]] = dist.collective "all-reduce" %[[G2]] {{.*}}dist.beside
  // CHECK-NEXT: %[[V:.*]] = graph.abs %arg1
  // CHECK-NEXT: %[[U1:.*]] = graph.sub %[[V]], %[[S1]]
  // CHECK-NEXT: %[[U2:.*]] = graph.sub %arg2, %[[S2]]
  // CHECK-NOT: graph.turn

  // A loop has the turn of its members.
  // FUSED-LABEL: func.func @train
  // FUSED: graph.matmul
  // FUSED-NEXT: dist.collective
  // FUSED-NEXT: graph.matmul
  // FUSED-NEXT: dist.collective
  // FUSED-NEXT: graph.fused
  // FUSED-NOT: graph.turn
  func.func @train(%x: tensor<8x4xf32> {graph.role = "input"},
                   %w1: tensor<8x8xf32> {graph.role = "parameter", graph.update = 0 : i64},
                   %w2: tensor<4x4xf32> {graph.role = "parameter", graph.update = 1 : i64})
      -> (tensor<8x8xf32>, tensor<4x4xf32>) {
    %g1 = graph.matmul %x, %x {transpose_b = true, graph.turn = 0 : i64} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x8xf32>
    %v = graph.abs %w1 : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %s1 = dist.collective "all-reduce" %g1 {axes = ["data"], reduction = "sum", dist.beside, graph.turn = 1 : i64} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %u1 = graph.sub %v, %s1 {graph.turn = 4 : i64} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %g2 = graph.matmul %x, %x {transpose_a = true, graph.turn = 2 : i64} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %s2 = dist.collective "all-reduce" %g2 {axes = ["data"], reduction = "sum", dist.beside, graph.turn = 3 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %u2 = graph.sub %w2, %s2 {graph.turn = 5 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %u1, %u2 : tensor<8x8xf32>, tensor<4x4xf32>
  }

  // A turn before the operand's is too early.
  // CHECK-LABEL: func.func @early
  // CHECK-NEXT: %[[A:.*]] = graph.relu
  // CHECK-NEXT: %[[B:.*]] = graph.exp %[[A]]
  // CHECK-NEXT: graph.neg
  func.func @early(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
    %c = graph.neg %x {graph.turn = 2 : i64} : (tensor<8xf32>) -> tensor<8xf32>
    %a = graph.relu %x {graph.turn = 1 : i64} : (tensor<8xf32>) -> tensor<8xf32>
    %b = graph.exp %a {graph.turn = 0 : i64} : (tensor<8xf32>) -> tensor<8xf32>
    return %b, %c : tensor<8xf32>, tensor<8xf32>
  }
}
