// RUN: split-file %s %t
// RUN: tessera-opt --assign-strategies="mesh=model=8 mode=semi-auto strategy=%t/heads.json" %t/twelve.mlir | FileCheck %s --check-prefix=SEMI
// RUN: tessera-opt --assign-strategies="mesh=model=4 mode=auto topology=8xh100" %t/twelve.mlir | FileCheck %s --check-prefix=EVEN
// RUN: not tessera-opt --assign-strategies="mesh=model=8 mode=semi-auto strategy=%t/plain.json" %t/twelve.mlir 2>&1 | FileCheck %s --check-prefix=PLAIN

// Twelve heads of 64 on eight ranks.
// SEMI: graph.matmul {{.*}}dist.strategy = #dist.strategy<"n=model/64">
// SEMI: graph.reshape {{.*}}dist.strategy = #dist.strategy<"r1=model">
// SEMI: graph.softmax {{.*}}dist.strategy = #dist.strategy<"d1=model">
// SEMI: graph.reshape {{.*}}dist.strategy = #dist.strategy<"r1=model">
// SEMI: graph.matmul {{.*}}dist.strategy = #dist.strategy<"k=model/64 -> [-, -]">
// On four ranks the heads divide, and no unit is needed.
// EVEN-NOT: model/
// EVEN: graph.matmul {{.*}}dist.strategy = #dist.strategy<"n=model">
// EVEN-NOT: model/
// PLAIN: operator 'split': dimension 1 (factor r1 r2) of input 0, whose extent is 768, cannot be split in 8; it can in units of 64: write "model/64"

//--- twelve.mlir
func.func @infer(%x: tensor<7x768xf32> {graph.role = "input", graph.name = "x"},
                 %w: tensor<768x768xf32> {graph.role = "parameter", graph.name = "w"},
                 %o: tensor<768x768xf32> {graph.role = "parameter", graph.name = "o"})
    -> (tensor<7x768xf32> {graph.role = "output", graph.name = "y"}) {
  %q = graph.matmul %x, %w {graph.name = "q"} : (tensor<7x768xf32>, tensor<768x768xf32>) -> tensor<7x768xf32>
  %h = graph.reshape %q {graph.name = "split"} : (tensor<7x768xf32>) -> tensor<7x12x64xf32>
  %s = graph.softmax %h {dim = 2 : i64, graph.name = "softmax"} : (tensor<7x12x64xf32>) -> tensor<7x12x64xf32>
  %m = graph.reshape %s {graph.name = "merge"} : (tensor<7x12x64xf32>) -> tensor<7x768xf32>
  %y = graph.matmul %m, %o {graph.name = "out"} : (tensor<7x768xf32>, tensor<768x768xf32>) -> tensor<7x768xf32>
  return %y : tensor<7x768xf32>
}
//--- heads.json
[{"op": "q", "in": [[1, 1], [1, "8/64"]]}, {"op": "split", "in": [[1, 8]]}, {"op": "softmax", "in": [[1, 8, 1]]},
 {"op": "merge", "in": [[1, 8, 1]]}, {"op": "out", "in": [[1, "8/64"], ["8/64", 1]]}]
//--- plain.json
[{"op": "split", "in": [[null, "model"]]}]
