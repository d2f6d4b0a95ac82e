// RUN: tessera-opt --dist-cut-stages=devices=2 %s | FileCheck %s
// RUN: tessera-opt --dist-cut-stages="devices=2 returns" %s | FileCheck %s --check-prefix=BACK
// RUN: not tessera-opt --dist-cut-stages=devices=3 %s 2>&1 | FileCheck %s --check-prefix=THREE
// RUN: not tessera-opt --dist-cut-stages="stages=6 devices=2 returns" %s 2>&1 | FileCheck %s --check-prefix=SIX

// THREE: 4 stages cannot lie on 3 devices
// SIX: 6 stages cannot lie on 2 devices there and back

// Four layers on two devices. The stages 0 and 2 are the chunks 0 and 1 of device 0, and what goes from stage 1 to stage
// 2 comes back to it. What both chunks of a device read of each micro-batch (%a) each of them receives.
module {
  // CHECK-LABEL: module @stage0
  // CHECK-SAME: dist.stage = 0 : i64, dist.stages = 2 : i64
  // CHECK: func.func @train
  // CHECK-SAME: graph.chunks = 2 : i64, graph.micro_batches = 2 : i64
  // CHECK: %[[A:.*]] = graph.mul %{{.*}} {graph.name = "a", graph.section = "forward"}
  // CHECK: dist.send %[[A]] {channel = 0 : i64, graph.name = "a", graph.section = "forward", peer = 1 : i64}
  // CHECK: dist.send %[[A]] {channel = 1 : i64, graph.name = "a", graph.section = "forward", peer = 1 : i64}
  // CHECK: %[[B:.*]] = dist.receive {channel = 2 : i64, graph.name = "b", graph.section = "forward 1", peer = 1 : i64}
  // CHECK: %[[C:.*]] = graph.exp %[[B]] {graph.name = "c", graph.section = "forward 1"}
  // CHECK: dist.send %[[C]] {{.*}}graph.section = "forward 1", peer = 1
  // CHECK: %[[GD:.*]] = dist.receive {{.*}}graph.name = "gd", graph.section = "input 1", peer = 1
  // CHECK: %[[GC:.*]] = graph.mul %[[GD]], %[[C]] {graph.name = "gc", graph.section = "input 1"}
  // CHECK: dist.send %[[GC]] {{.*}}graph.section = "input 1", peer = 1
  // CHECK: %[[GB:.*]] = dist.receive {{.*}}graph.name = "gb", graph.section = "weight", peer = 1
  // CHECK: graph.mul %[[GB]], %[[A]] {graph.name = "ga", graph.section = "weight"}

  // CHECK-LABEL: module @stage1
  // CHECK: dist.receive {channel = 0 : i64, graph.name = "a", graph.section = "forward", peer = 0 : i64}
  // CHECK: graph.neg %{{.*}} {graph.name = "b", graph.section = "forward"}
  // CHECK: dist.receive {{.*}}graph.name = "c", graph.section = "forward 1", peer = 0
  // CHECK: dist.receive {channel = 1 : i64, graph.name = "a", graph.section = "forward 1", peer = 0 : i64}
  // CHECK: graph.add {{.*}}graph.name = "d", graph.section = "forward 1"
  // CHECK: graph.neg {{.*}}graph.name = "gd", graph.section = "input 1"
  // CHECK: graph.mul {{.*}}graph.name = "gb", graph.section = "input"

  // There and back the stages 1 and 2 are neighbours on device 1, and nothing is sent between them.
  // BACK-LABEL: module @stage0
  // BACK: graph.mul {{.*}}graph.name = "a", graph.section = "forward"
  // BACK: graph.add {{.*}}graph.name = "d", graph.section = "forward 1"
  // BACK: graph.neg {{.*}}graph.name = "gd", graph.section = "input 1"
  // BACK-LABEL: module @stage1
  // BACK: %[[B:.*]] = graph.neg {{.*}}graph.name = "b", graph.section = "forward"
  // BACK-NEXT: graph.exp %[[B]] {graph.name = "c", graph.section = "forward 1"}
  // BACK: %[[GC:.*]] = graph.mul {{.*}}graph.name = "gc", graph.section = "input 1"
  // BACK-NEXT: graph.mul %[[GC]], %[[B]] {graph.name = "gb", graph.section = "input"}
  func.func @train(%x: tensor<8xf32> {graph.role = "input", graph.name = "x"},
                   %w: tensor<4xf32> {graph.role = "parameter", graph.name = "w", graph.update = 1 : i64, dist.stage = 0 : i64})
      -> (tensor<4xf32> {graph.role = "output", graph.name = "y"}, tensor<4xf32> {graph.role = "update", graph.name = "w"}) {
    %r = graph.micro_rows %x {parts = 2 : i64} : (tensor<8xf32>) -> tensor<4xf32>
    %a = graph.mul %r, %w {graph.name = "a", dist.stage = 0 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %b = graph.neg %a {graph.name = "b", dist.stage = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
    %c = graph.exp %b {graph.name = "c", dist.stage = 2 : i64} : (tensor<4xf32>) -> tensor<4xf32>
    %d = graph.add %c, %a {graph.name = "d", dist.stage = 3 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %y = graph.accumulate %d {parts = 2 : i64, dist.stage = 3 : i64} : (tensor<4xf32>) -> tensor<4xf32>
    %gd = graph.neg %d {graph.name = "gd", dist.stage = 3 : i64} : (tensor<4xf32>) -> tensor<4xf32>
    %gc = graph.mul %gd, %c {graph.name = "gc", dist.stage = 2 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %gb = graph.mul %gc, %b {graph.name = "gb", dist.stage = 1 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %ga = graph.mul %gb, %a {graph.name = "ga", dist.stage = 0 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %s = graph.accumulate %ga {parts = 2 : i64, dist.stage = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
    %u = graph.sub %w, %s {dist.stage = 0 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %y, %u : tensor<4xf32>, tensor<4xf32>
  }
}
