// What phase 2 must be. Every module below breaks one rule, but for the last, which breaks none.
// RUN: tessera-opt --graph-verify-training -split-input-file -verify-diagnostics %s

// expected-error @below {{is no function of this phase; there are train, eval, infer}}
func.func @forward(%x: tensor<2xf32> {graph.role = "input", graph.name = "x"})
    -> (tensor<2xf32> {graph.role = "output", graph.name = "y"}) {
  return %x : tensor<2xf32>
}

// -----
// expected-error @below {{must have the step as its first argument}}
func.func @train(%x: tensor<f32> {graph.role = "input", graph.name = "x"},
                 %s: tensor<i64> {graph.role = "step", graph.name = "step"})
    -> (tensor<f32> {graph.role = "loss", graph.name = "loss"}) {
  return %x : tensor<f32>
}

// -----
// expected-error @below {{returns 0 losses}}
func.func @train(%s: tensor<i64> {graph.role = "step", graph.name = "step"},
                 %r: tensor<f32> {graph.role = "input", graph.name = "r"})
    -> (tensor<f32> {graph.role = "learning_rate", graph.name = "learning_rate"}) {
  return %r : tensor<f32>
}

// -----
// expected-error @below {{updates 'x', whose role is input}}
func.func @train(%s: tensor<i64> {graph.role = "step", graph.name = "step"},
                 %x: tensor<f32> {graph.role = "input", graph.name = "x", graph.update = 1 : i64})
    -> (tensor<f32> {graph.role = "loss", graph.name = "loss"},
        tensor<f32> {graph.role = "update", graph.name = "x"}) {
  return %x, %x : tensor<f32>, tensor<f32>
}

// -----
// Nothing but training changes parameters.
// expected-error @below {{updates 'w', whose role is parameter}}
func.func @eval(%w: tensor<f32> {graph.role = "parameter", graph.name = "w", graph.update = 0 : i64})
    -> (tensor<f32> {graph.role = "loss", graph.name = "loss"}) {
  return %w : tensor<f32>
}

// -----
// expected-error @below {{result 0 has the role 'correct'; here there are loss, update, learning_rate, gradient_norm}}
func.func @train(%s: tensor<i64> {graph.role = "step", graph.name = "step"},
                 %x: tensor<f32> {graph.role = "input", graph.name = "x"})
    -> (tensor<f32> {graph.role = "correct", graph.name = "correct"}) {
  return %x : tensor<f32>
}

// -----
// What two functions hold is one tensor when the plan runs.
func.func @eval(%w: tensor<2xf32> {graph.role = "parameter", graph.name = "w"})
    -> (tensor<2xf32> {graph.role = "output", graph.name = "y"}) {
  return %w : tensor<2xf32>
}
// expected-error @below {{the parameter 'w' is 'tensor<3xf32>', but 'tensor<2xf32>' in @eval}}
func.func @infer(%w: tensor<3xf32> {graph.role = "parameter", graph.name = "w"})
    -> (tensor<3xf32> {graph.role = "output", graph.name = "y"}) {
  return %w : tensor<3xf32>
}

// -----
func.func @infer(%x: tensor<2x3x4x4xf32> {graph.role = "input", graph.name = "x"},
                 %s: tensor<3xf32> {graph.role = "parameter", graph.name = "s"},
                 %b: tensor<3xf32> {graph.role = "parameter", graph.name = "b"})
    -> (tensor<2x3x4x4xf32> {graph.role = "output", graph.name = "y"}) {
  // expected-error @below {{is not decomposed: run graph-decompose-norms before this pass}}
  %y, %m, %v = graph.batch_norm %x, %s, %b {epsilon = 1.0e-5 : f64} : (tensor<2x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>)
  return %y : tensor<2x3x4x4xf32>
}

// -----
func.func @infer(%x: tensor<4x8xf32> {graph.role = "input", graph.name = "x"})
    -> (tensor<4x8xf32> {graph.role = "output", graph.name = "y"}) {
  // expected-error @below {{is not decomposed: run graph-decompose-norms before this pass}}
  %y = graph.log_softmax %x {dim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----
func.func @train(%s: tensor<i64> {graph.role = "step", graph.name = "step"},
                 %x: tensor<f32> {graph.role = "input", graph.name = "x"},
                 %t: tensor<f32> {graph.role = "target", graph.name = "target"},
                 %w: tensor<f32> {graph.role = "parameter", graph.name = "w", graph.update = 1 : i64},
                 %m: tensor<f32> {graph.role = "state", graph.name = "momentum/w", graph.update = 2 : i64})
    -> (tensor<f32> {graph.role = "loss", graph.name = "loss"},
        tensor<f32> {graph.role = "update", graph.name = "w"},
        tensor<f32> {graph.role = "update", graph.name = "momentum/w"},
        tensor<f32> {graph.role = "learning_rate", graph.name = "learning_rate"}) {
  return %x, %t, %m, %t : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
}
