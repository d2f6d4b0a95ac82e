// RUN: tessera-opt --graph-mark-parts %s | FileCheck %s
module attributes {dist.mesh = #dist.mesh<"data=2">} {
  // All of x is read: queries, keys and values lie side by side in the rows of each head.
  // CHECK-LABEL: func.func @columns
  // CHECK-COUNT-3: graph.slice {{.*}}graph.read_as_part
  // CHECK-NEXT: graph.attention
  func.func @columns(%x: tensor<2x5x3x24xf32>) -> tensor<2x5x3x8xf32> {
    %q = graph.slice %x {starts = array<i64: 0, 0, 0, 0>, limits = array<i64: 2, 5, 3, 8>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x5x3x24xf32>) -> tensor<2x5x3x8xf32>
    %k = graph.slice %x {starts = array<i64: 0, 0, 0, 8>, limits = array<i64: 2, 5, 3, 16>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x5x3x24xf32>) -> tensor<2x5x3x8xf32>
    %v = graph.slice %x {starts = array<i64: 0, 0, 0, 16>, limits = array<i64: 2, 5, 3, 24>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x5x3x24xf32>) -> tensor<2x5x3x8xf32>
    %y = graph.attention %q, %k, %v {scale = 1.0, rows_first = true} : (tensor<2x5x3x8xf32>, tensor<2x5x3x8xf32>, tensor<2x5x3x8xf32>) -> tensor<2x5x3x8xf32>
    return %y : tensor<2x5x3x8xf32>
  }

  // As exporters write it: the row is cut, and then becomes heads. Queries have 4 heads, keys and values 2.
  // CHECK-LABEL: func.func @rows
  // CHECK: %[[A:.*]] = graph.reshape %arg0 {{.*}} -> tensor<2x5x8x8xf32>
  // CHECK: graph.slice %[[A]] {{{.*}}graph.read_as_part, limits = array<i64: 2, 5, 4, 8>, starts = array<i64: 0, 0, 0, 0>
  // CHECK: graph.slice {{.*}}graph.read_as_part, limits = array<i64: 2, 5, 6, 8>, starts = array<i64: 0, 0, 4, 0>
  // CHECK: graph.slice {{.*}}graph.read_as_part, limits = array<i64: 2, 5, 8, 8>, starts = array<i64: 0, 0, 6, 0>
  // CHECK-NEXT: graph.attention
  func.func @rows(%x: tensor<10x64xf32>) -> tensor<2x5x4x8xf32> {
    %0 = graph.slice %x {starts = array<i64: 0, 0>, limits = array<i64: 10, 32>, strides = array<i64: 1, 1>} : (tensor<10x64xf32>) -> tensor<10x32xf32>
    %1 = graph.slice %x {starts = array<i64: 0, 32>, limits = array<i64: 10, 48>, strides = array<i64: 1, 1>} : (tensor<10x64xf32>) -> tensor<10x16xf32>
    %2 = graph.slice %x {starts = array<i64: 0, 48>, limits = array<i64: 10, 64>, strides = array<i64: 1, 1>} : (tensor<10x64xf32>) -> tensor<10x16xf32>
    %q = graph.reshape %0 : (tensor<10x32xf32>) -> tensor<2x5x4x8xf32>
    %k = graph.reshape %1 : (tensor<10x16xf32>) -> tensor<2x5x2x8xf32>
    %v = graph.reshape %2 : (tensor<10x16xf32>) -> tensor<2x5x2x8xf32>
    %y = graph.attention %q, %k, %v {scale = 1.0, rows_first = true} : (tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x8xf32>) -> tensor<2x5x4x8xf32>
    return %y : tensor<2x5x4x8xf32>
  }

