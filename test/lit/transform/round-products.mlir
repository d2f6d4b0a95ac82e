// RUN: tessera-opt --graph-round-products %s | FileCheck %s

// A sum that is only read in the type of the operands, and stored so, is rounded before it is read.
// CHECK-LABEL: func.func @product
// CHECK-NEXT: graph.matmul
// CHECK-NEXT: graph.cast %{{.*}} {graph.rounds}
// CHECK-NEXT: graph.cast %{{.*}} {graph.rounds}
func.func @product(%x: tensor<4x8xbf16>, %w: tensor<8x6xbf16>) -> (tensor<4x6xbf16>, tensor<4x6xbf16>) {
  %s = graph.matmul %x, %w {wide} : (tensor<4x8xbf16>, tensor<8x6xbf16>) -> tensor<4x6xf32>
  %y = graph.cast %s : (tensor<4x6xf32>) -> tensor<4x6xbf16>
  %z = graph.cast %s : (tensor<4x6xf32>) -> tensor<4x6xbf16>
  %r = graph.relu %y : (tensor<4x6xbf16>) -> tensor<4x6xbf16>
  return %r, %z : tensor<4x6xbf16>, tensor<4x6xbf16>
}

// CHECK-LABEL: func.func @convolution
// CHECK: graph.cast %{{.*}} {graph.rounds} : {{.*}} -> tensor<2x4x8x8xf16>
func.func @convolution(%x: tensor<2x3x8x8xf16>, %w: tensor<4x3x3x3xf16>) -> tensor<2x4x8x8xf16> {
  %s = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64, wide} : (tensor<2x3x8x8xf16>, tensor<4x3x3x3xf16>) -> tensor<2x4x8x8xf32>
  %y = graph.cast %s : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf16>
  return %y : tensor<2x4x8x8xf16>
}

// A loop rounds the sum on its way to what it stores: it keeps the digits.
// CHECK-LABEL: func.func @on_the_way
// CHECK-NOT: graph.rounds
func.func @on_the_way(%x: tensor<4x8xbf16>, %w: tensor<8x6xbf16>, %b: tensor<6xbf16>) -> tensor<4x6xbf16> {
  %s = graph.matmul %x, %w {wide} : (tensor<4x8xbf16>, tensor<8x6xbf16>) -> tensor<4x6xf32>
  %y = graph.cast %s : (tensor<4x6xf32>) -> tensor<4x6xbf16>
  %z = graph.add %y, %b : (tensor<4x6xbf16>, tensor<6xbf16>) -> tensor<4x6xbf16>
  return %z : tensor<4x6xbf16>
}

// A sum that is only added to 16-bit numbers keeps its digits for that, and the addition is rounded once.
// CHECK-LABEL: func.func @added
// CHECK: %[[S:.*]] = graph.matmul
// CHECK-NEXT: %[[W:.*]] = graph.cast %arg3 {{.*}}: (tensor<4x6xbf16>) -> tensor<4x6xf32>
// CHECK-NEXT: %[[A:.*]] = graph.add %[[W]], %[[S]]
// CHECK-NEXT: %[[R:.*]] = graph.cast %[[A]] {graph.name = "fork.add/cast.1", graph.rounds}
// CHECK-NEXT: %[[C:.*]] = graph.select %arg2, %[[R]], %arg4
// CHECK-NEXT: graph.cast %[[C]]
func.func @added(%x: tensor<4x8xbf16>, %w: tensor<8x6xbf16>, %c: tensor<4x6xi1>, %z: tensor<4x6xbf16>, %o: tensor<4x6xbf16>) -> (tensor<4x6xbf16>, tensor<6xf32>) {
  %s = graph.matmul %x, %w {wide} : (tensor<4x8xbf16>, tensor<8x6xbf16>) -> tensor<4x6xf32>
  %y = graph.cast %s : (tensor<4x6xf32>) -> tensor<4x6xbf16>
  %a = graph.add %z, %y {graph.name = "fork.add"} : (tensor<4x6xbf16>, tensor<4x6xbf16>) -> tensor<4x6xbf16>
  %d = graph.select %c, %a, %o : (tensor<4x6xi1>, tensor<4x6xbf16>, tensor<4x6xbf16>) -> tensor<4x6xbf16>
  %f = graph.cast %d : (tensor<4x6xbf16>) -> tensor<4x6xf32>
  %m = graph.reduce_sum %f {dims = array<i64: 0>, keepdims = false} : (tensor<4x6xf32>) -> tensor<6xf32>
  return %d, %m : tensor<4x6xbf16>, tensor<6xf32>
}

