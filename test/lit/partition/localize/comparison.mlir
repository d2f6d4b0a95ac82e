// RUN: tessera-opt --dist-localize --dist-verify-local %s -split-input-file -verify-diagnostics | FileCheck %s

// Comparison and selection in blocks.

// A mask has the cut of what it masks, in bits.
module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  // CHECK-LABEL: func.func @mask
  func.func @mask(%x: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[data, model]">},
                  %y: tensor<6xf32> {dist.sharding = #dist.sharding<"[model]">})
      -> (tensor<8x6xf32> {dist.sharding = #dist.sharding<"[data, model]">}) {
    // CHECK-NEXT: %[[M:.*]] = graph.lt %arg0, %arg1 {{.*}}: (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xi1>
    // CHECK-NEXT: graph.select %[[M]], %arg0, %arg1 {{.*}}: (tensor<4x3xi1>, tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
    %m = graph.lt %x, %y {dist.strategy = #dist.strategy<"b0=data, b1=model">}
      : (tensor<8x6xf32>, tensor<6xf32>) -> tensor<8x6xi1>
    %z = graph.select %m, %x, %y {dist.strategy = #dist.strategy<"b0=data, b1=model">}
      : (tensor<8x6xi1>, tensor<8x6xf32>, tensor<6xf32>) -> tensor<8x6xf32>
    return %z : tensor<8x6xf32>
  }
}
