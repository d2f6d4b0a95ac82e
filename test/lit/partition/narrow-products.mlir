// RUN: tessera-opt --graph-narrow-products %s | FileCheck %s
module attributes {dist.mesh = #dist.mesh<"data=2">} {
  // CHECK-LABEL: func.func @product
  // CHECK-NEXT: %[[Y:.*]] = graph.matmul %arg0, %arg1 : (tensor<4x8xbf16>, tensor<8x6xbf16>) -> tensor<4x6xbf16>
  // CHECK-NEXT: %[[R:.*]] = graph.relu %[[Y]]
  // CHECK-NEXT: return %[[R]], %[[Y]]
  func.func @product(%x: tensor<4x8xbf16>, %w: tensor<8x6xbf16>) -> (tensor<4x6xbf16>, tensor<4x6xbf16>) {
    %s = graph.matmul %x, %w {wide} : (tensor<4x8xbf16>, tensor<8x6xbf16>) -> tensor<4x6xf32>
    %y = graph.cast %s {graph.rounds} : (tensor<4x6xf32>) -> tensor<4x6xbf16>
    %z = graph.cast %s {graph.rounds} : (tensor<4x6xf32>) -> tensor<4x6xbf16>
    %r = graph.relu %y : (tensor<4x6xbf16>) -> tensor<4x6xbf16>
    return %r, %z : tensor<4x6xbf16>, tensor<4x6xbf16>
  }

