// RUN: tessera-opt --dist-localize --dist-verify-local %s -split-input-file -verify-diagnostics | FileCheck %s

// Elementwise operators: every rank computes its block.

// Operands that broadcast keep their extents of 1.
module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  // CHECK-LABEL: func.func @shapes
  func.func @shapes(%x: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[data, model]">},
                    %b: tensor<6xf32> {dist.sharding = #dist.sharding<"[model]">},
                    %c: tensor<8x1xf32> {dist.sharding = #dist.sharding<"[data, -]">})
      -> (tensor<8x6xf32> {dist.sharding = #dist.sharding<"[data, model]">}) {
    // CHECK-NEXT: %[[Y:.*]] = graph.add %arg0, %arg1 {{.*}}: (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
    // CHECK-NEXT: %[[Z:.*]] = graph.mul %[[Y]], %arg2 {{.*}}: (tensor<4x3xf32>, tensor<4x1xf32>) -> tensor<4x3xf32>
    // CHECK-NEXT: return %[[Z]]
    %y = graph.add %x, %b {dist.strategy = #dist.strategy<"b0=data, b1=model">}
      : (tensor<8x6xf32>, tensor<6xf32>) -> tensor<8x6xf32>
    %z = graph.mul %y, %c {dist.strategy = #dist.strategy<"b0=data, b1=model">}
      : (tensor<8x6xf32>, tensor<8x1xf32>) -> tensor<8x6xf32>
    return %z : tensor<8x6xf32>
  }
}

// -----

// 7 rows over 2 ranks are 4 and 3. An elementwise operator turns padding into padding: nothing is overwritten.
module attributes {dist.mesh = #dist.mesh<"data=2">} {
  // CHECK-LABEL: func.func @padded(%arg0: tensor<4x6xf32>
  func.func @padded(%x: tensor<7x6xf32> {dist.sharding = #dist.sharding<"[data, -]">})
      -> (tensor<7x6xf32> {dist.sharding = #dist.sharding<"[data, -]">}) {
    // CHECK-NEXT: %[[Y:.*]] = graph.exp %arg0 {{.*}}: (tensor<4x6xf32>) -> tensor<4x6xf32>
    // CHECK-NEXT: return %[[Y]]
    %y = graph.exp %x {dist.strategy = #dist.strategy<"b0=data">} : (tensor<7x6xf32>) -> tensor<7x6xf32>
    return %y : tensor<7x6xf32>
  }
}

// -----

// Two axes that cut one dimension: a quarter of it, major axis first.
module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  // CHECK-LABEL: func.func @quarter
  func.func @quarter(%x: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[data+model, -]">})
      -> (tensor<8x6xf32> {dist.sharding = #dist.sharding<"[-, -]">}) {
    // CHECK-NEXT: %[[Y:.*]] = graph.neg %arg0 {{.*}}: (tensor<2x6xf32>) -> tensor<2x6xf32>
    // CHECK-NEXT: dist.collective "all-gather" %[[Y]] {axes = ["data", "model"], dim = 0 : i64} : (tensor<2x6xf32>) -> tensor<8x6xf32>
    %z = graph.neg %x {dist.strategy = #dist.strategy<"b0=data+model">} : (tensor<8x6xf32>) -> tensor<8x6xf32>
    %y = dist.reshard %z from <"[data+model, -]"> to <"[-, -]"> : tensor<8x6xf32>
    return %y : tensor<8x6xf32>
  }
}
