// RUN: tessera-opt --dist-cut-stages %s | FileCheck %s

// What shows a parameter anew for each micro-batch has no stage: each stage shows for itself what it gets once a step.
module attributes {dist.mesh = #dist.mesh<"data=2">} {
  // CHECK-LABEL: module @stage0
  // CHECK: dist.send %{{.*}} {channel = 0 : i64, graph.name = "w", graph.section = "begin", peer = 1 : i64}
  // CHECK: %[[F:.*]] = graph.reshape %{{.*}} {graph.anew = 2 : i64, graph.name = "forward/w", graph.section = "forward"}
  // CHECK: graph.matmul %{{.*}}, %[[F]] {graph.name = "h"
  // CHECK-LABEL: module @stage1
  // CHECK: %[[W:.*]] = dist.receive {channel = 0 : i64, graph.name = "w", graph.section = "begin", peer = 0 : i64}
  // CHECK: %[[G:.*]] = graph.reshape %[[W]] {graph.anew = 2 : i64, graph.name = "forward/w", graph.section = "forward"}
  // CHECK: %[[B:.*]] = graph.reshape %[[W]] {graph.anew = 2 : i64, graph.name = "backward/w", graph.section = "input"}
  // CHECK: graph.matmul %{{.*}}, %[[G]] {graph.name = "y"
  // CHECK: graph.matmul %{{.*}}, %[[B]] {graph.name = "dh", graph.section = "input"}
  func.func @train(%x: tensor<8x4xf32> {graph.role = "input", graph.name = "x"},
                   %w: tensor<4x4xf32> {graph.role = "parameter", graph.name = "w", graph.update = 1 : i64, dist.stage = 0 : i64})
      -> (tensor<f32> {graph.role = "loss", graph.name = "loss"},
          tensor<4x4xf32> {graph.role = "update", graph.name = "w"}) {
    %r = graph.micro_rows %x {parts = 2 : i64} : (tensor<8x4xf32>) -> tensor<4x4xf32>
    %f = graph.reshape %w {graph.anew = 2 : i64, graph.name = "forward/w"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %b = graph.reshape %w {graph.anew = 2 : i64, graph.name = "backward/w"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %h = graph.matmul %r, %f {graph.name = "h", dist.stage = 0 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %y = graph.matmul %h, %f {graph.name = "y", dist.stage = 1 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %l = graph.reduce_sum %y {dims = array<i64: 0, 1>, keepdims = false, dist.stage = 1 : i64} : (tensor<4x4xf32>) -> tensor<f32>
    %loss = graph.accumulate %l {parts = 2 : i64, graph.name = "loss", dist.stage = 1 : i64} : (tensor<f32>) -> tensor<f32>
    %dh = graph.matmul %y, %b {graph.name = "dh", dist.stage = 1 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %dw = graph.matmul %r, %dh {graph.name = "dw", dist.stage = 0 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %sw = graph.accumulate %dw {parts = 2 : i64, dist.stage = 0 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %uw = graph.sub %w, %sw {dist.stage = 0 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %loss, %uw : tensor<f32>, tensor<4x4xf32>
  }
}
