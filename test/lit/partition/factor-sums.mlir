// RUN: tessera-opt --dist-insert-reshards --dist-localize --dist-verify-local %s -split-input-file | FileCheck %s

// Every rank multiplies its term, and what was left of it, with the basis of the step before. The sum of the products is
// made a basis, the terms' shares in it are summed, and what a rank's term has beyond its share is left.
module attributes {dist.mesh = #dist.mesh<"data=4">} {
  // CHECK-LABEL: func.func @all_reduce
  // CHECK-SAME: %[[LEFT:[a-z0-9]+]]: tensor<1x9x8xf32> {dist.global_shape = array<i64: 4, 9, 8>, dist.sharding = #dist.sharding<"[data, -, -]">, graph.fill = 0.000000e+00 : f64, graph.name = "unsent/w", graph.role = "state", graph.update = 1 : i64}
  // CHECK-SAME: %[[BASIS:[a-z0-9]+]]: tensor<1x8x2xf32> {dist.global_shape = array<i64: 1, 8, 2>, dist.sharding = #dist.sharding<"[-, -, -]">, graph.fill = 0.000000e+00 : f64, graph.name = "sent_basis/w", graph.role = "state", graph.update = 2 : i64}
  func.func @all_reduce(%x: tensor<8x9xf32> {dist.sharding = #dist.sharding<"[data, -]">, graph.role = "input", graph.name = "x"},
                        %y: tensor<8x8xf32> {dist.sharding = #dist.sharding<"[data, -]">, graph.role = "input", graph.name = "y"})
      -> (tensor<9x8xf32> {dist.sharding = #dist.sharding<"[-, -]">, graph.role = "output", graph.name = "g"}) {
    // CHECK: %[[G:.*]] = graph.matmul
    // CHECK-DAG: %[[OLD:.*]] = graph.reshape %[[LEFT]]
    // CHECK-DAG: %[[OLDBASIS:.*]] = graph.reshape %[[BASIS]]
    // CHECK: %[[WHOLE:.*]] = graph.add {{.*}}, %[[OLD]]
    // CHECK: %[[FROM:.*]] = graph.orthonormalize %[[OLDBASIS]]
    // CHECK: %[[OWNLEFT:.*]] = graph.matmul %[[WHOLE]], %[[FROM]]
    // CHECK: %[[ALLLEFT:.*]] = dist.collective "all-reduce" %[[OWNLEFT]] {{.*}} : (tensor<9x2xf32>) -> tensor<9x2xf32>
    // CHECK: %[[P:.*]] = graph.orthonormalize %[[ALLLEFT]]
    // CHECK: %[[OWN:.*]] = graph.matmul %[[WHOLE]], %[[P]] {{.*}}transpose_a = true
    // CHECK: %[[Q:.*]] = dist.collective "all-reduce" %[[OWN]] {{.*}} : (tensor<8x2xf32>) -> tensor<8x2xf32>
    // CHECK: %[[SHARE:.*]] = graph.matmul %[[P]], %[[OWN]] {{.*}}transpose_b = true
    // CHECK: graph.sub %[[WHOLE]], %[[SHARE]]
    // CHECK: %[[SUM:.*]] = graph.matmul %[[P]], %[[Q]] {{.*}}transpose_b = true
    // CHECK-NOT: dist.collective
    // CHECK-NOT: graph.sent_as
    // CHECK: return
    %g = graph.matmul %x, %y {transpose_a = true, dist.strategy = #dist.strategy<"k=data">} : (tensor<8x9xf32>, tensor<8x8xf32>) -> tensor<9x8xf32>
    %s = graph.reshape %g {graph.sent_as = "powersgd:rank=2", graph.update_of = "w", dist.strategy = #dist.strategy<"">} : (tensor<9x8xf32>) -> tensor<9x8xf32>
    return %s : tensor<9x8xf32>
  }
}

// -----

// Factors of a small matrix are no smaller than it.
module attributes {dist.mesh = #dist.mesh<"data=2">} {
  // CHECK-LABEL: func.func @small
  // CHECK-NOT: graph.role = "state"
  func.func @small(%x: tensor<8x4xf32> {dist.sharding = #dist.sharding<"[data, -]">, graph.role = "input", graph.name = "x"},
                   %y: tensor<8x4xf32> {dist.sharding = #dist.sharding<"[data, -]">, graph.role = "input", graph.name = "y"})
      -> (tensor<4x4xf32> {dist.sharding = #dist.sharding<"[-, -]">, graph.role = "output", graph.name = "g"}) {
    // CHECK: dist.collective "all-reduce" {{.*}} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    // CHECK-NOT: graph.orthonormalize
    %g = graph.matmul %x, %y {transpose_a = true, dist.strategy = #dist.strategy<"k=data">} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %s = graph.reshape %g {graph.sent_as = "powersgd:rank=2,always", graph.update_of = "w", dist.strategy = #dist.strategy<"">} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %s : tensor<4x4xf32>
  }
}

// -----

// A rank that reads a part alone cuts it from the sum.
module attributes {dist.mesh = #dist.mesh<"data=2">} {
  // CHECK-LABEL: func.func @part
  func.func @part(%x: tensor<8x9xf32> {dist.sharding = #dist.sharding<"[data, -]">, graph.role = "input", graph.name = "x"},
                  %y: tensor<8x16xf32> {dist.sharding = #dist.sharding<"[data, -]">, graph.role = "input", graph.name = "y"})
      -> (tensor<9x16xf32> {dist.sharding = #dist.sharding<"[-, data]">, graph.role = "output", graph.name = "g"}) {
    // CHECK: dist.collective "all-reduce" {{.*}} : (tensor<9x1xf32>) -> tensor<9x1xf32>
    // CHECK: dist.collective "all-reduce" {{.*}} : (tensor<16x1xf32>) -> tensor<16x1xf32>
    // CHECK: dist.collective "slice" {{.*}} : (tensor<9x16xf32>) -> tensor<9x8xf32>
    %g = graph.matmul %x, %y {transpose_a = true, dist.strategy = #dist.strategy<"k=data">} : (tensor<8x9xf32>, tensor<8x16xf32>) -> tensor<9x16xf32>
    %s = graph.reshape %g {graph.sent_as = "powersgd:rank=1", graph.update_of = "w", dist.strategy = #dist.strategy<"r1=data">} : (tensor<9x16xf32>) -> tensor<9x16xf32>
    return %s : tensor<9x16xf32>
  }
}
