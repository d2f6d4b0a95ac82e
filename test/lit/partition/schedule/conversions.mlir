// RUN: tessera-opt --graph-schedule %s | FileCheck %s

// 16-bit copies of parameters that live until the end of the program are made first, one behind the other.
// CHECK-LABEL: func.func @both_halves
func.func @both_halves(%x: tensor<8x8xbf16> {graph.role = "input"}, %a: tensor<8x8xf32> {graph.role = "parameter"},
                       %b: tensor<8x8xf32> {graph.role = "parameter"}) -> tensor<8x8xbf16> {
  // CHECK-NEXT: %[[A:.*]] = graph.cast %arg1
  // CHECK-NEXT: %[[B:.*]] = graph.cast %arg2
  // CHECK-NEXT: %[[Y:.*]] = graph.matmul %arg0, %[[A]]
  // CHECK-NEXT: %[[Z:.*]] = graph.matmul %[[Y]], %[[B]]
  %al = graph.cast %a : (tensor<8x8xf32>) -> tensor<8x8xbf16>
  %y = graph.matmul %x, %al : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
  %bl = graph.cast %b : (tensor<8x8xf32>) -> tensor<8x8xbf16>
  %z = graph.matmul %y, %bl : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
  %u = graph.matmul %z, %bl {transpose_b = true} : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
  %v = graph.matmul %u, %al {transpose_b = true} : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
  return %v : tensor<8x8xbf16>
}

// A parameter that is converted under another shape comes with the view.
// CHECK-LABEL: func.func @view
func.func @view(%x: tensor<8x8xbf16> {graph.role = "input"}, %a: tensor<8x8xf32> {graph.role = "parameter"},
                %b: tensor<64xf32> {graph.role = "parameter"}) -> tensor<8x8xbf16> {
  // CHECK-NEXT: graph.reshape %arg2
  // CHECK-NEXT: graph.cast
  // CHECK-NEXT: graph.cast
  // CHECK-NEXT: graph.matmul
  %al = graph.cast %a : (tensor<8x8xf32>) -> tensor<8x8xbf16>
  %y = graph.matmul %x, %al : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
  %s = graph.reshape %b : (tensor<64xf32>) -> tensor<8x8xf32>
  %bl = graph.cast %s : (tensor<8x8xf32>) -> tensor<8x8xbf16>
  %z = graph.matmul %y, %bl : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
  %u = graph.matmul %z, %bl {transpose_b = true} : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
  %v = graph.matmul %u, %al {transpose_b = true} : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
  return %v : tensor<8x8xbf16>
}

// Where copies end with their only readers, making all of them first would need more memory.
// CHECK-LABEL: func.func @once
func.func @once(%x: tensor<8x8xbf16> {graph.role = "input"}, %a: tensor<8x8xf32> {graph.role = "parameter"},
                %b: tensor<8x8xf32> {graph.role = "parameter"}) -> tensor<8x8xbf16> {
  // CHECK-NEXT: graph.cast %arg1
  // CHECK-NEXT: graph.matmul
  // CHECK-NEXT: graph.cast %arg2
  // CHECK-NEXT: graph.matmul
  %al = graph.cast %a : (tensor<8x8xf32>) -> tensor<8x8xbf16>
  %y = graph.matmul %x, %al : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
  %bl = graph.cast %b : (tensor<8x8xf32>) -> tensor<8x8xbf16>
  %z = graph.matmul %y, %bl : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
  return %z : tensor<8x8xbf16>
}

// A copy that is made behind the peak stays there; those before it are made first.
// CHECK-LABEL: func.func @behind_the_peak
func.func @behind_the_peak(%x: tensor<8x8xbf16> {graph.role = "input"}, %a: tensor<8x8xf32> {graph.role = "parameter"},
                           %b: tensor<8x8xf32> {graph.role = "parameter"},
                           %c: tensor<8x8xf32> {graph.role = "parameter"}) -> tensor<8x8xbf16> {
  // CHECK-NEXT: graph.cast %arg1
  // CHECK-NEXT: graph.cast %arg2
  // CHECK-NEXT: graph.matmul
  // CHECK-NEXT: graph.matmul
  // CHECK-NEXT: graph.cast
  // CHECK-NEXT: graph.relu
  // CHECK-NEXT: graph.cast
  // CHECK-NEXT: graph.matmul
  // CHECK-NEXT: graph.cast %arg3
  %al = graph.cast %a : (tensor<8x8xf32>) -> tensor<8x8xbf16>
  %y = graph.matmul %x, %al : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
  %bl = graph.cast %b : (tensor<8x8xf32>) -> tensor<8x8xbf16>
  %z = graph.matmul %y, %bl : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
  %w = graph.cast %z : (tensor<8x8xbf16>) -> tensor<8x8xf32>
  %m = graph.relu %w : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %n = graph.cast %m : (tensor<8x8xf32>) -> tensor<8x8xbf16>
  %u = graph.matmul %n, %bl {transpose_b = true} : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
  %cl = graph.cast %c : (tensor<8x8xf32>) -> tensor<8x8xbf16>
  %v = graph.matmul %u, %cl : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
  %t = graph.matmul %v, %al {transpose_b = true} : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
  return %t : tensor<8x8xbf16>
}
