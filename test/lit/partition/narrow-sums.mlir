// RUN: tessera-opt --dist-insert-reshards --dist-localize --dist-verify-local %s -split-input-file | FileCheck %s

// Every rank rounds its term and what was left of it, sends each other rank its part, adds the parts that it gets, and
// rounds and sends their sum. What is left is a state of a rank.
module attributes {dist.mesh = #dist.mesh<"data=4">} {
  // CHECK-LABEL: func.func @all_reduce
  // CHECK-SAME: %[[LEFT:[a-z0-9]+]]: tensor<1x4x3xf32> {dist.global_shape = array<i64: 4, 4, 3>, dist.sharding = #dist.sharding<"[data, -, -]">, graph.fill = 0.000000e+00 : f64, graph.name = "unsent/w", graph.role = "state", graph.update = 1 : i64}
  // CHECK-SAME: %[[LEFTSUM:[a-z0-9]+]]: tensor<1x1x3xf32> {{{.*}}graph.name = "unsent_sum/w"{{.*}}graph.update = 2 : i64}
  // CHECK-SAME: -> (tensor<5x2xf32> {{{.*}}}, tensor<1x4x3xf32> {{{.*}}graph.name = "unsent/w", graph.role = "update"}, tensor<1x1x3xf32>
  func.func @all_reduce(%x: tensor<8x5xf32> {dist.sharding = #dist.sharding<"[data, -]">, graph.role = "input", graph.name = "x"},
                        %y: tensor<8x2xf32> {dist.sharding = #dist.sharding<"[data, -]">, graph.role = "input", graph.name = "y"})
      -> (tensor<5x2xf32> {dist.sharding = #dist.sharding<"[-, -]">, graph.role = "output", graph.name = "g"}) {
    // CHECK: %[[G:.*]] = graph.matmul
    // 10 elements are four pieces of 3.
    // CHECK: graph.pad {{.*}}hi = array<i64: 0, 2>
    // CHECK: %[[PIECES:.*]] = graph.reshape {{.*}} -> tensor<4x3xf32>
    // CHECK: %[[OLD:.*]] = graph.reshape %[[LEFT]]
    // CHECK: %[[WHOLE:.*]] = graph.add %[[PIECES]], %[[OLD]]
    // CHECK: %[[SENT:.*]] = graph.cast %[[WHOLE]] {{.*}}graph.rounds{{.*}} -> tensor<4x3xbf16>
    // CHECK: %[[WIDE:.*]] = graph.cast %[[SENT]] {{.*}} -> tensor<4x3xf32>
    // CHECK: graph.sub %[[WHOLE]], %[[WIDE]]
    // CHECK: dist.collective "all-to-all" %[[SENT]] {axes = ["data"], dim = 1 : i64, {{.*}}split_dim = 0 : i64} : (tensor<4x3xbf16>) -> tensor<1x12xbf16>
    // CHECK: graph.cast {{.*}} -> tensor<4x3xf32>
    // CHECK: %[[SUM:.*]] = graph.reduce_sum {{.*}}dims = array<i64: 0>{{.*}}keepdims = true
    // CHECK: graph.add %[[SUM]]
    // CHECK: %[[PART:.*]] = graph.cast {{.*}} -> tensor<1x3xbf16>
    // CHECK: dist.collective "all-gather" %[[PART]] {axes = ["data"], dim = 0 : i64, {{.*}}} : (tensor<1x3xbf16>) -> tensor<4x3xbf16>
    // CHECK: graph.slice {{.*}}limits = array<i64: 1, 10>
    // CHECK-NOT: graph.sent_as
    // CHECK: return
    %g = graph.matmul %x, %y {transpose_a = true, dist.strategy = #dist.strategy<"k=data">} : (tensor<8x5xf32>, tensor<8x2xf32>) -> tensor<5x2xf32>
    %s = graph.reshape %g {graph.sent_as = "bf16", graph.update_of = "w", dist.strategy = #dist.strategy<"">} : (tensor<5x2xf32>) -> tensor<5x2xf32>
    return %s : tensor<5x2xf32>
  }
}

// -----

// A sharded update reads its part alone. Blocks of columns are brought together first.
module attributes {dist.mesh = #dist.mesh<"data=2">} {
  // CHECK-LABEL: func.func @reduce_scatter
  // CHECK-SAME: tensor<1x2x16xf32> {{{.*}}"unsent/w"
  // CHECK-NOT: unsent_sum
  func.func @reduce_scatter(%x: tensor<8x5xf32> {dist.sharding = #dist.sharding<"[data, -]">, graph.role = "input", graph.name = "x"},
                            %y: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[data, -]">, graph.role = "input", graph.name = "y"})
      -> (tensor<5x6xf32> {dist.sharding = #dist.sharding<"[-, data]">, graph.role = "output", graph.name = "g"}) {
    // CHECK: graph.transpose {{.*}}perm = array<i64: 1, 0, 2>
    // CHECK: graph.reduce_max {{.*}} -> tensor<2x2x1xf32>
    // CHECK: graph.cast {{.*}} -> tensor<2x2x8xi8>
    // CHECK: dist.collective "all-to-all" {{.*}} : (tensor<2x16xi8>) -> tensor<1x32xi8>
    // CHECK: dist.collective "all-to-all" {{.*}} : (tensor<2x2xf32>) -> tensor<1x4xf32>
    // CHECK: graph.slice {{.*}}limits = array<i64: 1, 15>
    // CHECK-NOT: all-gather
    // CHECK: return
    %g = graph.matmul %x, %y {transpose_a = true, dist.strategy = #dist.strategy<"k=data">} : (tensor<8x5xf32>, tensor<8x6xf32>) -> tensor<5x6xf32>
    %s = graph.reshape %g {graph.sent_as = "int8:block=8", graph.update_of = "w", dist.strategy = #dist.strategy<"r1=data">} : (tensor<5x6xf32>) -> tensor<5x6xf32>
    return %s : tensor<5x6xf32>
  }
}
