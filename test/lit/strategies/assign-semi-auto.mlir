// RUN: split-file %s %t
// RUN: tessera-opt --assign-strategies="mesh=data=2,model=2 mode=semi-auto strategy=%t/columns.json" %t/model.mlir | FileCheck %s --check-prefix=COLUMNS
// RUN: tessera-opt --assign-strategies="mesh=data=2,model=2 mode=semi-auto strategy=%t/rows.json" %t/model.mlir | FileCheck %s --check-prefix=ROWS
// RUN: not tessera-opt --assign-strategies="mesh=data=2,model=2 mode=semi-auto strategy=%t/unknown.json" %t/model.mlir 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not tessera-opt --assign-strategies="mesh=data=4,model=2 mode=semi-auto strategy=%t/odd.json" %t/model.mlir 2>&1 | FileCheck %s --check-prefix=ODD

// COLUMNS: tensor<4x6xf32> {dist.sharding = #dist.sharding<"[-, model]">
// COLUMNS: graph.conv {{.*}}dist.strategy = #dist.strategy<"n=data, h=model">
// COLUMNS: graph.matmul {{.*}}dist.strategy = #dist.strategy<"m=data, n=model">
// ROWS: tensor<4x6xf32> {dist.sharding = #dist.sharding<"[model, -]">
// ROWS: graph.conv {{.*}}dist.strategy = #dist.strategy<"n=data+model">
// ROWS: graph.matmul {{.*}}dist.strategy = #dist.strategy<"m=data, k=model -> [data, model]">
// UNKNOWN: the model has no operator 'fd'; the nearest names are 'fc'
// ODD: operator 'fc': dimension 1 (factor n) of input 1 has 6 elements and cannot be split in 8

//--- model.mlir
func.func @infer(
    %x: tensor<8x1x4x4xf32> {graph.role = "input", graph.name = "x"},
    %k: tensor<1x1x3x3xf32> {graph.role = "parameter", graph.name = "k"},
    %w: tensor<4x6xf32> {graph.role = "parameter", graph.name = "w"})
    -> (tensor<8x6xf32> {graph.role = "output", graph.name = "y"}) {
  %c = graph.conv %x, %k {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64, graph.name = "conv"} : (tensor<8x1x4x4xf32>, tensor<1x1x3x3xf32>) -> tensor<8x1x4x4xf32>
  %m = graph.reduce_sum %c {dims = array<i64: 1, 2>, keepdims = false, graph.name = "pool"} : (tensor<8x1x4x4xf32>) -> tensor<8x4xf32>
  %y = graph.matmul %m, %w {graph.name = "fc"} : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
  return %y : tensor<8x6xf32>
}
//--- columns.json
{"strategies": [{"op": "conv", "in": [[2, 1, 2, 1], [1, 1, 1, 1]]},
                {"op": "fc", "in": [["data", null], [null, "model"]]}]}
//--- rows.json
[{"op": "fc", "in": [[2, 2], [2, 1]], "out": [[2, 2]]}]
//--- unknown.json
[{"op": "fd", "in": [[1, 1], [1, 2]]}]
//--- odd.json
[{"op": "fc", "in": [[1, 1], [1, 8]]}]
