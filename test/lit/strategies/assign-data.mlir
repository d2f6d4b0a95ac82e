// RUN: tessera-opt --assign-strategies="mesh=data=2,model=2 mode=data" %s | FileCheck %s
// The batch is cut over both axes. The partial sums of a cut reduction are reduced at once.

// CHECK: module attributes {dist.mesh = #dist.mesh<"data=2,model=2">}
// CHECK-LABEL: func.func @train(
// CHECK-SAME: tensor<8x4xf32> {dist.sharding = #dist.sharding<"[data+model, -]">, graph.name = "x"
// CHECK-SAME: tensor<4x6xf32> {dist.sharding = #dist.sharding<"[-, -]">, graph.name = "w"
func.func @train(
    %x: tensor<8x4xf32> {graph.role = "input", graph.name = "x"},
    %w: tensor<4x6xf32> {graph.role = "parameter", graph.name = "w", graph.update = 1 : i64})
    -> (tensor<f32> {graph.role = "loss", graph.name = "loss"},
        tensor<4x6xf32> {graph.role = "update", graph.name = "w"}) {
  // CHECK: graph.matmul %{{.*}} {dist.strategy = #dist.strategy<"m=data+model">, graph.name = "fc"
  %y = graph.matmul %x, %w {graph.name = "fc"} : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
  // CHECK: graph.reduce_sum {{.*}}dist.strategy = #dist.strategy<"d0=data+model -> []">
  %loss = graph.reduce_sum %y {dims = array<i64: 0, 1>, keepdims = false, graph.name = "loss"} : (tensor<8x6xf32>) -> tensor<f32>
  %dw = graph.matmul %x, %y {transpose_a = true, graph.name = "fc.grad", graph.grad_of = "fc"} : (tensor<8x4xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  // CHECK: graph.matmul {{.*}}dist.strategy = #dist.strategy<"k=data+model -> [-, -]">
  // CHECK: graph.sub {{.*}}dist.strategy = #dist.strategy<"">
  %u = graph.sub %w, %dw {graph.name = "w.update"} : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  return %loss, %u : tensor<f32>, tensor<4x6xf32>
}