// A sum that memory holds rounded is one of such numbers.
// CHECK-LABEL: func.func @added_to_a_product
// CHECK: %[[S:.*]] = graph.matmul
// CHECK-NEXT: %[[Y:.*]] = graph.cast %[[S]] {graph.rounds}
// CHECK: %[[T:.*]] = graph.matmul %[[Y]]
// CHECK-NEXT: %[[W:.*]] = graph.cast %[[Y]]
// CHECK-NEXT: %[[A:.*]] = graph.add %[[T]], %[[W]]
// CHECK-NEXT: graph.cast %[[A]] {{{.*}}graph.rounds}
func.func @added_to_a_product(%x: tensor<4x8xbf16>, %w: tensor<8x6xbf16>, %v: tensor<6x6xbf16>) -> tensor<4x6xbf16> {
  %s = graph.matmul %x, %w {wide} : (tensor<4x8xbf16>, tensor<8x6xbf16>) -> tensor<4x6xf32>
  %y = graph.cast %s : (tensor<4x6xf32>) -> tensor<4x6xbf16>
  %t = graph.matmul %y, %v {wide} : (tensor<4x6xbf16>, tensor<6x6xbf16>) -> tensor<4x6xf32>
  %u = graph.cast %t : (tensor<4x6xf32>) -> tensor<4x6xbf16>
  %a = graph.add %u, %y : (tensor<4x6xbf16>, tensor<4x6xbf16>) -> tensor<4x6xbf16>
  return %a : tensor<4x6xbf16>
}

// What is added further in the loop keeps its digits, and so does what is added to numbers that a loop makes.
// CHECK-LABEL: func.func @added_on_the_way
// CHECK-NOT: graph.rounds
func.func @added_on_the_way(%x: tensor<4x8xbf16>, %w: tensor<8x6xbf16>, %z: tensor<4x6xbf16>, %o: tensor<4x6xbf16>) -> (tensor<4x6xbf16>, tensor<4x6xbf16>) {
  %s = graph.matmul %x, %w {wide} : (tensor<4x8xbf16>, tensor<8x6xbf16>) -> tensor<4x6xf32>
  %y = graph.cast %s : (tensor<4x6xf32>) -> tensor<4x6xbf16>
  %a = graph.add %z, %y : (tensor<4x6xbf16>, tensor<4x6xbf16>) -> tensor<4x6xbf16>
  %b = graph.mul %a, %o : (tensor<4x6xbf16>, tensor<4x6xbf16>) -> tensor<4x6xbf16>
  %t = graph.matmul %x, %w {wide} : (tensor<4x8xbf16>, tensor<8x6xbf16>) -> tensor<4x6xf32>
  %u = graph.cast %t : (tensor<4x6xf32>) -> tensor<4x6xbf16>
  %n = graph.neg %z : (tensor<4x6xbf16>) -> tensor<4x6xbf16>
  %d = graph.add %u, %n : (tensor<4x6xbf16>, tensor<4x6xbf16>) -> tensor<4x6xbf16>
  return %b, %d : tensor<4x6xbf16>, tensor<4x6xbf16>
}

