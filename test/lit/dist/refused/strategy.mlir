// RUN: tessera-opt %s --dist-verify-annotated --split-input-file --verify-diagnostics

// Texts of strategies, and strategies that do not fit their operator.

module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  func.func @f(%x: tensor<8x6xf32> {graph.name = "x", dist.sharding = #dist.sharding<"[-, -]">}) {
    // expected-error @+1 {{the operator has no factor 'rows'; its rule is}}
    %y = graph.relu %x {graph.name = "act", dist.strategy = #dist.strategy<"rows=data">} : (tensor<8x6xf32>) -> tensor<8x6xf32>
    return
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  func.func @f(%x: tensor<8x6xf32> {graph.name = "x", dist.sharding = #dist.sharding<"[-, -]">}) {
    // expected-error @+1 {{'0' is no number of elements: expected axes and a unit as in 'data/64'}}
    %y = graph.relu %x {graph.name = "act", dist.strategy = #dist.strategy<"b0=data/0">} : (tensor<8x6xf32>) -> tensor<8x6xf32>
    return
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  func.func @f(%x: tensor<8x6xf32> {graph.name = "x", dist.sharding = #dist.sharding<"[-, -]">}) {
    // expected-error @+1 {{'lines'}}
    %y = graph.relu %x {graph.name = "act", dist.strategy = #dist.strategy<"b0=lines">} : (tensor<8x6xf32>) -> tensor<8x6xf32>
    return
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  func.func @f(%x: tensor<8x6xf32> {graph.name = "x", dist.sharding = #dist.sharding<"[-, -]">}) {
    // expected-error @+1 {{expected 'partial GROUP(axes)' with a group of the operator's linear clause}}
    %y = graph.relu %x {graph.name = "act", dist.strategy = #dist.strategy<"b0=data | 0(model)">} : (tensor<8x6xf32>) -> tensor<8x6xf32>
    return
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  func.func @f(%x: tensor<8x6xf32> {graph.name = "x", dist.sharding = #dist.sharding<"[-, -]">}) {
    // expected-error @+1 {{expected 'partial GROUP(axes)' with a group of the operator's linear clause}}
    %y = graph.neg %x {graph.name = "act", dist.strategy = #dist.strategy<"| partial 1(model)">} : (tensor<8x6xf32>) -> tensor<8x6xf32>
    return
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  func.func @f(%x: tensor<8x6xf32> {graph.name = "x", dist.sharding = #dist.sharding<"[-, -]">}) {
    // expected-error @+1 {{'rows'}}
    %y = graph.neg %x {graph.name = "act", dist.strategy = #dist.strategy<"| partial 0(rows)">} : (tensor<8x6xf32>) -> tensor<8x6xf32>
    return
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  func.func @f(%x: tensor<8x6xf32> {graph.name = "x", dist.sharding = #dist.sharding<"[-, -]">}) {
    // expected-error @+1 {{the operator has 1 results}}
    %y = graph.relu %x {graph.name = "act", dist.strategy = #dist.strategy<"b0=data -> [data, -], [data, -]">} : (tensor<8x6xf32>) -> tensor<8x6xf32>
    return
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  func.func @f(%x: tensor<8x6xf32> {graph.name = "x", dist.sharding = #dist.sharding<"[-, -]">}) {
    // expected-error @+1 {{expected sum(...), max(...) or min(...) at 'and'}}
    %y = graph.relu %x {graph.name = "act", dist.strategy = #dist.strategy<"b0=data -> [data, -] and">} : (tensor<8x6xf32>) -> tensor<8x6xf32>
    return
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  func.func @f(%x: tensor<8x6xf32> {graph.name = "x", dist.sharding = #dist.sharding<"[-, -]">}) {
    // expected-error @+1 {{mesh axis 'data' is used twice}}
    %y = graph.relu %x {graph.name = "act", dist.strategy = #dist.strategy<"b0=data, b1=data">} : (tensor<8x6xf32>) -> tensor<8x6xf32>
    return
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  func.func @f(%x: tensor<8x6xf32> {graph.name = "x", dist.sharding = #dist.sharding<"[-, -]">}) {
    // expected-error @+1 {{factor 'b0' of extent 8 cannot be cut in 2 parts of units of 8}}
    %y = graph.relu %x {graph.name = "act", dist.strategy = #dist.strategy<"b0=data/8">} : (tensor<8x6xf32>) -> tensor<8x6xf32>
    return
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  func.func @f(%x: tensor<8x6xf32> {graph.name = "x", dist.sharding = #dist.sharding<"[-, -]">}) {
    // expected-error @+1 {{expected 'partial GROUP(axes)' with a group of the operator's linear clause}}
    %y = graph.relu %x {graph.name = "act", dist.strategy = #dist.strategy<"| partial 0(data)">} : (tensor<8x6xf32>) -> tensor<8x6xf32>
    return
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  func.func @f(%x: tensor<8x6xf32> {graph.name = "x", dist.sharding = #dist.sharding<"[-, -]">}) {
    // expected-error @+1 {{a sharding of 1 dimensions on a tensor of 2}}
    %y = graph.relu %x {graph.name = "act", dist.strategy = #dist.strategy<"b0=data -> [data]">} : (tensor<8x6xf32>) -> tensor<8x6xf32>
    return
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  func.func @f(%x: tensor<8x6xf32> {graph.name = "x", dist.sharding = #dist.sharding<"[-, -]">}) {
    // expected-error @+1 {{result 0 cannot be partial over 'model'}}
    %y = graph.relu %x {graph.name = "act", dist.strategy = #dist.strategy<"b0=data -> [-, -] sum(model)">} : (tensor<8x6xf32>) -> tensor<8x6xf32>
    return
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  func.func @f(%x: tensor<8x6xf32> {graph.name = "x", dist.sharding = #dist.sharding<"[-, -]">}) {
    // expected-error @+1 {{result 0 cannot be partial over 'data'}}
    %y = graph.reduce_max %x {dims = array<i64: 1>, keepdims = false, graph.name = "act", dist.strategy = #dist.strategy<"d1=data -> [-] sum(data)">} : (tensor<8x6xf32>) -> tensor<8xf32>
    return
  }
}
