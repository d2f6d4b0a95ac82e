// RUN: tessera-opt --graph-schedule %s | FileCheck %s

// The convolution frees its input, which is larger than its result. So it runs before what only takes memory.
// CHECK-LABEL: func.func @frees_its_input
func.func @frees_its_input(%x: tensor<2x8x8x8xf32> {graph.role = "input"}, %w: tensor<4x8x3x3xf32> {graph.role = "parameter"})
    -> (tensor<2x4x8x8xf32>, tensor<4x8x8x8xf32>) {
  // CHECK-NEXT: %[[A:.*]] = graph.softmax %arg0
  // CHECK-NEXT: %[[Y:.*]] = graph.conv %[[A]], %arg1
  // CHECK-NEXT: %[[B:.*]] = graph.concat
  // CHECK-NEXT: return %[[Y]], %[[B]]
  %a = graph.softmax %x {dim = 1 : i64} : (tensor<2x8x8x8xf32>) -> tensor<2x8x8x8xf32>
  %b = graph.concat %x, %x {dim = 0 : i64} : (tensor<2x8x8x8xf32>, tensor<2x8x8x8xf32>) -> tensor<4x8x8x8xf32>
  %y = graph.conv %a, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x8x8x8xf32>, tensor<4x8x3x3xf32>) -> tensor<2x4x8x8xf32>
  return %y, %b : tensor<2x4x8x8xf32>, tensor<4x8x8x8xf32>
}

// With more channels in the result it takes more than it frees, and keeps its place.
// CHECK-LABEL: func.func @takes_more
func.func @takes_more(%x: tensor<2x4x8x8xf32> {graph.role = "input"}, %w: tensor<8x4x3x3xf32> {graph.role = "parameter"})
    -> (tensor<2x8x8x8xf32>, tensor<4x4x8x8xf32>) {
  // CHECK-NEXT: %[[A:.*]] = graph.softmax
  // CHECK-NEXT: graph.concat
  // CHECK-NEXT: graph.conv %[[A]]
  // CHECK-NEXT: return
  %a = graph.softmax %x {dim = 1 : i64} : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %b = graph.concat %x, %x {dim = 0 : i64} : (tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>) -> tensor<4x4x8x8xf32>
  %y = graph.conv %a, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x4x8x8xf32>, tensor<8x4x3x3xf32>) -> tensor<2x8x8x8xf32>
  return %y, %b : tensor<2x8x8x8xf32>, tensor<4x4x8x8xf32>
}
