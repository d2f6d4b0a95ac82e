// RUN: tessera-opt --dist-insert-reshards --dist-verify-resharded %s -split-input-file -verify-diagnostics | FileCheck %s

// Gathers, their adjoints, and which results are partial.

// A cut vocabulary makes the result partial, and cut indices cut it. Both go together.
module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  // CHECK-LABEL: func.func @vocabulary
  func.func @vocabulary(%t: tensor<8x3xf32> {dist.sharding = #dist.sharding<"[model, -]">},
                        %i: tensor<4xi64> {dist.sharding = #dist.sharding<"[data]">})
      -> (tensor<4x3xf32> {dist.sharding = #dist.sharding<"[data, -]">}) {
    // CHECK-NEXT: %[[Y:.*]] = graph.gather %arg0, %arg1
    // CHECK-NEXT: dist.reshard %[[Y]] from <"[data, -] sum(model)"> to <"[data, -]">
    %y = graph.gather %t, %i {axis = 0 : i64, dist.strategy = #dist.strategy<"v=model, i0=data">}
      : (tensor<8x3xf32>, tensor<4xi64>) -> tensor<4x3xf32>
    return %y : tensor<4x3xf32>
  }
}

// -----

// The adjoint is the reverse: cut indices make the result partial, and a cut vocabulary cuts it.
module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  // CHECK-LABEL: func.func @adjoint
  func.func @adjoint(%i: tensor<4xi64> {dist.sharding = #dist.sharding<"[data]">},
                     %u: tensor<4x3xf32> {dist.sharding = #dist.sharding<"[data, -]">})
      -> (tensor<8x3xf32> {dist.sharding = #dist.sharding<"[model, -]">}) {
    // CHECK-NEXT: %[[Y:.*]] = graph.scatter_add %arg0, %arg1
    // CHECK-NEXT: dist.reshard %[[Y]] from <"[model, -] sum(data)"> to <"[model, -]">
    %y = graph.scatter_add %i, %u {axis = 0 : i64, size = 8 : i64, dist.strategy = #dist.strategy<"v=model, i0=data">}
      : (tensor<4xi64>, tensor<4x3xf32>) -> tensor<8x3xf32>
    return %y : tensor<8x3xf32>
  }
}

// -----

// Rows of a partial table are partial. They are reduced after they are read, since they are less than the table.
module attributes {dist.mesh = #dist.mesh<"model=2">} {
  // CHECK-LABEL: func.func @owed_table
  func.func @owed_table(%x: tensor<8x3x6xf32> {dist.sharding = #dist.sharding<"[-, -, model]">},
                        %i: tensor<2xi64> {dist.sharding = #dist.sharding<"[-]">})
      -> (tensor<2x3xf32> {dist.sharding = #dist.sharding<"[-, -]">}) {
    // CHECK-NEXT: %[[T:.*]] = graph.reduce_sum
    // CHECK-NEXT: %[[Y:.*]] = graph.gather %[[T]], %arg1
    // CHECK-NEXT: dist.reshard %[[Y]] from <"[-, -] sum(model)"> to <"[-, -]"> {{.*}}: tensor<2x3xf32>
    %t = graph.reduce_sum %x {dims = array<i64: 2>, keepdims = false, dist.strategy = #dist.strategy<"d2=model">}
      : (tensor<8x3x6xf32>) -> tensor<8x3xf32>
    %y = graph.gather %t, %i {axis = 0 : i64, dist.strategy = #dist.strategy<"| partial 0(model)">}
      : (tensor<8x3xf32>, tensor<2xi64>) -> tensor<2x3xf32>
    return %y : tensor<2x3xf32>
  }
}