// A loop stores the rounded sum for another reader, and sums it up.
// CHECK-LABEL: func.func @statistics
// CHECK: graph.cast %{{.*}} {graph.rounds} : (tensor<4x6xf32>) -> tensor<4x6xbf16>
// CHECK-NEXT: graph.cast %{{[0-9]+}} : (tensor<4x6xbf16>) -> tensor<4x6xf32>
func.func @statistics(%x: tensor<4x8xbf16>, %w: tensor<8x6xbf16>, %v: tensor<6x2xbf16>) -> (tensor<6xf32>, tensor<4x2xbf16>) {
  %s = graph.matmul %x, %w {wide} : (tensor<4x8xbf16>, tensor<8x6xbf16>) -> tensor<4x6xf32>
  %y = graph.cast %s : (tensor<4x6xf32>) -> tensor<4x6xbf16>
  %f = graph.cast %y : (tensor<4x6xbf16>) -> tensor<4x6xf32>
  %m = graph.reduce_sum %f {dims = array<i64: 0>, keepdims = false} : (tensor<4x6xf32>) -> tensor<6xf32>
  %z = graph.matmul %y, %v : (tensor<4x6xbf16>, tensor<6x2xbf16>) -> tensor<4x2xbf16>
  return %m, %z : tensor<6xf32>, tensor<4x2xbf16>
}

// Rounding may come before a choice: what is stored is the same number.
// CHECK-LABEL: func.func @chosen
// CHECK: graph.cast %{{.*}} {graph.rounds}
// CHECK-NEXT: graph.select
func.func @chosen(%x: tensor<4x8xbf16>, %w: tensor<8x6xbf16>, %c: tensor<4x6xi1>, %o: tensor<4x6xbf16>) -> tensor<4x6xbf16> {
  %s = graph.matmul %x, %w {wide} : (tensor<4x8xbf16>, tensor<8x6xbf16>) -> tensor<4x6xf32>
  %y = graph.cast %s : (tensor<4x6xf32>) -> tensor<4x6xbf16>
  %z = graph.select %c, %y, %o : (tensor<4x6xi1>, tensor<4x6xbf16>, tensor<4x6xbf16>) -> tensor<4x6xbf16>
  return %z : tensor<4x6xbf16>
}

// What somebody reads unrounded stays a sum: another operator, the caller.
// CHECK-LABEL: func.func @also_wide
// CHECK-NOT: graph.rounds
func.func @also_wide(%x: tensor<4x8xbf16>, %w: tensor<8x6xbf16>) -> (tensor<4x6xbf16>, tensor<4x6xf32>, tensor<4x6xbf16>, tensor<4x6xf32>) {
  %s = graph.matmul %x, %w {wide} : (tensor<4x8xbf16>, tensor<8x6xbf16>) -> tensor<4x6xf32>
  %y = graph.cast %s : (tensor<4x6xf32>) -> tensor<4x6xbf16>
  %r = graph.relu %s : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %t = graph.matmul %x, %w {wide} : (tensor<4x8xbf16>, tensor<8x6xbf16>) -> tensor<4x6xf32>
  %z = graph.cast %t : (tensor<4x6xf32>) -> tensor<4x6xbf16>
  return %y, %r, %z, %t : tensor<4x6xbf16>, tensor<4x6xf32>, tensor<4x6xbf16>, tensor<4x6xf32>
}

// Another type of 16 bits is no form of the operands, and a conversion of something else is no product's.
// CHECK-LABEL: func.func @others
// CHECK-NOT: graph.rounds
func.func @others(%x: tensor<4x8xbf16>, %w: tensor<8x6xbf16>, %v: tensor<4x6xf32>) -> (tensor<4x6xf16>, tensor<4x6xbf16>) {
  %s = graph.matmul %x, %w {wide} : (tensor<4x8xbf16>, tensor<8x6xbf16>) -> tensor<4x6xf32>
  %y = graph.cast %s : (tensor<4x6xf32>) -> tensor<4x6xf16>
  %z = graph.cast %v : (tensor<4x6xf32>) -> tensor<4x6xbf16>
  return %y, %z : tensor<4x6xf16>, tensor<4x6xbf16>
}
