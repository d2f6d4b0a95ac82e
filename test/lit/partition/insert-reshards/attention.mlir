// RUN: tessera-opt --dist-insert-reshards --dist-verify-resharded %s -split-input-file -verify-diagnostics | FileCheck %s

// Attention: heads and rows may be cut, keys are whole.

// Cut heads move nothing.
module attributes {dist.mesh = #dist.mesh<"model=2">} {
  // CHECK-LABEL: func.func @heads
  func.func @heads(%q: tensor<2x4x8x2xf32> {dist.sharding = #dist.sharding<"[-, model, -, -]">},
                   %k: tensor<2x4x8x2xf32> {dist.sharding = #dist.sharding<"[-, model, -, -]">},
                   %v: tensor<2x4x8x2xf32> {dist.sharding = #dist.sharding<"[-, model, -, -]">})
      -> (tensor<2x4x8x2xf32> {dist.sharding = #dist.sharding<"[-, model, -, -]">}) {
    // CHECK-NEXT: %[[Y:.*]] = graph.attention %arg0, %arg1, %arg2
    // CHECK-NEXT: return %[[Y]]
    %y = graph.attention %q, %k, %v {scale = 0.5 : f64, dist.strategy = #dist.strategy<"h=model">}
      : (tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>) -> tensor<2x4x8x2xf32>
    return %y : tensor<2x4x8x2xf32>
  }
}

// -----

// Cut rows read all keys and values.
module attributes {dist.mesh = #dist.mesh<"model=2">} {
  // CHECK-LABEL: func.func @rows
  func.func @rows(%q: tensor<2x4x8x2xf32> {dist.sharding = #dist.sharding<"[-, -, model, -]">},
                  %k: tensor<2x4x8x2xf32> {dist.sharding = #dist.sharding<"[-, -, model, -]">},
                  %v: tensor<2x4x8x2xf32> {dist.sharding = #dist.sharding<"[-, -, model, -]">})
      -> (tensor<2x4x8x2xf32> {dist.sharding = #dist.sharding<"[-, -, model, -]">}) {
    // CHECK-DAG: %[[K:.*]] = dist.reshard %arg1 from <"[-, -, model, -]"> to <"[-, -, -, -]">
    // CHECK-DAG: %[[V:.*]] = dist.reshard %arg2 from <"[-, -, model, -]"> to <"[-, -, -, -]">
    // CHECK: graph.attention %arg0, %[[K]], %[[V]]
    %y = graph.attention %q, %k, %v {scale = 0.5 : f64, dist.strategy = #dist.strategy<"m=model">}
      : (tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>) -> tensor<2x4x8x2xf32>
    return %y : tensor<2x4x8x2xf32>
  }
}

// -----

// In the gradient, cut rows make the gradients of keys and values partial. The gradient of the rows is complete.
module attributes {dist.mesh = #dist.mesh<"model=2">} {
  // CHECK-LABEL: func.func @gradient
  func.func @gradient(%dy: tensor<2x4x8x2xf32> {dist.sharding = #dist.sharding<"[-, -, model, -]">},
                      %q: tensor<2x4x8x2xf32> {dist.sharding = #dist.sharding<"[-, -, model, -]">},
                      %k: tensor<2x4x8x2xf32> {dist.sharding = #dist.sharding<"[-, -, -, -]">},
                      %v: tensor<2x4x8x2xf32> {dist.sharding = #dist.sharding<"[-, -, -, -]">},
                      %y: tensor<2x4x8x2xf32> {dist.sharding = #dist.sharding<"[-, -, model, -]">},
                      %s: tensor<2x4x8xf32> {dist.sharding = #dist.sharding<"[-, -, model]">})
      -> (tensor<2x4x8x2xf32> {dist.sharding = #dist.sharding<"[-, -, model, -]">},
          tensor<2x4x8x2xf32> {dist.sharding = #dist.sharding<"[-, -, -, -]">},
          tensor<2x4x8x2xf32> {dist.sharding = #dist.sharding<"[-, -, -, -]">}) {
    // CHECK-NEXT: %[[DQ:[^,]*]], %[[DK:[^,]*]], %[[DV:.*]] = graph.attention_grad
    // CHECK-DAG: %[[K:.*]] = dist.reshard %[[DK]] from <"[-, -, -, -] sum(model)"> to <"[-, -, -, -]">
    // CHECK-DAG: %[[V:.*]] = dist.reshard %[[DV]] from <"[-, -, -, -] sum(model)"> to <"[-, -, -, -]">
    // CHECK: return %[[DQ]], %[[K]], %[[V]]
    %dq, %dk, %dv = graph.attention_grad %dy, %q, %k, %v, %y, %s {scale = 0.5 : f64,
        dist.strategy = #dist.strategy<"m=model">}
      : (tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>, tensor<2x4x8xf32>) -> (tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>)
    return %dq, %dk, %dv : tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>, tensor<2x4x8x2xf32>
  }
}
