// RUN: tessera-opt --dist-insert-reshards --dist-verify-resharded %s -split-input-file -verify-diagnostics | FileCheck %s

// Data parallel: the gradient is partial over "data" and is reduced where it arises. The output stays cut.
module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  // CHECK-LABEL: func.func @gradient
  func.func @gradient(%x: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[data, -]">},
                      %w: tensor<6x4xf32> {dist.sharding = #dist.sharding<"[-, -]">})
      -> (tensor<8x4xf32> {dist.sharding = #dist.sharding<"[data, -]">}, tensor<6x4xf32> {dist.sharding = #dist.sharding<"[-, -]">}) {
    // CHECK: %[[Y:.*]] = graph.matmul
    // CHECK-NEXT: %[[DW:.*]] = graph.matmul
    // CHECK-NEXT: %[[PAID:.*]] = dist.reshard %[[DW]] from <"[-, -] sum(data)"> to <"[-, -]"> {graph.name = "fc.grad"}
    // CHECK-NEXT: %[[NEW:.*]] = graph.sub %{{.*}}, %[[PAID]]
    // CHECK-NEXT: return %[[Y]], %[[NEW]]
    %y = graph.matmul %x, %w {graph.name = "fc", dist.strategy = #dist.strategy<"m=data">} : (tensor<8x6xf32>, tensor<6x4xf32>) -> tensor<8x4xf32>
    %dw = graph.matmul %x, %y {transpose_a = true, graph.grad_of = "fc", dist.strategy = #dist.strategy<"k=data">} : (tensor<8x6xf32>, tensor<8x4xf32>) -> tensor<6x4xf32>
    %n = graph.sub %w, %dw {dist.strategy = #dist.strategy<"">} : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
    return %y, %n : tensor<8x4xf32>, tensor<6x4xf32>
  }
}

// -----

// "Reduce now" stands right behind the operator and nobody sees the natural result; two users that want the
// same share one reshard, placed before the first of them.
module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  // CHECK-LABEL: func.func @shared
  func.func @shared(%x: tensor<8x6xf32> {dist.sharding = #dist.sharding<"[data, model]">},
                    %w: tensor<6x4xf32> {dist.sharding = #dist.sharding<"[model, -]">})
      -> (tensor<8x4xf32> {dist.sharding = #dist.sharding<"[data, -]">}) {
    // CHECK: %[[Y:.*]] = graph.matmul
    // CHECK-NEXT: %[[SUM:.*]] = dist.reshard %[[Y]] from <"[data, -] sum(model)"> to <"[data, -]">
    // CHECK-NEXT: %[[A:.*]] = graph.relu %[[SUM]]
    // CHECK-NEXT: %[[CUT:.*]] = dist.reshard %[[A]] from <"[data, -]"> to <"[data, model]">
    // CHECK-NEXT: %[[B:.*]] = graph.exp %[[CUT]]
    // CHECK-NEXT: %[[C:.*]] = graph.add %[[B]], %[[CUT]]
    // CHECK-NEXT: %[[OUT:.*]] = dist.reshard %[[C]] from <"[data, model]"> to <"[data, -]">
    // CHECK-NEXT: return %[[OUT]]
    %y = graph.matmul %x, %w {dist.strategy = #dist.strategy<"m=data, k=model -> [data, -]">} : (tensor<8x6xf32>, tensor<6x4xf32>) -> tensor<8x4xf32>
    %a = graph.relu %y {dist.strategy = #dist.strategy<"b0=data">} : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %b = graph.exp %a {dist.strategy = #dist.strategy<"b0=data, b1=model">} : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %c = graph.add %b, %a {dist.strategy = #dist.strategy<"b0=data, b1=model">} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    return %c : tensor<8x4xf32>
  }
}

// -----

// A debt cannot be expected where none is.
module attributes {dist.mesh = #dist.mesh<"data=2">} {
  func.func @debt(%x: tensor<8xf32> {dist.sharding = #dist.sharding<"[-]">}) -> (tensor<8xf32> {dist.sharding = #dist.sharding<"[-]">}) {
    // expected-error @+1 {{operator 'minus' expects operand 0 as [-] sum(data), but it is handed on as [-]}}
    %y = graph.neg %x {graph.name = "minus", dist.strategy = #dist.strategy<"| partial 0(data)">} : (tensor<8xf32>) -> tensor<8xf32>
    return %y : tensor<8xf32>
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<"data=9">} {
  func.func @divide(%x: tensor<8xf32> {dist.sharding = #dist.sharding<"[-]">}) -> (tensor<8xf32> {dist.sharding = #dist.sharding<"[-]">}) {
    // expected-error @+1 {{operator 'act': factor 'b0' of extent 8 cannot be cut in 9 parts}}
    %y = graph.relu %x {graph.name = "act", dist.strategy = #dist.strategy<"b0=data">} : (tensor<8xf32>) -> tensor<8xf32>
    return %y : tensor<8xf32>
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<"data=2">} {
  // expected-error @+1 {{argument 0 ('x') of 'bare' has no sharding}}
  func.func @bare(%x: tensor<8xf32> {graph.name = "x"}) -> (tensor<8xf32> {dist.sharding = #dist.sharding<"[-]">}) {
    return %x : tensor<8xf32>
  }
}
