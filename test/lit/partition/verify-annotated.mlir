// What phase 3 must be.
// RUN: tessera-opt --dist-verify-annotated -split-input-file -verify-diagnostics %s

module attributes {dist.mesh = #dist.mesh<"data=2">} {
  func.func @f(%x: tensor<8xf32> {dist.sharding = #dist.sharding<"[data]">}) -> (tensor<8xf32> {dist.sharding = #dist.sharding<"[data]">}) {
    // expected-error @+1 {{operator 'act': graph.relu carries no strategy}}
    %y = graph.relu %x {graph.name = "act"} : (tensor<8xf32>) -> tensor<8xf32>
    return %y : tensor<8xf32>
  }
}

// -----
module attributes {dist.mesh = #dist.mesh<"data=2">} {
  // expected-error @+1 {{argument 0 ('x') of 'f' has no sharding}}
  func.func @f(%x: tensor<8xf32> {graph.name = "x"}) -> (tensor<8xf32> {dist.sharding = #dist.sharding<"[data]">}) {
    %y = graph.relu %x {graph.name = "act", dist.strategy = #dist.strategy<"b0=data">} : (tensor<8xf32>) -> tensor<8xf32>
    return %y : tensor<8xf32>
  }
}

// -----
module attributes {dist.mesh = #dist.mesh<"data=2">} {
  func.func @f(%x: tensor<8x4xf32> {dist.sharding = #dist.sharding<"[-, -]">}) -> (tensor<8x4xf32> {dist.sharding = #dist.sharding<"[-, -]">}) {
    // expected-error @+1 {{mesh axis 'data' is used twice}}
    %y = graph.relu %x {graph.name = "act", dist.strategy = #dist.strategy<"b0=data, b1=data">} : (tensor<8x4xf32>) -> tensor<8x4xf32>
    return %y : tensor<8x4xf32>
  }
}

// -----
// A cut statistic is no operator's own: dist-decompose-stats stands before this.
module attributes {dist.mesh = #dist.mesh<"data=2">} {
  func.func @f(%x: tensor<8x4xf32> {dist.sharding = #dist.sharding<"[-, data]">}) -> (tensor<8x4xf32> {dist.sharding = #dist.sharding<"[-, data]">}) {
    // expected-error-re @+1 {{operator 'p': its statistics are cut {{.*}}run dist-decompose-stats before this pass}}
    %y = graph.softmax %x {graph.name = "p", dim = 1 : i64, dist.strategy = #dist.strategy<"d1=data">} : (tensor<8x4xf32>) -> tensor<8x4xf32>
    return %y : tensor<8x4xf32>
  }
}

// -----
module attributes {dist.mesh = #dist.mesh<"data=2">} {
  func.func @f(%x: tensor<8xf32> {dist.sharding = #dist.sharding<"[-]">}) -> (tensor<8xf32> {dist.sharding = #dist.sharding<"[data]">}) {
    %y = graph.relu %x {graph.name = "act", dist.strategy = #dist.strategy<"b0=data">} : (tensor<8xf32>) -> tensor<8xf32>
    return %y : tensor<8xf32>
  }
}
