// RUN: tessera-opt --dist-localize --dist-verify-local %s -split-input-file -verify-diagnostics | FileCheck %s

// Gathers and their adjoints: which rows of a table a rank has.

// Every rank adds what falls into its rows: the first begins at 0, the second at 4.
module attributes {dist.mesh = #dist.mesh<"model=2">} {
  // CHECK-LABEL: func.func @adjoint
  func.func @adjoint(%i: tensor<5xi64> {dist.sharding = #dist.sharding<"[-]">},
                     %u: tensor<5x3xf32> {dist.sharding = #dist.sharding<"[-, -]">})
      -> (tensor<8x3xf32> {dist.sharding = #dist.sharding<"[model, -]">}) {
    // CHECK-NEXT: %[[Y:.*]] = graph.scatter_add %arg0, %arg1 {axis = 0 : i64, dist.per_rank = [{start = 0 : i64}, {start = 4 : i64}], {{.*}}size = 4 : i64} {{.*}} -> tensor<4x3xf32>
    // CHECK-NEXT: return %[[Y]]
    %y = graph.scatter_add %i, %u {axis = 0 : i64, size = 8 : i64, dist.strategy = #dist.strategy<"v=model">}
      : (tensor<5xi64>, tensor<5x3xf32>) -> tensor<8x3xf32>
    return %y : tensor<8x3xf32>
  }
}

// -----

// A table that is whole has the same rows everywhere.
module attributes {dist.mesh = #dist.mesh<"data=2">} {
  // CHECK-LABEL: func.func @whole
  func.func @whole(%t: tensor<8x3xf32> {dist.sharding = #dist.sharding<"[-, -]">},
                   %i: tensor<4xi64> {dist.sharding = #dist.sharding<"[data]">})
      -> (tensor<4x3xf32> {dist.sharding = #dist.sharding<"[data, -]">}) {
    // CHECK-NOT: dist.per_rank
    // CHECK: graph.gather %arg0, %arg1 {{.*}} : (tensor<8x3xf32>, tensor<2xi64>) -> tensor<2x3xf32>
    %y = graph.gather %t, %i {axis = 0 : i64, dist.strategy = #dist.strategy<"i0=data">}
      : (tensor<8x3xf32>, tensor<4xi64>) -> tensor<4x3xf32>
    return %y : tensor<4x3xf32>
  }
}

// -----

// Columns may be cut without a sum.
module attributes {dist.mesh = #dist.mesh<"model=2">} {
  // CHECK-LABEL: func.func @columns
  func.func @columns(%t: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[-, model]">},
                     %i: tensor<4xi64> {dist.sharding = #dist.sharding<"[-]">})
      -> (tensor<4x6xf32> {dist.sharding = #dist.sharding<"[-, model]">}) {
    // CHECK-NEXT: %[[Y:.*]] = graph.gather %arg0, %arg1 {{.*}} : (tensor<8x3xf32>, tensor<4xi64>) -> tensor<4x3xf32>
    // CHECK-NEXT: return %[[Y]]
    %y = graph.gather %t, %i {axis = 0 : i64, dist.strategy = #dist.strategy<"c0=model">}
      : (tensor<8x6xf32>, tensor<4xi64>) -> tensor<4x6xf32>
    return %y : tensor<4x6xf32>
  }
}

// -----

// On a mesh of two axes the rows follow the axis that cuts them; ranks along the other have the same.
module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  // CHECK-LABEL: func.func @two_axes
  func.func @two_axes(%t: tensor<8x3xf32> {dist.sharding = #dist.sharding<"[data, -]">},
                      %i: tensor<4xi64> {dist.sharding = #dist.sharding<"[-]">})
      -> (tensor<4x3xf32> {dist.sharding = #dist.sharding<"[-, -]">}) {
    // CHECK: dist.per_rank = [{start = 0 : i64}, {start = 0 : i64}, {start = 4 : i64}, {start = 4 : i64}]
    %y = graph.gather %t, %i {axis = 0 : i64, dist.strategy = #dist.strategy<"v=data">}
      : (tensor<8x3xf32>, tensor<4xi64>) -> tensor<4x3xf32>
    %z = dist.reshard %y from <"[-, -] sum(data)"> to <"[-, -]"> : tensor<4x3xf32>
    return %z : tensor<4x3xf32>
  }
}