  // One tensor with a dimension for queries, keys and values.
  // CHECK-LABEL: func.func @stacked
  // CHECK-COUNT-3: graph.slice {{.*}}graph.read_as_part
  func.func @stacked(%x: tensor<2x5x3x4x8xf32>) -> tensor<2x5x4x8xf32> {
    %0 = graph.slice %x {starts = array<i64: 0, 0, 0, 0, 0>, limits = array<i64: 2, 5, 1, 4, 8>, strides = array<i64: 1, 1, 1, 1, 1>} : (tensor<2x5x3x4x8xf32>) -> tensor<2x5x1x4x8xf32>
    %1 = graph.slice %x {starts = array<i64: 0, 0, 1, 0, 0>, limits = array<i64: 2, 5, 2, 4, 8>, strides = array<i64: 1, 1, 1, 1, 1>} : (tensor<2x5x3x4x8xf32>) -> tensor<2x5x1x4x8xf32>
    %2 = graph.slice %x {starts = array<i64: 0, 0, 2, 0, 0>, limits = array<i64: 2, 5, 3, 4, 8>, strides = array<i64: 1, 1, 1, 1, 1>} : (tensor<2x5x3x4x8xf32>) -> tensor<2x5x1x4x8xf32>
    %q = graph.reshape %0 : (tensor<2x5x1x4x8xf32>) -> tensor<2x5x4x8xf32>
    %k = graph.reshape %1 : (tensor<2x5x1x4x8xf32>) -> tensor<2x5x4x8xf32>
    %v = graph.reshape %2 : (tensor<2x5x1x4x8xf32>) -> tensor<2x5x4x8xf32>
    %y = graph.attention %q, %k, %v {scale = 1.0, rows_first = true} : (tensor<2x5x4x8xf32>, tensor<2x5x4x8xf32>, tensor<2x5x4x8xf32>) -> tensor<2x5x4x8xf32>
    return %y : tensor<2x5x4x8xf32>
  }

  // x would live for a third of it; a slice that somebody else reads, too; steps; rows that are cut.
  // CHECK-LABEL: func.func @copies
  // CHECK-NOT: graph.read_as_part
  func.func @copies(%x: tensor<2x5x3x24xf32>, %z: tensor<2x5x3x16xf32>, %w: tensor<2x10x3x8xf32>, %o: tensor<2x5x3x8xf32>) -> (tensor<2x5x3x8xf32>, tensor<2x5x3x8xf32>, tensor<2x5x3x8xf32>, tensor<2x5x3x8xf32>, tensor<2x5x3x8xf32>) {
    %q = graph.slice %x {starts = array<i64: 0, 0, 0, 0>, limits = array<i64: 2, 5, 3, 8>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x5x3x24xf32>) -> tensor<2x5x3x8xf32>
    %a = graph.attention %q, %o, %o {scale = 1.0, rows_first = true} : (tensor<2x5x3x8xf32>, tensor<2x5x3x8xf32>, tensor<2x5x3x8xf32>) -> tensor<2x5x3x8xf32>
    %k0 = graph.slice %z {starts = array<i64: 0, 0, 0, 0>, limits = array<i64: 2, 5, 3, 8>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x5x3x16xf32>) -> tensor<2x5x3x8xf32>
    %k1 = graph.slice %z {starts = array<i64: 0, 0, 0, 8>, limits = array<i64: 2, 5, 3, 16>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x5x3x16xf32>) -> tensor<2x5x3x8xf32>
    %b = graph.attention %o, %k0, %k1 {scale = 1.0, rows_first = true} : (tensor<2x5x3x8xf32>, tensor<2x5x3x8xf32>, tensor<2x5x3x8xf32>) -> tensor<2x5x3x8xf32>
    %n = graph.neg %k1 : (tensor<2x5x3x8xf32>) -> tensor<2x5x3x8xf32>
    %w0 = graph.slice %w {starts = array<i64: 0, 0, 0, 0>, limits = array<i64: 2, 10, 3, 8>, strides = array<i64: 1, 2, 1, 1>} : (tensor<2x10x3x8xf32>) -> tensor<2x5x3x8xf32>
    %c = graph.attention %w0, %o, %o {scale = 1.0, rows_first = true} : (tensor<2x5x3x8xf32>, tensor<2x5x3x8xf32>, tensor<2x5x3x8xf32>) -> tensor<2x5x3x8xf32>
    %w1 = graph.slice %w {starts = array<i64: 0, 0, 0, 0>, limits = array<i64: 2, 5, 3, 8>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x10x3x8xf32>) -> tensor<2x5x3x8xf32>
    %w2 = graph.slice %w {starts = array<i64: 0, 5, 0, 0>, limits = array<i64: 2, 10, 3, 8>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x10x3x8xf32>) -> tensor<2x5x3x8xf32>
    %d = graph.attention %o, %w1, %w2 {scale = 1.0, rows_first = true} : (tensor<2x5x3x8xf32>, tensor<2x5x3x8xf32>, tensor<2x5x3x8xf32>) -> tensor<2x5x3x8xf32>
    return %a, %b, %c, %d, %n : tensor<2x5x3x8xf32>, tensor<2x5x3x8xf32>, tensor<2x5x3x8xf32>, tensor<2x5x3x8xf32>, tensor<2x5x3x8xf32>
  }
}
