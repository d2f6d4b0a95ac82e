// What ties a per-rank program to the outside: the loss is the mean over the axes that cut the data, a count a sum,
// a running statistic one value; every argument and result knows the shape that it has over all ranks.
// RUN: split-file %s %t
// RUN: tessera-opt --hybrid-annotate --hybrid-complete %t/model.mlir | FileCheck %s
// RUN: not tessera-opt --hybrid-annotate="file=%t/columns.json" --hybrid-complete="file=%t/columns.json" %t/model.mlir 2>&1 | FileCheck %s --check-prefix=ASTRAY

// CHECK-LABEL: func.func @eval(
// CHECK-SAME: tensor<4x3xf32> {dist.global_shape = array<i64: 8, 3>, dist.sharding = #dist.sharding<"[data, -]">, graph.name = "x"
// CHECK-SAME: tensor<4x3xf32> {dist.global_shape = array<i64: 8, 3>, dist.sharding = #dist.sharding<"[data, -]">, graph.name = "target"
// CHECK-SAME: tensor<3xf32> {dist.global_shape = array<i64: 3>, dist.sharding = #dist.sharding<"[-]">, graph.name = "w"
// CHECK: %[[Y:.*]] = graph.mul
// CHECK: %[[LOSS:.*]] = graph.reduce_sum {{.*}}graph.name = "loss"
// CHECK: %[[SUM:.*]] = dist.collective "all-reduce" %[[LOSS]] {axes = ["data"], graph.name = "loss.mean", reduction = "sum"}
// CHECK: %[[MEAN:.*]] = graph.mul %[[SUM]], %{{.*}} {graph.name = "loss.mean.scale"}
// CHECK: dist.collective "all-reduce" {{.*}}axes = ["data"], graph.name = "correct.sum"
// CHECK: return %[[Y]], %[[MEAN]], %

// w lies in slices on the ranks of model. The output may be so; of the loss each of them has only a part.
// ASTRAY: error: {{.*}}the loss differs along axis 'model', which cuts neither inputs nor targets

//--- columns.json
{"parameters": {"w": ["model"]}, "outputs": {"y": ["data", "model"]}}
//--- model.mlir
module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  func.func @eval(%x: tensor<4x3xf32> {graph.role = "input", graph.name = "x"},
                  %t: tensor<4x3xf32> {graph.role = "target", graph.name = "target"},
                  %w: tensor<3xf32> {graph.role = "parameter", graph.name = "w"})
      -> (tensor<4x3xf32> {graph.role = "output", graph.name = "y"},
          tensor<f32> {graph.role = "loss", graph.name = "loss"},
          tensor<f32> {graph.role = "correct", graph.name = "correct"}) {
    %y = graph.mul %x, %w {graph.name = "y"} : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
    %d = graph.sub %y, %t {graph.name = "d"} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %loss = graph.reduce_sum %d {dims = array<i64: 0, 1>, keepdims = false, graph.name = "loss"} : (tensor<4x3xf32>) -> tensor<f32>
    %c = graph.reduce_sum %y {dims = array<i64: 0, 1>, keepdims = false, graph.name = "correct"} : (tensor<4x3xf32>) -> tensor<f32>
    return %y, %loss, %c : tensor<4x3xf32>, tensor<f32>, tensor<f32>
  }
}
