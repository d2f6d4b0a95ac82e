// What phase 1 must be. Every module below breaks one rule, but for the last, which breaks none.
// RUN: tessera-opt --graph-verify-imported -split-input-file -verify-diagnostics %s

// expected-error @below {{the module has no @infer}}
module {}

// -----
module {
  // expected-error @below {{is no function of this phase; there are forward, infer}}
  func.func @train(%x: tensor<2xf32> {graph.role = "input", graph.name = "x"})
      -> (tensor<2xf32> {graph.role = "output", graph.name = "y"}) {
    return %x : tensor<2xf32>
  }
  func.func @infer(%x: tensor<2xf32> {graph.role = "input", graph.name = "x"})
      -> (tensor<2xf32> {graph.role = "output", graph.name = "y"}) {
    return %x : tensor<2xf32>
  }
}

// -----
// expected-error @below {{argument 0 has the role 'step'; here there are input, parameter, state}}
func.func @infer(%s: tensor<i64> {graph.role = "step", graph.name = "step"})
    -> (tensor<i64> {graph.role = "output", graph.name = "y"}) {
  return %s : tensor<i64>
}

// -----
// expected-error @below {{argument 0 has no name}}
func.func @infer(%x: tensor<2xf32> {graph.role = "input"}) -> (tensor<2xf32> {graph.role = "output", graph.name = "y"}) {
  return %x : tensor<2xf32>
}

// -----
// expected-error @below {{has two arguments of the role parameter called 'w'}}
func.func @infer(%a: tensor<2xf32> {graph.role = "parameter", graph.name = "w"},
                 %b: tensor<2xf32> {graph.role = "parameter", graph.name = "w"})
    -> (tensor<2xf32> {graph.role = "output", graph.name = "y"}) {
  return %a : tensor<2xf32>
}

// -----
// expected-error @below {{has an argument that is no tensor of static shape: 'tensor<?xf32>'}}
func.func @infer(%x: tensor<?xf32> {graph.role = "input", graph.name = "x"})
    -> (tensor<?xf32> {graph.role = "output", graph.name = "y"}) {
  return %x : tensor<?xf32>
}

// -----
// expected-error @below {{result 0 has the role ''; here there are output, update}}
func.func @forward(%x: tensor<2xf32> {graph.role = "input", graph.name = "x"}) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}

// -----
// expected-error @below {{updates 'w', whose role is parameter}}
func.func @forward(%w: tensor<2xf32> {graph.role = "parameter", graph.name = "w", graph.update = 0 : i64})
    -> (tensor<2xf32> {graph.role = "update", graph.name = "w"}) {
  return %w : tensor<2xf32>
}

// -----
// expected-error @below {{the new value of 'mean' is result 0, which is no update}}
func.func @forward(%m: tensor<2xf32> {graph.role = "state", graph.name = "mean", graph.update = 0 : i64})
    -> (tensor<2xf32> {graph.role = "output", graph.name = "y"}) {
  return %m : tensor<2xf32>
}

// -----
// expected-error @below {{the new value of 'mean' has another type than the old one: 'tensor<3xf32>', not 'tensor<2xf32>'}}
func.func @forward(%m: tensor<2xf32> {graph.role = "state", graph.name = "mean", graph.update = 0 : i64},
                   %x: tensor<3xf32> {graph.role = "input", graph.name = "x"})
    -> (tensor<3xf32> {graph.role = "update", graph.name = "mean"}) {
  return %x : tensor<3xf32>
}

// -----
// expected-error @below {{result 0 is the new value of two arguments}}
func.func @forward(%a: tensor<2xf32> {graph.role = "state", graph.name = "a", graph.update = 0 : i64},
                   %b: tensor<2xf32> {graph.role = "state", graph.name = "b", graph.update = 0 : i64})
    -> (tensor<2xf32> {graph.role = "update", graph.name = "a"}) {
  return %a : tensor<2xf32>
}

// -----
// expected-error @below {{result 0 is an update, but of no argument}}
func.func @forward(%a: tensor<2xf32> {graph.role = "state", graph.name = "a"})
    -> (tensor<2xf32> {graph.role = "update", graph.name = "a"}) {
  return %a : tensor<2xf32>
}

// -----
// Inference changes nothing.
// expected-error @below {{result 0 has the role 'update'; here there are output}}
func.func @infer(%m: tensor<2xf32> {graph.role = "state", graph.name = "mean", graph.update = 0 : i64})
    -> (tensor<2xf32> {graph.role = "update", graph.name = "mean"}) {
  return %m : tensor<2xf32>
}

// -----
// expected-error @below {{must have one block}}
func.func private @infer(%x: tensor<2xf32> {graph.role = "input", graph.name = "x"})
    -> (tensor<2xf32> {graph.role = "output", graph.name = "y"})

// -----
func.func @forward(%s: tensor<i64> {graph.role = "step", graph.name = "step"},
                   %x: tensor<2xf32> {graph.role = "input", graph.name = "x"},
                   %m: tensor<2xf32> {graph.role = "state", graph.name = "mean", graph.update = 1 : i64})
    -> (tensor<2xf32> {graph.role = "output", graph.name = "y"},
        tensor<2xf32> {graph.role = "update", graph.name = "mean"}) {
  return %x, %x : tensor<2xf32>, tensor<2xf32>
}
func.func @infer(%x: tensor<2xf32> {graph.role = "input", graph.name = "x"},
                 %m: tensor<2xf32> {graph.role = "state", graph.name = "mean"})
    -> (tensor<2xf32> {graph.role = "output", graph.name = "y"}) {
  return %x : tensor<2xf32>
}
