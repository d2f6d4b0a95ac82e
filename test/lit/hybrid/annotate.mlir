// How the arguments of a per-rank program are cut, by a file and without one; what the file must not say.
// RUN: split-file %s %t
// RUN: tessera-opt --hybrid-annotate="file=%t/columns.json" %t/model.mlir | FileCheck %s --check-prefix=FILE
// RUN: tessera-opt --hybrid-annotate %t/model.mlir | FileCheck %s --check-prefix=NONE
// RUN: not tessera-opt --hybrid-annotate="file=%t/unknown.json" %t/model.mlir 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not tessera-opt --hybrid-annotate="file=%t/absent.json" %t/model.mlir 2>&1 | FileCheck %s --check-prefix=ABSENT

// FILE: %{{.*}}: tensor<4x3xf32> {dist.sharding = #dist.sharding<"[data, -]">, graph.name = "x", graph.role = "input"}
// FILE-SAME: %{{.*}}: tensor<3x2xf32> {dist.sharding = #dist.sharding<"[-, model]">, graph.name = "fc.weight", graph.role = "parameter"}
// What the random numbers meet differs along both axes: every rank draws its own.
// FILE: graph.random
// FILE-SAME: dist.per_rank = [{global_shape = array<i64: 16, 2>, offset = array<i64: 0, 0>}, {global_shape = array<i64: 16, 2>, offset = array<i64: 4, 0>}, {global_shape = array<i64: 16, 2>, offset = array<i64: 8, 0>}, {global_shape = array<i64: 16, 2>, offset = array<i64: 12, 0>}]

// NONE: tensor<4x3xf32> {dist.sharding = #dist.sharding<"[data, -]">, graph.name = "x"
// NONE-SAME: tensor<3x2xf32> {dist.sharding = #dist.sharding<"[-, -]">, graph.name = "fc.weight"
// Here it differs along data alone: the ranks of model draw the same, and all together what the whole batch would get.
// NONE: graph.random
// NONE-SAME: dist.per_rank = [{global_shape = array<i64: 8, 2>, offset = array<i64: 0, 0>}, {global_shape = array<i64: 8, 2>, offset = array<i64: 0, 0>}, {global_shape = array<i64: 8, 2>, offset = array<i64: 4, 0>}, {global_shape = array<i64: 8, 2>, offset = array<i64: 4, 0>}]

// UNKNOWN: error: {{.*}}unknown.json: parameters: the model has no parameter 'fc9.weight'
// ABSENT: error: {{.*}}absent.json

//--- columns.json
{"batch": "data", "parameters": {"fc.weight": [null, "model"]}}
//--- unknown.json
{"parameters": {"fc9.weight": ["model"]}}
//--- model.mlir
module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  func.func @forward(%s: tensor<i64> {graph.role = "step", graph.name = "step"},
                     %x: tensor<4x3xf32> {graph.role = "input", graph.name = "x"},
                     %w: tensor<3x2xf32> {graph.role = "parameter", graph.name = "fc.weight"})
      -> (tensor<4x2xf32> {graph.role = "output", graph.name = "y"}) {
    %y = graph.matmul %x, %w {graph.name = "fc"} : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
    %r = graph.random %s {seed = 1 : i64, stream = 2 : i64, graph.name = "mask"} : (tensor<i64>) -> tensor<4x2xf32>
    %z = graph.mul %y, %r {graph.name = "drop"} : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
    return %z : tensor<4x2xf32>
  }
}
