// RUN: tessera-opt --assign-strategies="mesh=data=2,model=2 mode=auto topology=8xh100" %s | FileCheck %s
// A product with a huge weight and a tiny batch: moving the weight or its gradient would cost far more than moving
// the activations, so the weight is cut and stays where it is.

// CHECK-LABEL: func.func @infer(
// CHECK-SAME: tensor<8192x8192xf32> {dist.sharding = #dist.sharding<"[{{(data|model)(\+(data|model))?, -|-, (data|model)(\+(data|model))?|data, model|model, data}}]">
func.func @infer(
    %x: tensor<4x8192xf32> {graph.role = "input", graph.name = "x"},
    %w: tensor<8192x8192xf32> {graph.role = "parameter", graph.name = "w"})
    -> (tensor<4x8192xf32> {graph.role = "output", graph.name = "y"}) {
  // CHECK-NOT: dist.strategy<"m=
  // CHECK: graph.matmul
  %y = graph.matmul %x, %w {graph.name = "fc"} : (tensor<4x8192xf32>, tensor<8192x8192xf32>) -> tensor<4x8192xf32>
  return %y : tensor<4x8192xf32>
}
