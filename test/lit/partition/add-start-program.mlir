// Before the first step, what several ranks hold is sent from the first of them. w is whole on every rank, v lies in
// slices along data and is the same along model, u is no rank's copy of another's.
// RUN: tessera-opt --dist-add-start-program -split-input-file %s | FileCheck %s

module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  func.func @train(%w: tensor<8xf32> {dist.sharding = #dist.sharding<"[-]">, graph.role = "parameter", graph.name = "w"},
                   %v: tensor<4xf32> {dist.sharding = #dist.sharding<"[data]">, graph.role = "state", graph.name = "v"},
                   %u: tensor<8xf32> {dist.sharding = #dist.sharding<"[data+model]">, graph.role = "state", graph.name = "u"},
                   %x: tensor<8xf32> {dist.sharding = #dist.sharding<"[-]">, graph.role = "input", graph.name = "x"})
      -> (tensor<8xf32> {dist.sharding = #dist.sharding<"[-]">, graph.role = "loss", graph.name = "loss"}) {
    return %w : tensor<8xf32>
  }
  // What two functions hold is sent once.
  func.func @eval(%w: tensor<8xf32> {dist.sharding = #dist.sharding<"[-]">, graph.role = "parameter", graph.name = "w"})
      -> (tensor<8xf32> {dist.sharding = #dist.sharding<"[-]">, graph.role = "output", graph.name = "y"}) {
    return %w : tensor<8xf32>
  }
}
// CHECK-LABEL: func.func @start(
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<8xf32> {{{.*}}graph.name = "w", graph.role = "parameter", graph.update = 0 : i64}
// CHECK-SAME: %[[V:[a-z0-9]+]]: tensor<4xf32> {{{.*}}graph.name = "v", graph.role = "state", graph.update = 1 : i64})
// CHECK-NEXT: %[[NEW:.*]] = dist.collective "broadcast" %[[W]] {axes = ["data", "model"], graph.name = "w"
// CHECK-NEXT: %[[NEWV:.*]] = dist.collective "broadcast" %[[V]] {axes = ["model"], graph.name = "v"
// CHECK-NEXT: return %[[NEW]], %[[NEWV]]

// -----
// Where nobody holds a copy there is no such program.
module attributes {dist.mesh = #dist.mesh<"data=2">} {
  func.func @train(%w: tensor<4xf32> {dist.sharding = #dist.sharding<"[data]">, graph.role = "parameter", graph.name = "w"})
      -> (tensor<4xf32> {dist.sharding = #dist.sharding<"[data]">, graph.role = "loss", graph.name = "loss"}) {
    return %w : tensor<4xf32>
  }
}
// CHECK: func.func @train(
// CHECK-NOT: @start
