// RUN: tessera-opt --dist-cut-stages %s | FileCheck %s

// Two layers in two stages. What @train sends to the stage before is `input`, and what else the gradients need is
// `weight`. The loss and the learning rate are told by every stage; what depends on the step alone is computed in both.
module attributes {dist.mesh = #dist.mesh<"data=2">} {
  // CHECK-LABEL: module @stage0
  // CHECK-SAME: dist.mesh = #dist.mesh<"data=2">, dist.stage = 0 : i64, dist.stages = 2 : i64
  // CHECK: func.func @train(%[[X:.*]]: tensor<8x4xf32> {graph.name = "x", graph.ordinal = 0 : i64, graph.role = "input"},
  // CHECK-SAME: %[[STEP:.*]]: tensor<i64> {graph.name = "step", graph.role = "step"},
  // CHECK-SAME: %[[W:.*]]: tensor<4x4xf32> {graph.name = "w", graph.role = "parameter", graph.update = 2 : i64})
  // CHECK-SAME: graph.role = "loss"
  // CHECK-SAME: graph.role = "learning_rate"
  // CHECK-SAME: graph.role = "update"
  // CHECK-SAME: graph.micro_batches = 2 : i64
  // CHECK: dist.send %[[W]] {channel = 0 : i64, graph.name = "w", graph.section = "begin", peer = 1 : i64}
  // CHECK: %[[R:.*]] = graph.micro_rows %[[X]] {graph.section = "forward"
  // CHECK: %[[H:.*]] = graph.matmul %[[R]], %[[W]] {graph.name = "h", graph.section = "forward"}
  // CHECK: dist.send %[[H]] {channel = 1 : i64, graph.name = "h", graph.section = "forward", peer = 1 : i64}
  // CHECK: %[[DH:.*]] = dist.receive {channel = 3 : i64, graph.name = "dh", graph.section = "weight", peer = 1 : i64}
  // CHECK: %[[DW:.*]] = graph.matmul %[[R]], %[[DH]] {{.*}}graph.section = "weight"
  // CHECK: %[[DW2:.*]] = dist.receive {channel = 4 : i64, graph.name = "dw2", graph.section = "weight", peer = 1 : i64}
  // CHECK: %[[SUM:.*]] = graph.add %[[DW]], %[[DW2]] {{.*}}graph.section = "weight"
  // CHECK: graph.accumulate %[[SUM]] {graph.section = "weight"
  // CHECK: %[[LR:.*]] = graph.cast %[[STEP]] {graph.section = "end"}
  // CHECK: graph.sub %[[W]]
  // CHECK-SAME: graph.section = "end"
  // CHECK: %[[LOSS:.*]] = dist.receive {channel = 2 : i64, graph.name = "loss", graph.section = "end", peer = 1 : i64} : tensor<f32>
  // CHECK: return %[[LOSS]], %[[LR]], %{{.*}}

  // Without micro-batches there is one section, and no operator carries it.
  // CHECK: func.func @eval
  // CHECK-NOT: graph.section
  // CHECK: dist.send

