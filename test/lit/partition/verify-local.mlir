// What phase 5 must be.
// RUN: tessera-opt --dist-verify-local -split-input-file -verify-diagnostics %s

module attributes {dist.mesh = #dist.mesh<"data=2">} {
  func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @+1 {{a reshard is left in a local program}}
    %y = dist.reshard %x from <"[data]"> to <"[-]"> : tensor<8xf32>
    return %y : tensor<8xf32>
  }
}

// -----
module attributes {dist.mesh = #dist.mesh<"data=2">} {
  func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @+1 {{produces something that is no tensor of static shape}}
    %i = builtin.unrealized_conversion_cast %x : tensor<8xf32> to index
    return %x : tensor<8xf32>
  }
}

// -----
module attributes {dist.mesh = #dist.mesh<"data=2">} {
  func.func @f(%x: tensor<4xf32>) -> tensor<8xf32> {
    %y = dist.collective "all-gather" %x {axes = ["data"], dim = 0 : i64} : (tensor<4xf32>) -> tensor<8xf32>
    return %y : tensor<8xf32>
  }
}
