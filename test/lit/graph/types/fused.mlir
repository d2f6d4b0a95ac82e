// RUN: tessera-opt %s --split-input-file --verify-diagnostics=only-expected

// A loop's body has the operands' types and yields the results.

func.func @arguments(%x: tensor<4xf32>) {
  // expected-error @+1 {{'graph.fused' op needs one block argument per input}}
  %0 = graph.fused(%x) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
    graph.yield %a : tensor<4xf32>
  }
  return
}

// -----

func.func @argument_type(%x: tensor<4xf32>) {
  // expected-error @+1 {{'graph.fused' op block argument and input differ in type}}
  %0 = graph.fused(%x) : (tensor<4xf32>) -> tensor<3xf32> {
  ^bb0(%a: tensor<3xf32>):
    graph.yield %a : tensor<3xf32>
  }
  return
}

// -----

func.func @yields(%x: tensor<4xf32>) {
  // expected-error @+1 {{'graph.fused' op must yield one value per result}}
  %0 = graph.fused(%x) : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    graph.yield %a, %a : tensor<4xf32>, tensor<4xf32>
  }
  return
}

// -----

func.func @yielded_type(%x: tensor<4xf32>) {
  // expected-error @+1 {{'graph.fused' op yielded value and result differ in type}}
  %0 = graph.fused(%x) : (tensor<4xf32>) -> tensor<3xf32> {
  ^bb0(%a: tensor<4xf32>):
    graph.yield %a : tensor<4xf32>
  }
  return
}
