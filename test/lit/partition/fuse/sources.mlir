// RUN: tessera-opt --graph-fuse %s | FileCheck %s

// Constants, counters and random numbers in loops.

// A splat is in every loop that reads it, and no longer in memory.
// CHECK-LABEL: func.func @splat
func.func @splat(%x: tensor<4xf32>, %y: tensor<3xf32>) -> (tensor<4xf32>, tensor<3xf32>) {
  // CHECK-NEXT: graph.fused(%arg0)
  // CHECK: graph.constant dense<2.0
  // CHECK: graph.fused(%arg1)
  // CHECK: graph.constant dense<2.0
  // CHECK-NOT: graph.constant
  // CHECK: return
  %two = graph.constant dense<2.0> : tensor<f32>
  %a = graph.mul %x, %two : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %b = graph.mul %y, %two : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  return %a, %b : tensor<4xf32>, tensor<3xf32>
}

// A constant of several numbers is read from memory.
// CHECK-LABEL: func.func @numbers
func.func @numbers(%x: tensor<2xf32>) -> tensor<2xf32> {
  // CHECK-NEXT: %[[C:.*]] = graph.constant dense<[1.0
  // CHECK-NEXT: graph.fused(%arg0, %[[C]])
  %c = graph.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %a = graph.mul %x, %c : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %b = graph.exp %a : (tensor<2xf32>) -> tensor<2xf32>
  return %b : tensor<2xf32>
}

// So is an integer that a double does not hold: expressions keep constants as doubles.
// CHECK-LABEL: func.func @wide_integer
func.func @wide_integer(%x: tensor<4xi64>) -> (tensor<4xi64>, tensor<4xi64>) {
  // CHECK-NEXT: %[[WIDE:.*]] = graph.constant dense<9007199254740993>
  // CHECK-NEXT: graph.fused(%arg0, %[[WIDE]])
  // CHECK: graph.constant dense<1125899906842624>
  %wide = graph.constant dense<9007199254740993> : tensor<i64>
  %exact = graph.constant dense<1125899906842624> : tensor<i64>
  %a = graph.add %x, %wide : (tensor<4xi64>, tensor<i64>) -> tensor<4xi64>
  %b = graph.add %x, %exact : (tensor<4xi64>, tensor<i64>) -> tensor<4xi64>
  return %a, %b : tensor<4xi64>, tensor<4xi64>
}

// A mask is never in memory: its random numbers are drawn where they are compared.
// CHECK-LABEL: func.func @mask
func.func @mask(%x: tensor<4xf32>, %step: tensor<i64>) -> tensor<4xf32> {
  // CHECK-NEXT: %[[Y:.*]] = graph.fused({{.*}}) {{.*}}-> tensor<4xf32>
  // CHECK: %[[U:.*]] = graph.random
  // CHECK: graph.lt %[[U]]
  // CHECK: graph.select
  // CHECK: return %[[Y]]
  %half = graph.constant dense<0.5> : tensor<f32>
  %zero = graph.constant dense<0.0> : tensor<f32>
  %u = graph.random %step {seed = 1 : i64, stream = 0 : i64} : (tensor<i64>) -> tensor<4xf32>
  %drop = graph.lt %u, %half : (tensor<4xf32>, tensor<f32>) -> tensor<4xi1>
  %y = graph.select %drop, %zero, %x : (tensor<4xi1>, tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// A triangle of counters is computed in the loop that reads it.
// CHECK-LABEL: func.func @triangle
func.func @triangle(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // CHECK: graph.fused
  // CHECK: graph.le
  // CHECK: graph.select
  // CHECK: graph.yield
  %zero = graph.constant dense<0.0> : tensor<f32>
  %i = graph.iota {dim = 0 : i64} : () -> tensor<4x4xi64>
  %j = graph.iota {dim = 1 : i64} : () -> tensor<4x4xi64>
  %keep = graph.le %j, %i : (tensor<4x4xi64>, tensor<4x4xi64>) -> tensor<4x4xi1>
  %y = graph.select %keep, %x, %zero : (tensor<4x4xi1>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}
