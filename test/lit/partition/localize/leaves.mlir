// RUN: tessera-opt --dist-localize --dist-verify-local %s -split-input-file | FileCheck %s

// Four leaves of 2 rows. A product adds its leaves itself: each rank its two. Ranks add as a tree does.
// CHECK: module attributes {dist.made_leaves = 4 : i64
module attributes {dist.mesh = #dist.mesh<"data=2">, dist.leaves = 4 : i64} {
  // CHECK-LABEL: func.func @rows(%arg0: tensor<3x4xf32>
  func.func @rows(%a: tensor<3x8xf32> {dist.sharding = #dist.sharding<"[-, data]">},
                  %b: tensor<8x5xf32> {dist.sharding = #dist.sharding<"[data, -]">})
      -> (tensor<3x5xf32> {dist.sharding = #dist.sharding<"[-, -]">}) {
    // CHECK-NEXT: %[[Y:.*]] = graph.matmul %arg0, %arg1 {{.*}}graph.name = "fc", leaves = 2 : i64}
    // CHECK-NEXT: dist.collective "all-reduce" %[[Y]] {axes = ["data"]
    %y = graph.matmul %a, %b {graph.name = "fc", dist.strategy = #dist.strategy<"k=data">} : (tensor<3x8xf32>, tensor<8x5xf32>) -> tensor<3x5xf32>
    %z = dist.reshard %y from <"[-, -] sum(data)"> to <"[-, -]"> {graph.name = "fc"} : tensor<3x5xf32>
    return %z : tensor<3x5xf32>
  }
}

// -----

// A rank with one leaf has an operator as any other.
module attributes {dist.mesh = #dist.mesh<"data=2">, dist.leaves = 2 : i64} {
  // CHECK-LABEL: func.func @one
  func.func @one(%a: tensor<3x8xf32> {dist.sharding = #dist.sharding<"[-, data]">},
                 %b: tensor<8x5xf32> {dist.sharding = #dist.sharding<"[data, -]">})
      -> (tensor<3x5xf32> {dist.sharding = #dist.sharding<"[-, -]">}) {
    // CHECK-NEXT: %[[Y:.*]] = graph.matmul %arg0, %arg1 {{.*}}graph.name = "fc"} :
    %y = graph.matmul %a, %b {graph.name = "fc", dist.strategy = #dist.strategy<"k=data">} : (tensor<3x8xf32>, tensor<8x5xf32>) -> tensor<3x5xf32>
    %z = dist.reshard %y from <"[-, -] sum(data)"> to <"[-, -]"> {graph.name = "fc"} : tensor<3x5xf32>
    return %z : tensor<3x5xf32>
  }
}

// -----

// A plain sum adds the terms of all leaves in one pass. On one rank: neighbours are added first. Leaves in front are read where they lie.
module attributes {dist.leaves = 4 : i64} {
  // CHECK-LABEL: func.func @tree
  func.func @tree(%a: tensor<4x6xf32> {dist.sharding = #dist.sharding<"[-, -]">})
      -> (tensor<6xf32> {dist.sharding = #dist.sharding<"[-]">}, tensor<1x6xf32> {dist.sharding = #dist.sharding<"[-, -]">}) {
    // CHECK-NEXT: %[[A:.*]] = graph.leaf_sums %arg0 {dim = 0 : i64, dims = array<i64: 0>, {{.*}}graph.name = "sum", leaves = 4 : i64} : (tensor<4x6xf32>) -> tensor<4x6xf32>
    // CHECK-COUNT-3: graph.slice %[[A]] {graph.in_place
    // CHECK: %[[P3:.*]] = graph.slice %[[A]] {graph.in_place, {{.*}}limits = array<i64: 4, 6>, starts = array<i64: 3, 0>
    // CHECK-NEXT: %[[S3:.*]] = graph.reshape %[[P3]]
    // CHECK: %[[L:.*]] = graph.add %{{.*}}, %{{.*}} {graph.name = "sum.sum"}
    // CHECK: %[[R:.*]] = graph.add %{{.*}}, %[[S3]] {graph.name = "sum.sum"}
    // CHECK: %[[S:.*]] = graph.add %[[L]], %[[R]] {graph.name = "sum.sum"}
    // CHECK: graph.leaf_sums %arg0
    // CHECK: return %[[S]]
    %s = graph.reduce_sum %a {graph.name = "sum", dims = array<i64: 0>, keepdims = false, dist.strategy = #dist.strategy<"">} : (tensor<4x6xf32>) -> tensor<6xf32>
    %k = graph.reduce_sum %a {graph.name = "kept", dims = array<i64: 0>, keepdims = true, dist.strategy = #dist.strategy<"">} : (tensor<4x6xf32>) -> tensor<1x6xf32>
    return %s, %k : tensor<6xf32>, tensor<1x6xf32>
  }
}

// -----

// Sums of integers have no order, and no leaves.
module attributes {dist.leaves = 2 : i64} {
  // CHECK-LABEL: func.func @integers
  func.func @integers(%a: tensor<4x6xi64> {dist.sharding = #dist.sharding<"[-, -]">})
      -> (tensor<6xi64> {dist.sharding = #dist.sharding<"[-]">}) {
    // CHECK-NEXT: %[[S:.*]] = graph.reduce_sum %arg0
    // CHECK-NEXT: return %[[S]]
    %s = graph.reduce_sum %a {dims = array<i64: 0>, keepdims = false, dist.strategy = #dist.strategy<"">} : (tensor<4x6xi64>) -> tensor<6xi64>
    return %s : tensor<6xi64>
  }
}

// -----

// A gradient of weights adds the leaves of its batch itself. One image is no leaf, and rows have none: windows overlap.
module attributes {dist.leaves = 4 : i64} {
  // CHECK-LABEL: func.func @weights
  func.func @weights(%x: tensor<8x3x4x4xf32> {dist.sharding = #dist.sharding<"[-, -, -, -]">},
                     %dy: tensor<8x5x4x4xf32> {dist.sharding = #dist.sharding<"[-, -, -, -]">},
                     %x1: tensor<1x3x4x4xf32> {dist.sharding = #dist.sharding<"[-, -, -, -]">},
                     %dy1: tensor<1x5x4x4xf32> {dist.sharding = #dist.sharding<"[-, -, -, -]">})
      -> (tensor<5x3x3x3xf32> {dist.sharding = #dist.sharding<"[-, -, -, -]">}, tensor<5x3x3x3xf32> {dist.sharding = #dist.sharding<"[-, -, -, -]">}) {
    // CHECK-NEXT: graph.conv_weight_grad %arg0, %arg1 {{.*}}leaves = 4 : i64
    // CHECK-NEXT: graph.conv_weight_grad %arg2, %arg3
    // CHECK-NOT: leaves
    // CHECK-NEXT: return
    %dw = graph.conv_weight_grad %x, %dy {kernel_sizes = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64, dist.strategy = #dist.strategy<"">} : (tensor<8x3x4x4xf32>, tensor<8x5x4x4xf32>) -> tensor<5x3x3x3xf32>
    %dw1 = graph.conv_weight_grad %x1, %dy1 {kernel_sizes = array<i64: 3, 3>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64, dist.strategy = #dist.strategy<"">} : (tensor<1x3x4x4xf32>, tensor<1x5x4x4xf32>) -> tensor<5x3x3x3xf32>
    return %dw, %dw1 : tensor<5x3x3x3xf32>, tensor<5x3x3x3xf32>
  }
}

// -----

// Any other operator becomes one per leaf. Rows of a tensor are one piece of memory, which a leaf reads where it lies. Columns are copied.
module attributes {dist.leaves = 2 : i64} {
  // CHECK-LABEL: func.func @pieces
  func.func @pieces(%i: tensor<8xi32> {dist.sharding = #dist.sharding<"[-]">},
                    %dy: tensor<3x8x4xf32> {dist.sharding = #dist.sharding<"[-, -, -]">})
      -> (tensor<3x5x4xf32> {dist.sharding = #dist.sharding<"[-, -, -]">}) {
    // CHECK: graph.slice %arg0 {graph.in_place, graph.name
    // CHECK-NEXT: graph.slice %arg1 {graph.name
    %dt = graph.scatter_add %i, %dy {graph.name = "table", axis = 1 : i64, size = 5 : i64, dist.strategy = #dist.strategy<"">} : (tensor<8xi32>, tensor<3x8x4xf32>) -> tensor<3x5x4xf32>
    return %dt : tensor<3x5x4xf32>
  }
}

// -----

// The channels that a convolution sums over have no leaves.
module attributes {dist.leaves = 2 : i64} {
  // CHECK-LABEL: func.func @channels
  func.func @channels(%dy: tensor<3x64x4xf32> {dist.sharding = #dist.sharding<"[-, -, -]">},
                      %w: tensor<64x32x1xf32> {dist.sharding = #dist.sharding<"[-, -, -]">})
      -> (tensor<3x32x4xf32> {dist.sharding = #dist.sharding<"[-, -, -]">}) {
    // CHECK-NEXT: %[[DX:.*]] = graph.conv_input_grad %arg0, %arg1
    // CHECK-NEXT: return %[[DX]]
    %dx = graph.conv_input_grad %dy, %w {graph.name = "conv", input_sizes = array<i64: 4>, strides = array<i64: 1>, pads = array<i64: 0, 0>, dilations = array<i64: 1>, groups = 1 : i64, dist.strategy = #dist.strategy<"">} : (tensor<3x64x4xf32>, tensor<64x32x1xf32>) -> tensor<3x32x4xf32>
    return %dx : tensor<3x32x4xf32>
  }
}

// -----

// A plain sum of columns copies nothing but its leaves.
module attributes {dist.leaves = 2 : i64} {
  // CHECK-LABEL: func.func @columns
  func.func @columns(%a: tensor<3x8x4xf32> {dist.sharding = #dist.sharding<"[-, -, -]">})
      -> (tensor<3x1x4xf32> {dist.sharding = #dist.sharding<"[-, -, -]">}) {
    // CHECK: %[[S:.*]] = graph.leaf_sums %arg0 {dim = 1 : i64, dims = array<i64: 1>, {{.*}}leaves = 2 : i64} : (tensor<3x8x4xf32>) -> tensor<3x2x4xf32>
    // CHECK: %[[P0:.*]] = graph.slice %[[S]] {{.*}}limits = array<i64: 3, 1, 4>, starts = array<i64: 0, 0, 0>
    // CHECK: %[[S0:.*]] = graph.reshape %[[P0]] {{.*}} -> tensor<3x1x4xf32>
    // CHECK: %[[P1:.*]] = graph.slice %[[S]] {{.*}}limits = array<i64: 3, 2, 4>, starts = array<i64: 0, 1, 0>
    // CHECK: %[[S1:.*]] = graph.reshape %[[P1]]
    // CHECK: %[[Y:.*]] = graph.add %[[S0]], %[[S1]] {graph.name = "sum.sum"}
    // CHECK: return %[[Y]]
    %s = graph.reduce_sum %a {graph.name = "sum", dims = array<i64: 1>, keepdims = true, dist.strategy = #dist.strategy<"">} : (tensor<3x8x4xf32>) -> tensor<3x1x4xf32>
    return %s : tensor<3x1x4xf32>
  }
}
