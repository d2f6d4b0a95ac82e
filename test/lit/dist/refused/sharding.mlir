// RUN: tessera-opt %s --dist-verify-annotated --split-input-file --verify-diagnostics

// Texts of shardings, and shardings that do not fit their tensor.

module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  // expected-error @+1 {{sharding 'data, -': expected '[' at 'data, -'}}
  func.func @f(%x: tensor<8x6xf32> {graph.name = "x", dist.sharding = #dist.sharding<"data, -">}) {
    return
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  // expected-error @+1 {{sharding '[data, -': missing ']' after 'data, -'}}
  func.func @f(%x: tensor<8x6xf32> {graph.name = "x", dist.sharding = #dist.sharding<"[data, -">}) {
    return
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  // expected-error @+1 {{'rows'}}
  func.func @f(%x: tensor<8x6xf32> {graph.name = "x", dist.sharding = #dist.sharding<"[rows, -]">}) {
    return
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  // expected-error @+1 {{'x' is no number of elements: expected axes and a unit as in 'data/64'}}
  func.func @f(%x: tensor<8x6xf32> {graph.name = "x", dist.sharding = #dist.sharding<"[data/x, -]">}) {
    return
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  // expected-error @+1 {{expected sum(...), max(...) or min(...) at 'mean(data)'}}
  func.func @f(%x: tensor<8x6xf32> {graph.name = "x", dist.sharding = #dist.sharding<"[-, -] mean(data)">}) {
    return
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  // expected-error @+1 {{unexpected 'more' at the end}}
  func.func @f(%x: tensor<8x6xf32> {graph.name = "x", dist.sharding = #dist.sharding<"[-, -] sum(data) more">}) {
    return
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  // expected-error @+1 {{a sharding of 1 dimensions on a tensor of 2}}
  func.func @f(%x: tensor<8x6xf32> {graph.name = "x", dist.sharding = #dist.sharding<"[data]">}) {
    return
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  // expected-error @+1 {{mesh axis 'data' is used twice}}
  func.func @f(%x: tensor<8x6xf32> {graph.name = "x", dist.sharding = #dist.sharding<"[data, data]">}) {
    return
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  // expected-error @+1 {{mesh axis 'data' is used twice}}
  func.func @f(%x: tensor<8x6xf32> {graph.name = "x", dist.sharding = #dist.sharding<"[data, -] sum(data)">}) {
    return
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  // expected-error @+1 {{dimension 0 of extent 2 cannot be cut in 4 blocks}}
  func.func @f(%x: tensor<2x6xf32> {graph.name = "x", dist.sharding = #dist.sharding<"[data+model, -]">}) {
    return
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  // expected-error @+1 {{cannot be cut in 2 blocks of units of 3}}
  func.func @f(%x: tensor<8x6xf32> {graph.name = "x", dist.sharding = #dist.sharding<"[data/3, -]">}) {
    return
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  // expected-error @+1 {{dimension 0 of extent 8 has the same blocks in units of 1 as in units of 2: write the smaller unit, which is none}}
  func.func @f(%x: tensor<8x6xf32> {graph.name = "x", dist.sharding = #dist.sharding<"[data/2, -]">}) {
    return
  }
}
