// RUN: tessera-opt --dist-insert-reshards --dist-verify-resharded %s -split-input-file -verify-diagnostics | FileCheck %s

// What is made on the spot is made as it is read, and moves nowhere.

// Random numbers, counters and splats are cut as their reader is.
module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  // CHECK-LABEL: func.func @cut
  func.func @cut(%x: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[data, model]">},
                 %s: tensor<i64> {dist.sharding = #dist.sharding<"[]">})
      -> (tensor<8x6xf32> {dist.sharding = #dist.sharding<"[data, model]">}) {
    // CHECK-NOT: dist.reshard
    // CHECK: return
    %r = graph.random %s {seed = 7 : i64, stream = 1 : i64, dist.strategy = #dist.strategy<"b0=data, b1=model">}
      : (tensor<i64>) -> tensor<8x6xf32>
    %p = graph.constant {dist.strategy = #dist.strategy<"b0=data, b1=model">} dense<5.000000e-01> : tensor<8x6xf32>
    %k = graph.lt %r, %p {dist.strategy = #dist.strategy<"b0=data, b1=model">}
      : (tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xi1>
    %c = graph.iota {dim = 0 : i64, dist.strategy = #dist.strategy<"b0=data, b1=model">} : () -> tensor<8x6xf32>
    %y = graph.select %k, %x, %c {dist.strategy = #dist.strategy<"b0=data, b1=model">}
      : (tensor<8x6xi1>, tensor<8x6xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
    return %y : tensor<8x6xf32>
  }
}

// -----

// A list of numbers is whole on every rank: what is read of it is sliced.
module attributes {dist.mesh = #dist.mesh<"model=2">} {
  // CHECK-LABEL: func.func @list
  func.func @list(%x: tensor<4xf32> {dist.sharding = #dist.sharding<"[model]">})
      -> (tensor<4xf32> {dist.sharding = #dist.sharding<"[model]">}) {
    // CHECK: %[[C:.*]] = graph.constant
    // CHECK-NEXT: %[[CUT:.*]] = dist.reshard %[[C]] from <"[-]"> to <"[model]">
    // CHECK-NEXT: graph.mul %arg0, %[[CUT]]
    %c = graph.constant {dist.strategy = #dist.strategy<"">} dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
    %y = graph.mul %x, %c {dist.strategy = #dist.strategy<"b0=model">}
      : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
}
