// What runs for each micro-batch and what runs once must fit together.
// RUN: tessera-opt --graph-verify-training -split-input-file -verify-diagnostics %s

// expected-error @below {{result 0 ('loss') belongs to one micro-batch: return a sum over all of them}}
func.func @train(%s: tensor<i64> {graph.role = "step", graph.name = "step"},
                 %x: tensor<4xf32> {graph.role = "input", graph.name = "x"})
    -> (tensor<f32> {graph.role = "loss", graph.name = "loss"}) {
  %r = graph.micro_rows %x {parts = 2 : i64} : (tensor<4xf32>) -> tensor<2xf32>
  %l = graph.reduce_sum %r {dims = array<i64: 0>, keepdims = false} : (tensor<2xf32>) -> tensor<f32>
  return %l : tensor<f32>
}

// -----
func.func @train(%s: tensor<i64> {graph.role = "step", graph.name = "step"},
                 %x: tensor<4xf32> {graph.role = "input", graph.name = "x"})
    -> (tensor<f32> {graph.role = "loss", graph.name = "loss"}) {
  %r = graph.micro_rows %x {parts = 2 : i64} : (tensor<4xf32>) -> tensor<2xf32>
  %l = graph.reduce_sum %r {dims = array<i64: 0>, keepdims = false} : (tensor<2xf32>) -> tensor<f32>
  %a = graph.accumulate %l {parts = 2 : i64} : (tensor<f32>) -> tensor<f32>
  // expected-error @below {{operator 'mean' runs for each micro-batch, but depends on a sum over all of them}}
  %m = graph.add %l, %a {graph.name = "mean"} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %b = graph.accumulate %m {parts = 2 : i64} : (tensor<f32>) -> tensor<f32>
  return %b : tensor<f32>
}

// -----
func.func @train(%s: tensor<i64> {graph.role = "step", graph.name = "step"},
                 %x: tensor<4xf32> {graph.role = "input", graph.name = "x"})
    -> (tensor<f32> {graph.role = "loss", graph.name = "loss"}) {
  %r = graph.micro_rows %x {parts = 2 : i64, graph.name = "rows"} : (tensor<4xf32>) -> tensor<2xf32>
  %l = graph.reduce_sum %r {dims = array<i64: 0>, keepdims = false} : (tensor<2xf32>) -> tensor<f32>
  // expected-error @below {{operator 'sum' is for 4 micro-batches, but 'rows' for 2}}
  %a = graph.accumulate %l {parts = 4 : i64, graph.name = "sum"} : (tensor<f32>) -> tensor<f32>
  return %a : tensor<f32>
}

// -----
func.func @train(%x: tensor<4xf32> {graph.role = "input", graph.name = "x"}) {
  // expected-error @below {{dimension 0 cannot be cut in 3 micro-batches}}
  // expected-error @below {{failed to infer returned types}}
  %r = "graph.micro_rows"(%x) {parts = 3 : i64} : (tensor<4xf32>) -> tensor<1xf32>
  return
}

// -----
// A state may be carried from one micro-batch to the next, and what does not depend on rows may be read by both.
func.func @train(%s: tensor<i64> {graph.role = "step", graph.name = "step"},
                 %x: tensor<4xf32> {graph.role = "input", graph.name = "x"},
                 %n: tensor<f32> {graph.role = "state", graph.name = "n", graph.update = 1 : i64})
    -> (tensor<f32> {graph.role = "loss", graph.name = "loss"},
        tensor<f32> {graph.role = "update", graph.name = "n"}) {
  %half = graph.constant dense<0.5> : tensor<f32>
  %r = graph.micro_rows %x {parts = 2 : i64} : (tensor<4xf32>) -> tensor<2xf32>
  %l = graph.reduce_sum %r {dims = array<i64: 0>, keepdims = false} : (tensor<2xf32>) -> tensor<f32>
  %k = graph.mul %n, %half : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %m = graph.add %k, %l : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %a = graph.accumulate %l {parts = 2 : i64} : (tensor<f32>) -> tensor<f32>
  %h = graph.mul %a, %half : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %h, %m : tensor<f32>, tensor<f32>
}