  // CHECK-LABEL: module @stage1
  // CHECK: func.func @train(%[[STEP:.*]]: tensor<i64>
  // CHECK-SAME: graph.micro_batches = 2 : i64
  // CHECK-NOT: micro_rows
  // CHECK: %[[H:.*]] = dist.receive {channel = 1 : i64, graph.name = "h", graph.section = "forward", peer = 0 : i64}
  // CHECK: %[[W:.*]] = dist.receive {channel = 0 : i64, graph.name = "w", graph.section = "begin", peer = 0 : i64}
  // CHECK: graph.matmul %[[H]], %[[W]] {graph.name = "y", graph.section = "forward"}
  // CHECK: graph.accumulate {{.*}}graph.name = "loss", graph.section = "forward"
  // CHECK: dist.send %{{.*}} {channel = 2 : i64, graph.name = "loss", graph.section = "end", peer = 0 : i64}
  // CHECK: graph.matmul {{.*}}graph.name = "dh", graph.section = "input"
  // CHECK: dist.send %{{.*}} {channel = 3 : i64, graph.name = "dh", graph.section = "input", peer = 0 : i64}
  // CHECK: graph.matmul {{.*}}graph.name = "dw2", graph.section = "input"
  // CHECK: dist.send %{{.*}} {channel = 4 : i64, graph.name = "dw2", graph.section = "input", peer = 0 : i64}
  // CHECK: graph.accumulate {{.*}}graph.name = "db", graph.section = "weight"
  // CHECK: %[[LR:.*]] = graph.cast %[[STEP]] {graph.section = "end"}
  // CHECK: func.func @eval(%[[B:.*]]: tensor<4x4xf32> {graph.name = "b", graph.role = "parameter"})
  // CHECK-SAME: graph.ordinal = 0 : i64, graph.role = "output"
  func.func @train(%x: tensor<8x4xf32> {graph.role = "input", graph.name = "x"},
                   %step: tensor<i64> {graph.role = "step", graph.name = "step"},
                   %w: tensor<4x4xf32> {graph.role = "parameter", graph.name = "w", graph.update = 2 : i64, dist.stage = 0 : i64},
                   %b: tensor<4x4xf32> {graph.role = "parameter", graph.name = "b", graph.update = 3 : i64, dist.stage = 1 : i64})
      -> (tensor<f32> {graph.role = "loss", graph.name = "loss"},
          tensor<f32> {graph.role = "learning_rate", graph.name = "lr"},
          tensor<4x4xf32> {graph.role = "update", graph.name = "w"},
          tensor<4x4xf32> {graph.role = "update", graph.name = "b"}) {
    %lr = graph.cast %step : (tensor<i64>) -> tensor<f32>
    %r = graph.micro_rows %x {parts = 2 : i64} : (tensor<8x4xf32>) -> tensor<4x4xf32>
    %h = graph.matmul %r, %w {graph.name = "h", dist.stage = 0 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %y = graph.matmul %h, %w {graph.name = "y", dist.stage = 1 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %z = graph.add %y, %b {graph.name = "z", dist.stage = 1 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %l = graph.reduce_sum %z {dims = array<i64: 0, 1>, keepdims = false, dist.stage = 1 : i64} : (tensor<4x4xf32>) -> tensor<f32>
    %loss = graph.accumulate %l {parts = 2 : i64, graph.name = "loss", dist.stage = 1 : i64} : (tensor<f32>) -> tensor<f32>
    %dh = graph.matmul %z, %w {graph.name = "dh", dist.stage = 1 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %dw2 = graph.matmul %h, %z {graph.name = "dw2", dist.stage = 1 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %dw1 = graph.matmul %r, %dh {graph.name = "dw1", dist.stage = 0 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %dw = graph.add %dw1, %dw2 {dist.stage = 0 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %db = graph.neg %z {dist.stage = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %sw = graph.accumulate %dw {parts = 2 : i64, dist.stage = 0 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %sb = graph.accumulate %db {parts = 2 : i64, graph.name = "db", dist.stage = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %uw = graph.sub %w, %sw {dist.stage = 0 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %ub = graph.sub %b, %sb {dist.stage = 1 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %loss, %lr, %uw, %ub : tensor<f32>, tensor<f32>, tensor<4x4xf32>, tensor<4x4xf32>
  }

  func.func @eval(%x: tensor<8x4xf32> {graph.role = "input", graph.name = "x"},
                  %w: tensor<4x4xf32> {graph.role = "parameter", graph.name = "w", dist.stage = 0 : i64},
                  %b: tensor<4x4xf32> {graph.role = "parameter", graph.name = "b", dist.stage = 1 : i64})
      -> (tensor<8x4xf32> {graph.role = "output", graph.name = "y"}) {
    %h = graph.matmul %x, %w {dist.stage = 0 : i64} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %y = graph.matmul %h, %b {dist.stage = 1 : i64} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    return %y : tensor<8x4xf32>
  }
}
