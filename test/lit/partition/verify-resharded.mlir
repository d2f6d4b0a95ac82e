// RUN: tessera-opt --dist-verify-resharded %s -verify-diagnostics
module attributes {dist.mesh = #dist.mesh<"data=2">} {
  func.func @f(%x: tensor<8xf32> {dist.sharding = #dist.sharding<"[-]">}) -> (tensor<8xf32> {dist.sharding = #dist.sharding<"[data]">}) {
    // expected-error @+1 {{operand 0 of 'act' is [-] where [data] is expected}}
    %y = graph.relu %x {graph.name = "act", dist.strategy = #dist.strategy<"b0=data">} : (tensor<8xf32>) -> tensor<8xf32>
    return %y : tensor<8xf32>
  }
}
