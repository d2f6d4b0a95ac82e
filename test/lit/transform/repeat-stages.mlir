// RUN: tessera-opt --graph-repeat %s | FileCheck %s

// In a stage of a pipeline the forward pass and the backward pass of a micro-batch are sections of their own. The
// backward pass reads the activation that it needs from the values that it reads anyway, in its own section.
// CHECK-LABEL: func.func @stage
// CHECK: graph.relu %{{.*}} {graph.name = "y", graph.section = "forward"}
// CHECK: graph.matmul {{.*}}graph.name = "dy", graph.section = "input"
// CHECK: %[[A:.*]] = graph.mul %{{.*}} {graph.name = "again/a", graph.repeats, graph.section = "input"}
// CHECK: %[[Y:.*]] = graph.relu %[[A]] {graph.name = "again/y", graph.repeats, graph.section = "input"}
// CHECK: graph.lt %{{.*}}, %[[Y]] {graph.name = "m", graph.section = "input"}
// CHECK: %[[D:.*]] = graph.select
// CHECK: graph.mul %[[D]], %{{.*}} {graph.name = "p"
func.func @stage(%i: tensor<512x256xf32> {graph.role = "input", graph.name = "i"},
                 %w: tensor<256x256xf32> {graph.role = "parameter", graph.name = "w"}, %s: tensor<1x256xf32> {graph.role = "parameter", graph.name = "s"})
    -> (tensor<256x256xf32> {graph.role = "output", graph.name = "o", graph.ordinal = 0 : i64}) attributes {graph.micro_batches = 2 : i64} {
  %zero = graph.constant dense<0.0> : tensor<f32>
  %x = graph.micro_rows %i {parts = 2 : i64, graph.section = "forward"} : (tensor<512x256xf32>) -> tensor<256x256xf32>
  %a = graph.mul %x, %s {graph.name = "a", graph.section = "forward"} : (tensor<256x256xf32>, tensor<1x256xf32>) -> tensor<256x256xf32>
  %y = graph.relu %a {graph.name = "y", graph.section = "forward"} : (tensor<256x256xf32>) -> tensor<256x256xf32>
  %z = graph.matmul %y, %w {graph.name = "z", graph.section = "forward"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
  %dy = graph.matmul %z, %w {transpose_b = true, graph.name = "dy", graph.section = "input"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
  %m = graph.lt %zero, %y {graph.name = "m", graph.section = "input"} : (tensor<f32>, tensor<256x256xf32>) -> tensor<256x256xi1>
  %d = graph.select %m, %dy, %zero {graph.name = "d", graph.section = "input"} : (tensor<256x256xi1>, tensor<256x256xf32>, tensor<f32>) -> tensor<256x256xf32>
  %p = graph.mul %d, %x {graph.name = "p", graph.section = "input"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
  %g = graph.accumulate %p {parts = 2 : i64, graph.name = "g", graph.section = "weight"} : (tensor<256x256xf32>) -> tensor<256x256xf32>
  return %g : tensor<256x256xf32>
}

// What lies between the loops is made again from one value, the last reader of which is in another section then. What
// nothing reads any longer is gone.
// CHECK-LABEL: func.func @one_for_two
// CHECK-NOT: graph.name = "e"
// CHECK: graph.mul {{.*}}graph.name = "y"
// CHECK: graph.exp {{.*}}graph.name = "again/e", graph.repeats, graph.section = "weight"
// CHECK: graph.mul {{.*}}graph.name = "p", graph.section = "weight"
func.func @one_for_two(%i: tensor<512x256xf32> {graph.role = "input", graph.name = "i"},
                       %w: tensor<256x256xf32> {graph.role = "parameter", graph.name = "w"})
    -> (tensor<256x256xf32> {graph.role = "output", graph.name = "o", graph.ordinal = 0 : i64}) attributes {graph.micro_batches = 2 : i64} {
  %x = graph.micro_rows %i {parts = 2 : i64, graph.section = "forward"} : (tensor<512x256xf32>) -> tensor<256x256xf32>
  %h = graph.matmul %x, %w {graph.name = "h", graph.section = "forward"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
  %e = graph.exp %h {graph.name = "e", graph.section = "forward"} : (tensor<256x256xf32>) -> tensor<256x256xf32>
  %y = graph.mul %h, %h {graph.name = "y", graph.section = "forward"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
  %z = graph.matmul %y, %w {graph.name = "z", graph.section = "forward"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
  %dy = graph.matmul %z, %w {transpose_b = true, graph.name = "dy", graph.section = "weight"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
  %c = graph.mul %dy, %h {graph.name = "c", graph.section = "weight"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
  %p = graph.mul %c, %e {graph.name = "p", graph.section = "weight"} : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
  %g = graph.accumulate %p {parts = 2 : i64, graph.name = "g", graph.section = "weight"} : (tensor<256x256xf32>) -> tensor<256x256xf32>
  return %g : tensor<256x256xf32>
}
