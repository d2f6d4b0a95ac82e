// RUN: not tessera-opt --dist-cut-stages=stages=2 --split-input-file %s 2>&1 | FileCheck %s

// CHECK: 'infer': 'w' has no stage that has it
func.func @infer(%w: tensor<4xf32> {graph.role = "parameter", graph.name = "w"}) -> tensor<4xf32> {
  %y = graph.relu %w {dist.stage = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// CHECK: 'infer': operator 'y' has no stage, but reads what only stage 1 has
func.func @infer(%w: tensor<4xf32> {graph.role = "parameter", graph.name = "w", dist.stage = 1 : i64}) -> tensor<4xf32> {
  %y = graph.relu %w {graph.name = "y"} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// CHECK: 'infer': operator 'y' has the stage 2 of 2
func.func @infer(%x: tensor<4xf32> {graph.role = "input", graph.name = "x"}) -> tensor<4xf32> {
  %y = graph.relu %x {graph.name = "y", dist.stage = 2 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// The forward pass goes to later stages only.
// CHECK: 'train': operator 'y' of stage 1 makes for each micro-batch what stage 0 reads before
func.func @train(%x: tensor<8xf32> {graph.role = "input", graph.name = "x"}) -> (tensor<4xf32> {graph.role = "output"}) {
  %r = graph.micro_rows %x {parts = 2 : i64} : (tensor<8xf32>) -> tensor<4xf32>
  %y = graph.relu %r {graph.name = "y", dist.stage = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %z = graph.neg %y {dist.stage = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %s = graph.accumulate %z {parts = 2 : i64, dist.stage = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return %s : tensor<4xf32>
}
