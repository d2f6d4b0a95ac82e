// RUN: tessera-opt --dist-slice-early %s | FileCheck %s

module attributes {dist.made_leaves = 2 : i64} {
  // Nothing but the sums of leaves reads the product. What is broadcast along the rows is not sliced, and equal slices
  // are shared.
  // CHECK-LABEL: func.func @product
  func.func @product(%x: tensor<4x16xf32>, %m: tensor<1x16xf32>) -> (tensor<16xf32>, tensor<16xf32>) {
    // CHECK-DAG: %[[X0:.*]] = graph.slice %arg0 {{.*}}limits = array<i64: 2, 16>, starts = array<i64: 0, 0>
    // CHECK-DAG: %[[X1:.*]] = graph.slice %arg0 {{.*}}limits = array<i64: 4, 16>, starts = array<i64: 2, 0>
    // CHECK-NOT: graph.slice
    // CHECK-DAG: %[[D0:.*]] = graph.sub %[[X0]], %arg1
    // CHECK-DAG: %[[D1:.*]] = graph.sub %[[X1]], %arg1
    // CHECK-DAG: %[[P0:.*]] = graph.mul %[[D0]], %[[D0]]{{.*}} -> tensor<2x16xf32>
    // CHECK-DAG: %[[P1:.*]] = graph.mul %[[D1]], %[[D1]]{{.*}} -> tensor<2x16xf32>
    // CHECK: graph.reduce_sum %[[P0]]
    // CHECK: graph.reduce_sum %[[P1]]
    %d = graph.sub %x, %m : (tensor<4x16xf32>, tensor<1x16xf32>) -> tensor<4x16xf32>
    %p = graph.mul %d, %d : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
    %p0 = graph.slice %p {graph.in_place, starts = array<i64: 0, 0>, limits = array<i64: 2, 16>, strides = array<i64: 1, 1>} : (tensor<4x16xf32>) -> tensor<2x16xf32>
    %p1 = graph.slice %p {graph.in_place, starts = array<i64: 2, 0>, limits = array<i64: 4, 16>, strides = array<i64: 1, 1>} : (tensor<4x16xf32>) -> tensor<2x16xf32>
    %s0 = graph.reduce_sum %p0 {dims = array<i64: 0>, keepdims = false} : (tensor<2x16xf32>) -> tensor<16xf32>
    %s1 = graph.reduce_sum %p1 {dims = array<i64: 0>, keepdims = false} : (tensor<2x16xf32>) -> tensor<16xf32>
    return %s0, %s1 : tensor<16xf32>, tensor<16xf32>
  }

  // Splats and stretched values follow the shape.
  // CHECK-LABEL: func.func @stretched
  func.func @stretched(%x: tensor<4x16xf32>, %b: tensor<16xf32>) -> tensor<2x16xf32> {
    // CHECK-DAG: %[[X:.*]] = graph.slice %arg0
    // CHECK-DAG: %[[B:.*]] = graph.broadcast %arg1 {{.*}} -> tensor<2x16xf32>
    // CHECK-DAG: %[[C:.*]] = graph.constant dense<2.000000e+00> : tensor<2x16xf32>
    // CHECK-DAG: %[[A:.*]] = graph.add %[[X]], %[[B]]
    // CHECK: graph.mul %[[A]], %[[C]]
    %s = graph.broadcast %b : (tensor<16xf32>) -> tensor<4x16xf32>
    %c = graph.constant dense<2.0> : tensor<4x16xf32>
    %a = graph.add %x, %s : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
    %m = graph.mul %a, %c : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
    %p = graph.slice %m {graph.in_place, starts = array<i64: 2, 0>, limits = array<i64: 4, 16>, strides = array<i64: 1, 1>} : (tensor<4x16xf32>) -> tensor<2x16xf32>
    return %p : tensor<2x16xf32>
  }

  // All leaves of columns.
  // CHECK-LABEL: func.func @split
  func.func @split(%x: tensor<4x16xf32>, %m: tensor<4x1xf32>, %b: tensor<16xf32>) -> tensor<4x2xf32> {
    // CHECK-DAG: %[[X:.*]] = graph.reshape %arg0 {{.*}} -> tensor<4x2x8xf32>
    // CHECK-DAG: %[[M:.*]] = graph.reshape %arg1 {{.*}} -> tensor<4x1x1xf32>
    // CHECK-DAG: %[[B:.*]] = graph.reshape %arg2 {{.*}} -> tensor<2x8xf32>
    // CHECK-DAG: %[[D:.*]] = graph.sub %[[X]], %[[M]]
    // CHECK: %[[P:.*]] = graph.mul %[[D]], %[[B]]{{.*}} -> tensor<4x2x8xf32>
    // CHECK: graph.reduce_sum %[[P]]
    %d = graph.sub %x, %m : (tensor<4x16xf32>, tensor<4x1xf32>) -> tensor<4x16xf32>
    %p = graph.mul %d, %b : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
    %r = graph.reshape %p {graph.in_place} : (tensor<4x16xf32>) -> tensor<4x2x8xf32>
    %s = graph.reduce_sum %r {dims = array<i64: 2>, keepdims = false} : (tensor<4x2x8xf32>) -> tensor<4x2xf32>
    return %s : tensor<4x2xf32>
  }

  // Somebody reads all of it: it is in memory anyway, and read there.
  // CHECK-LABEL: func.func @read
  func.func @read(%x: tensor<4x16xf32>) -> (tensor<4x16xf32>, tensor<2x16xf32>) {
    // CHECK-NEXT: %[[R:.*]] = graph.relu %arg0
    // CHECK-NEXT: graph.slice %[[R]]
    %r = graph.relu %x : (tensor<4x16xf32>) -> tensor<4x16xf32>
    %p = graph.slice %r {graph.in_place, starts = array<i64: 2, 0>, limits = array<i64: 4, 16>, strides = array<i64: 1, 1>} : (tensor<4x16xf32>) -> tensor<2x16xf32>
    return %r, %p : tensor<4x16xf32>, tensor<2x16xf32>
  }

  // A copy of columns is a step of its own.
  // CHECK-LABEL: func.func @columns
  func.func @columns(%x: tensor<4x16xf32>) -> tensor<4x8xf32> {
    // CHECK-NEXT: %[[R:.*]] = graph.relu %arg0
    // CHECK-NEXT: graph.slice %[[R]]
    %r = graph.relu %x : (tensor<4x16xf32>) -> tensor<4x16xf32>
    %p = graph.slice %r {starts = array<i64: 0, 8>, limits = array<i64: 4, 16>, strides = array<i64: 1, 1>} : (tensor<4x16xf32>) -> tensor<4x8xf32>
    return %p : tensor<4x8xf32>
  }
}