  // CHECK-LABEL: func.func @convolution
  // CHECK-NEXT: %[[Y:.*]] = graph.conv %arg0, %arg1
  // CHECK-NOT:  wide
  // CHECK-SAME: -> tensor<2x4x8x8xf16>
  // CHECK-NEXT: return %[[Y]]
  func.func @convolution(%x: tensor<2x3x8x8xf16>, %w: tensor<4x3x3x3xf16>) -> tensor<2x4x8x8xf16> {
    %s = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64, wide} : (tensor<2x3x8x8xf16>, tensor<4x3x3x3xf16>) -> tensor<2x4x8x8xf32>
    %y = graph.cast %s {graph.rounds} : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf16>
    return %y : tensor<2x4x8x8xf16>
  }

  // An operator with several results stores 16 bits where all of them are read so.
  // CHECK-LABEL: func.func @several
  // CHECK-NEXT: %[[DQ:.*]], %[[DK:.*]], %[[DV:.*]] = graph.attention_grad
  // CHECK-NOT:  wide
  // CHECK-SAME: -> (tensor<2x3x5x4xbf16>, tensor<2x3x5x4xbf16>, tensor<2x3x5x6xbf16>)
  // CHECK-NEXT: return %[[DQ]], %[[DK]], %[[DV]]
  func.func @several(%e: tensor<2x3x5x6xbf16>, %q: tensor<2x3x5x4xbf16>, %v: tensor<2x3x5x6xbf16>, %s: tensor<2x3x5xf32>) -> (tensor<2x3x5x4xbf16>, tensor<2x3x5x4xbf16>, tensor<2x3x5x6xbf16>) {
    %dq, %dk, %dv = graph.attention_grad %e, %q, %q, %v, %v, %s {scale = 0.5 : f64, wide} : (tensor<2x3x5x6xbf16>, tensor<2x3x5x4xbf16>, tensor<2x3x5x4xbf16>, tensor<2x3x5x6xbf16>, tensor<2x3x5x6xbf16>, tensor<2x3x5xf32>) -> (tensor<2x3x5x4xf32>, tensor<2x3x5x4xf32>, tensor<2x3x5x6xf32>)
    %a = graph.cast %dq {graph.rounds} : (tensor<2x3x5x4xf32>) -> tensor<2x3x5x4xbf16>
    %b = graph.cast %dk {graph.rounds} : (tensor<2x3x5x4xf32>) -> tensor<2x3x5x4xbf16>
    %c = graph.cast %dv {graph.rounds} : (tensor<2x3x5x6xf32>) -> tensor<2x3x5x6xbf16>
    return %a, %b, %c : tensor<2x3x5x4xbf16>, tensor<2x3x5x4xbf16>, tensor<2x3x5x6xbf16>
  }

  // CHECK-LABEL: func.func @one_of_several
  // CHECK-NEXT: graph.attention_grad {{.*}}wide
  func.func @one_of_several(%e: tensor<2x3x5x6xbf16>, %q: tensor<2x3x5x4xbf16>, %v: tensor<2x3x5x6xbf16>, %s: tensor<2x3x5xf32>) -> (tensor<2x3x5x4xbf16>, tensor<2x3x5x4xf32>, tensor<2x3x5x6xbf16>) {
    %dq, %dk, %dv = graph.attention_grad %e, %q, %q, %v, %v, %s {scale = 0.5 : f64, wide} : (tensor<2x3x5x6xbf16>, tensor<2x3x5x4xbf16>, tensor<2x3x5x4xbf16>, tensor<2x3x5x6xbf16>, tensor<2x3x5x6xbf16>, tensor<2x3x5xf32>) -> (tensor<2x3x5x4xf32>, tensor<2x3x5x4xf32>, tensor<2x3x5x6xf32>)
    %a = graph.cast %dq {graph.rounds} : (tensor<2x3x5x4xf32>) -> tensor<2x3x5x4xbf16>
    %k = graph.neg %dk : (tensor<2x3x5x4xf32>) -> tensor<2x3x5x4xf32>
    %c = graph.cast %dv {graph.rounds} : (tensor<2x3x5x6xf32>) -> tensor<2x3x5x6xbf16>
    return %a, %k, %c : tensor<2x3x5x4xbf16>, tensor<2x3x5x4xf32>, tensor<2x3x5x6xbf16>
  }

  // The statistics of rows are no sums of products: whoever reads them, they stay in float32.
  // CHECK-LABEL: func.func @statistics
  // CHECK-NEXT: %[[Y:.*]], %[[S:.*]] = graph.attention
  // CHECK-NOT:  wide
  // CHECK-SAME: -> (tensor<2x3x5x6xbf16>, tensor<2x3x5xf32>)
  // CHECK-NEXT: %[[T:.*]] = graph.neg %[[S]]
  // CHECK-NEXT: return %[[Y]], %[[T]]
  func.func @statistics(%q: tensor<2x3x5x4xbf16>, %v: tensor<2x3x5x6xbf16>) -> (tensor<2x3x5x6xbf16>, tensor<2x3x5xf32>) {
    %y, %s = graph.attention %q, %q, %v {scale = 0.5 : f64, wide, keeps_statistics} : (tensor<2x3x5x4xbf16>, tensor<2x3x5x4xbf16>, tensor<2x3x5x6xbf16>) -> (tensor<2x3x5x6xf32>, tensor<2x3x5xf32>)
    %a = graph.cast %y {graph.rounds} : (tensor<2x3x5x6xf32>) -> tensor<2x3x5x6xbf16>
    %t = graph.neg %s : (tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
    return %a, %t : tensor<2x3x5x6xbf16>, tensor<2x3x5xf32>
  }

  // Ranks add their sums before the conversion.
  // CHECK-LABEL: func.func @partial
  // CHECK-NEXT: %[[S:.*]] = graph.matmul {{.*}}wide{{.*}} -> tensor<4x6xf32>
  // CHECK-NEXT: %[[T:.*]] = dist.collective "all-reduce" %[[S]]
  // CHECK-NEXT: graph.cast %[[T]] {graph.rounds}
  func.func @partial(%x: tensor<4x8xbf16>, %w: tensor<8x6xbf16>) -> tensor<4x6xbf16> {
    %s = graph.matmul %x, %w {wide} : (tensor<4x8xbf16>, tensor<8x6xbf16>) -> tensor<4x6xf32>
    %t = dist.collective "all-reduce" %s {axes = ["data"], reduction = "sum"} : (tensor<4x6xf32>) -> tensor<4x6xf32>
    %y = graph.cast %t {graph.rounds} : (tensor<4x6xf32>) -> tensor<4x6xbf16>
    return %y : tensor<4x6xbf16>
  }

  // A conversion that does not round, and other readers, keep the sum.
  // CHECK-LABEL: func.func @kept
  // CHECK-COUNT-3: graph.matmul {{.*}}wide{{.*}} -> tensor<4x6xf32>
  // CHECK-NOT: graph.matmul
  func.func @kept(%x: tensor<4x8xbf16>, %w: tensor<8x6xbf16>) -> (tensor<4x6xbf16>, tensor<4x6xbf16>, tensor<4x6xf32>, tensor<4x6xbf16>, tensor<4x6xf32>) {
    %s = graph.matmul %x, %w {wide} : (tensor<4x8xbf16>, tensor<8x6xbf16>) -> tensor<4x6xf32>
    %a = graph.cast %s : (tensor<4x6xf32>) -> tensor<4x6xbf16>
    %t = graph.matmul %x, %w {wide} : (tensor<4x8xbf16>, tensor<8x6xbf16>) -> tensor<4x6xf32>
    %b = graph.cast %t {graph.rounds} : (tensor<4x6xf32>) -> tensor<4x6xbf16>
    %c = dist.collective "all-reduce" %t {axes = ["data"], reduction = "sum"} : (tensor<4x6xf32>) -> tensor<4x6xf32>
    %u = graph.matmul %x, %w {wide} : (tensor<4x8xbf16>, tensor<8x6xbf16>) -> tensor<4x6xf32>
    %d = graph.cast %u {graph.rounds} : (tensor<4x6xf32>) -> tensor<4x6xbf16>
    return %a, %b, %c, %d, %u : tensor<4x6xbf16>, tensor<4x6xbf16>, tensor<4x6xf32>, tensor<4x6xbf16>, tensor<4x6xf32>
  }
}
