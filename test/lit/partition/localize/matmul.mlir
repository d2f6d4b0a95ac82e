// RUN: tessera-opt --dist-localize --dist-verify-local %s -split-input-file -verify-diagnostics | FileCheck %s

// Products.

// A sum over a cut k is an all-reduce.
module attributes {dist.mesh = #dist.mesh<"model=2">} {
  // CHECK-LABEL: func.func @all_reduce
  func.func @all_reduce(%a: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[-, model]">},
                        %b: tensor<6x4xf32> {dist.sharding = #dist.sharding<"[model, -]">})
      -> (tensor<8x4xf32> {dist.sharding = #dist.sharding<"[-, -]">}) {
    // CHECK-NEXT: %[[Y:.*]] = graph.matmul %arg0, %arg1 {{.*}}: (tensor<8x3xf32>, tensor<3x4xf32>) -> tensor<8x4xf32>
    // CHECK-NEXT: dist.collective "all-reduce" %[[Y]] {axes = ["model"], reduction = "sum"} : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %y = graph.matmul %a, %b {dist.strategy = #dist.strategy<"k=model">}
      : (tensor<8x6xf32>, tensor<6x4xf32>) -> tensor<8x4xf32>
    %z = dist.reshard %y from <"[-, -] sum(model)"> to <"[-, -]"> : tensor<8x4xf32>
    return %z : tensor<8x4xf32>
  }
}

// -----

// Where the reader is cut, it is a reduce-scatter.
module attributes {dist.mesh = #dist.mesh<"model=2">} {
  // CHECK-LABEL: func.func @reduce_scatter
  func.func @reduce_scatter(%a: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[-, model]">},
                            %b: tensor<6x4xf32> {dist.sharding = #dist.sharding<"[model, -]">})
      -> (tensor<8x4xf32> {dist.sharding = #dist.sharding<"[model, -]">}) {
    // CHECK: %[[Y:.*]] = graph.matmul
    // CHECK-NEXT: dist.collective "reduce-scatter" %[[Y]] {axes = ["model"], dim = 0 : i64, reduction = "sum"} : (tensor<8x4xf32>) -> tensor<4x4xf32>
    %y = graph.matmul %a, %b {dist.strategy = #dist.strategy<"k=model">}
      : (tensor<8x6xf32>, tensor<6x4xf32>) -> tensor<8x4xf32>
    %z = dist.reshard %y from <"[-, -] sum(model)"> to <"[model, -]"> : tensor<8x4xf32>
    return %z : tensor<8x4xf32>
  }
}

// -----

// A weight that is kept in blocks is gathered before it is read.
module attributes {dist.mesh = #dist.mesh<"data=2">} {
  // CHECK-LABEL: func.func @all_gather
  func.func @all_gather(%a: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[data, -]">},
                        %b: tensor<6x4xf32> {dist.sharding = #dist.sharding<"[data, -]">})
      -> (tensor<8x4xf32> {dist.sharding = #dist.sharding<"[data, -]">}) {
    // CHECK-NEXT: %[[B:.*]] = dist.collective "all-gather" %arg1 {axes = ["data"], dim = 0 : i64} : (tensor<3x4xf32>) -> tensor<6x4xf32>
    // CHECK-NEXT: graph.matmul %arg0, %[[B]] {{.*}}: (tensor<4x6xf32>, tensor<6x4xf32>) -> tensor<4x4xf32>
    %c = dist.reshard %b from <"[data, -]"> to <"[-, -]"> : tensor<6x4xf32>
    %y = graph.matmul %a, %c {dist.strategy = #dist.strategy<"m=data">}
      : (tensor<8x6xf32>, tensor<6x4xf32>) -> tensor<8x4xf32>
    return %y : tensor<8x4xf32>
  }
}

// -----

// Flags stay: the transposed operand is cut where its own dimension is.
module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  // CHECK-LABEL: func.func @transposed
  func.func @transposed(%a: tensor<6x8xf32> {dist.sharding = #dist.sharding<"[model, data]">},
                        %b: tensor<4x6xf32> {dist.sharding = #dist.sharding<"[-, model]">})
      -> (tensor<8x4xf32> {dist.sharding = #dist.sharding<"[data, -]">}) {
    // CHECK-NEXT: %[[Y:.*]] = graph.matmul %arg0, %arg1 {{{.*}}transpose_a = true, transpose_b = true} : (tensor<3x4xf32>, tensor<4x3xf32>) -> tensor<4x4xf32>
    // CHECK-NEXT: dist.collective "all-reduce" %[[Y]] {axes = ["model"]
    %y = graph.matmul %a, %b {transpose_a = true, transpose_b = true,
        dist.strategy = #dist.strategy<"m=data, k=model">} : (tensor<6x8xf32>, tensor<4x6xf32>) -> tensor<8x4xf32>
    %z = dist.reshard %y from <"[data, -] sum(model)"> to <"[data, -]"> : tensor<8x4xf32>
    return %z : tensor<8x4xf32>
  }
}
