// RUN: tessera-opt --dist-insert-reshards --dist-verify-resharded %s -split-input-file -verify-diagnostics | FileCheck %s

// Products: a sum over cut dimensions is partial.

// Cutting k cuts both operands and leaves a sum.
module attributes {dist.mesh = #dist.mesh<"model=2">} {
  // CHECK-LABEL: func.func @inner
  func.func @inner(%a: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[-, -]">},
                   %b: tensor<6x4xf32> {dist.sharding = #dist.sharding<"[-, -]">})
      -> (tensor<8x4xf32> {dist.sharding = #dist.sharding<"[-, -]">}) {
    // CHECK-DAG: %[[A:.*]] = dist.reshard %arg0 from <"[-, -]"> to <"[-, model]">
    // CHECK-DAG: %[[B:.*]] = dist.reshard %arg1 from <"[-, -]"> to <"[model, -]">
    // CHECK: %[[Y:.*]] = graph.matmul %[[A]], %[[B]]
    // CHECK-NEXT: dist.reshard %[[Y]] from <"[-, -] sum(model)"> to <"[-, -]">
    %y = graph.matmul %a, %b {dist.strategy = #dist.strategy<"k=model">}
      : (tensor<8x6xf32>, tensor<6x4xf32>) -> tensor<8x4xf32>
    return %y : tensor<8x4xf32>
  }
}

// -----

// Columns, then rows: between the two products nothing moves.
module attributes {dist.mesh = #dist.mesh<"model=2">} {
  // CHECK-LABEL: func.func @pair
  func.func @pair(%x: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[-, -]">},
                  %a: tensor<6x4xf32> {dist.sharding = #dist.sharding<"[-, model]">},
                  %b: tensor<4x6xf32> {dist.sharding = #dist.sharding<"[model, -]">})
      -> (tensor<8x6xf32> {dist.sharding = #dist.sharding<"[-, -]">}) {
    // CHECK-NEXT: %[[Y:.*]] = graph.matmul %arg0, %arg1
    // CHECK-NEXT: %[[R:.*]] = graph.relu %[[Y]]
    // CHECK-NEXT: %[[Z:.*]] = graph.matmul %[[R]], %arg2
    // CHECK-NEXT: dist.reshard %[[Z]] from <"[-, -] sum(model)"> to <"[-, -]">
    // CHECK-NEXT: return
    %y = graph.matmul %x, %a {dist.strategy = #dist.strategy<"n=model">}
      : (tensor<8x6xf32>, tensor<6x4xf32>) -> tensor<8x4xf32>
    %r = graph.relu %y {dist.strategy = #dist.strategy<"b1=model">} : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %z = graph.matmul %r, %b {dist.strategy = #dist.strategy<"k=model">}
      : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
    return %z : tensor<8x6xf32>
  }
}

// -----

// With transpose_b the second operand is n k: the cut of k is one of its last dimension.
module attributes {dist.mesh = #dist.mesh<"model=2">} {
  // CHECK-LABEL: func.func @transposed
  func.func @transposed(%a: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[-, model]">},
                        %b: tensor<4x6xf32> {dist.sharding = #dist.sharding<"[-, model]">})
      -> (tensor<8x4xf32> {dist.sharding = #dist.sharding<"[model, -]">}) {
    // CHECK-NEXT: %[[Y:.*]] = graph.matmul %arg0, %arg1
    // CHECK-NEXT: dist.reshard %[[Y]] from <"[-, -] sum(model)"> to <"[model, -]">
    %y = graph.matmul %a, %b {transpose_b = true, dist.strategy = #dist.strategy<"k=model">}
      : (tensor<8x6xf32>, tensor<4x6xf32>) -> tensor<8x4xf32>
    return %y : tensor<8x4xf32>
  }
}

// -----

// A batch that the second operand lacks cuts the first one alone.
module attributes {dist.mesh = #dist.mesh<"data=2">} {
  // CHECK-LABEL: func.func @batch
  func.func @batch(%a: tensor<2x8x6xf32> {dist.sharding = #dist.sharding<"[data, -, -]">},
                   %b: tensor<6x4xf32> {dist.sharding = #dist.sharding<"[-, -]">})
      -> (tensor<2x8x4xf32> {dist.sharding = #dist.sharding<"[data, -, -]">}) {
    // CHECK-NEXT: %[[Y:.*]] = graph.matmul %arg0, %arg1
    // CHECK-NEXT: return %[[Y]]
    %y = graph.matmul %a, %b {dist.strategy = #dist.strategy<"b0=data">}
      : (tensor<2x8x6xf32>, tensor<6x4xf32>) -> tensor<2x8x4xf32>
    return %y : tensor<2x8x4xf32>
  }
}

// -----

// A product is linear in each operand: a sum that is partial over one axis passes, and k adds another axis to it.
module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  // CHECK-LABEL: func.func @two_axes
  func.func @two_axes(%x: tensor<8x4x6xf32> {dist.sharding = #dist.sharding<"[-, data, -]">},
                      %b: tensor<6x4xf32> {dist.sharding = #dist.sharding<"[model, -]">})
      -> (tensor<8x4xf32> {dist.sharding = #dist.sharding<"[-, -]">}) {
    // CHECK: %[[A:.*]] = graph.reduce_sum %arg0
    // CHECK-NEXT: %[[CUT:.*]] = dist.reshard %[[A]]
    // CHECK-SAME: from <"[-, -] sum(data)"> to <"[-, model] sum(data)">
    // CHECK-NEXT: %[[Y:.*]] = graph.matmul %[[CUT]], %arg1
    // CHECK-NEXT: dist.reshard %[[Y]] from <"[-, -] sum(data,model)"> to <"[-, -]">
    %a = graph.reduce_sum %x {dims = array<i64: 1>, keepdims = false, dist.strategy = #dist.strategy<"d1=data">}
      : (tensor<8x4x6xf32>) -> tensor<8x6xf32>
    %y = graph.matmul %a, %b {dist.strategy = #dist.strategy<"k=model | partial 0(data)">}
      : (tensor<8x6xf32>, tensor<6x4xf32>) -> tensor<8x4xf32>
    return %y : tensor<8x4xf32>
  }
}
