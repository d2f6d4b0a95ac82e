// network.mlir with extents that no mesh of the test divides, spatial ones apart: blocks are padded.
//
// A small convolutional network with what is hard to distribute: overlapping windows, batch normalisation with
// running statistics, dropout, a residual connection, an embedding. random_programs_test trains it.
func.func @forward(
    %x: tensor<7x3x8x8xf32> {graph.role = "input", graph.name = "image"},
    %ids: tensor<7x2xi64> {graph.role = "input", graph.name = "ids"},
    %w1: tensor<6x3x3x3xf32> {graph.role = "parameter", graph.name = "conv1.weight"},
    %g1: tensor<6xf32> {graph.role = "parameter", graph.name = "bn1.weight"},
    %b1: tensor<6xf32> {graph.role = "parameter", graph.name = "bn1.bias"},
    %w2: tensor<6x6x3x3xf32> {graph.role = "parameter", graph.name = "conv2.weight"},
    %w3: tensor<6x6x1x1xf32> {graph.role = "parameter", graph.name = "short.weight"},
    %emb: tensor<9x6xf32> {graph.role = "parameter", graph.name = "embedding"},
    %w4: tensor<6x5xf32> {graph.role = "parameter", graph.name = "fc.weight"},
    %b4: tensor<5xf32> {graph.role = "parameter", graph.name = "fc.bias"},
    %rm: tensor<6xf32> {graph.role = "state", graph.name = "bn1.running_mean", graph.update = 1 : i64, graph.fill = 0.0 : f64},
    %step: tensor<i64> {graph.role = "step", graph.name = "step"})
    -> (tensor<7x5xf32> {graph.role = "output", graph.name = "logits"},
        tensor<6xf32> {graph.role = "update", graph.name = "bn1.running_mean"}) {
  %c1 = graph.conv %x, %w1 {graph.name = "conv1", strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<7x3x8x8xf32>, tensor<6x3x3x3xf32>) -> tensor<7x6x8x8xf32>
  %n1, %m1, %v1 = graph.batch_norm %c1, %g1, %b1 {graph.name = "bn1", epsilon = 1.0e-5 : f64} : (tensor<7x6x8x8xf32>, tensor<6xf32>, tensor<6xf32>) -> (tensor<7x6x8x8xf32>, tensor<6xf32>, tensor<6xf32>)
  %keep = graph.constant dense<0.9> : tensor<f32>
  %take = graph.constant dense<0.1> : tensor<f32>
  %old = graph.mul %rm, %keep {graph.name = "bn1.old"} : (tensor<6xf32>, tensor<f32>) -> tensor<6xf32>
  %add = graph.mul %m1, %take {graph.name = "bn1.add"} : (tensor<6xf32>, tensor<f32>) -> tensor<6xf32>
  %rm2 = graph.add %old, %add {graph.name = "bn1.new"} : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
  %r1 = graph.relu %n1 {graph.name = "relu1"} : (tensor<7x6x8x8xf32>) -> tensor<7x6x8x8xf32>
  %p1 = graph.max_pool %r1 {graph.name = "pool1", kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<7x6x8x8xf32>) -> tensor<7x6x4x4xf32>
  %c2 = graph.conv %p1, %w2 {graph.name = "conv2", strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<7x6x4x4xf32>, tensor<6x6x3x3xf32>) -> tensor<7x6x2x2xf32>
  %c3 = graph.conv %p1, %w3 {graph.name = "short", strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<7x6x4x4xf32>, tensor<6x6x1x1xf32>) -> tensor<7x6x2x2xf32>
  %sum = graph.add %c2, %c3 {graph.name = "residual"} : (tensor<7x6x2x2xf32>, tensor<7x6x2x2xf32>) -> tensor<7x6x2x2xf32>
  %r2 = graph.relu %sum {graph.name = "relu2"} : (tensor<7x6x2x2xf32>) -> tensor<7x6x2x2xf32>
  %u = graph.random %step {graph.name = "drop.random", seed = 11 : i64, stream = 2 : i64} : (tensor<i64>) -> tensor<7x6x2x2xf32>
  %half = graph.constant dense<0.25> : tensor<f32>
  %mask = graph.lt %u, %half {graph.name = "drop.mask"} : (tensor<7x6x2x2xf32>, tensor<f32>) -> tensor<7x6x2x2xi1>
  %zero = graph.constant dense<0.0> : tensor<7x6x2x2xf32>
  %d = graph.select %mask, %zero, %r2 {graph.name = "drop"} : (tensor<7x6x2x2xi1>, tensor<7x6x2x2xf32>, tensor<7x6x2x2xf32>) -> tensor<7x6x2x2xf32>
  %q = graph.reduce_sum %d {graph.name = "pool2", dims = array<i64: 2, 3>, keepdims = false} : (tensor<7x6x2x2xf32>) -> tensor<7x6xf32>
  %e = graph.gather %emb, %ids {graph.name = "embedding", axis = 0 : i64} : (tensor<9x6xf32>, tensor<7x2xi64>) -> tensor<7x2x6xf32>
  %es = graph.reduce_sum %e {graph.name = "bag", dims = array<i64: 1>, keepdims = false} : (tensor<7x2x6xf32>) -> tensor<7x6xf32>
  %h = graph.add %q, %es {graph.name = "join"} : (tensor<7x6xf32>, tensor<7x6xf32>) -> tensor<7x6xf32>
  %l = graph.matmul %h, %w4 {graph.name = "fc"} : (tensor<7x6xf32>, tensor<6x5xf32>) -> tensor<7x5xf32>
  %y = graph.add %l, %b4 {graph.name = "fc.add"} : (tensor<7x5xf32>, tensor<5xf32>) -> tensor<7x5xf32>
  return %y, %rm2 : tensor<7x5xf32>, tensor<6xf32>
}
func.func @infer(
    %x: tensor<7x3x8x8xf32> {graph.role = "input", graph.name = "image"},
    %ids: tensor<7x2xi64> {graph.role = "input", graph.name = "ids"},
    %w1: tensor<6x3x3x3xf32> {graph.role = "parameter", graph.name = "conv1.weight"},
    %g1: tensor<6xf32> {graph.role = "parameter", graph.name = "bn1.weight"},
    %b1: tensor<6xf32> {graph.role = "parameter", graph.name = "bn1.bias"},
    %w2: tensor<6x6x3x3xf32> {graph.role = "parameter", graph.name = "conv2.weight"},
    %w3: tensor<6x6x1x1xf32> {graph.role = "parameter", graph.name = "short.weight"},
    %emb: tensor<9x6xf32> {graph.role = "parameter", graph.name = "embedding"},
    %w4: tensor<6x5xf32> {graph.role = "parameter", graph.name = "fc.weight"},
    %b4: tensor<5xf32> {graph.role = "parameter", graph.name = "fc.bias"},
    %rm: tensor<6xf32> {graph.role = "state", graph.name = "bn1.running_mean", graph.fill = 0.0 : f64})
    -> (tensor<7x5xf32> {graph.role = "output", graph.name = "logits"}) {
  %c1 = graph.conv %x, %w1 {graph.name = "conv1", strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<7x3x8x8xf32>, tensor<6x3x3x3xf32>) -> tensor<7x6x8x8xf32>
  %rmv = graph.reshape %rm : (tensor<6xf32>) -> tensor<1x6x1x1xf32>
  %g1v = graph.reshape %g1 : (tensor<6xf32>) -> tensor<1x6x1x1xf32>
  %b1v = graph.reshape %b1 : (tensor<6xf32>) -> tensor<1x6x1x1xf32>
  %n0 = graph.sub %c1, %rmv {graph.name = "bn1"} : (tensor<7x6x8x8xf32>, tensor<1x6x1x1xf32>) -> tensor<7x6x8x8xf32>
  %n1 = graph.mul %n0, %g1v : (tensor<7x6x8x8xf32>, tensor<1x6x1x1xf32>) -> tensor<7x6x8x8xf32>
  %n2 = graph.add %n1, %b1v : (tensor<7x6x8x8xf32>, tensor<1x6x1x1xf32>) -> tensor<7x6x8x8xf32>
  %r1 = graph.relu %n2 {graph.name = "relu1"} : (tensor<7x6x8x8xf32>) -> tensor<7x6x8x8xf32>
  %p1 = graph.max_pool %r1 {graph.name = "pool1", kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<7x6x8x8xf32>) -> tensor<7x6x4x4xf32>
  %c2 = graph.conv %p1, %w2 {graph.name = "conv2", strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<7x6x4x4xf32>, tensor<6x6x3x3xf32>) -> tensor<7x6x2x2xf32>
  %c3 = graph.conv %p1, %w3 {graph.name = "short", strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<7x6x4x4xf32>, tensor<6x6x1x1xf32>) -> tensor<7x6x2x2xf32>
  %sum = graph.add %c2, %c3 {graph.name = "residual"} : (tensor<7x6x2x2xf32>, tensor<7x6x2x2xf32>) -> tensor<7x6x2x2xf32>
  %r2 = graph.relu %sum {graph.name = "relu2"} : (tensor<7x6x2x2xf32>) -> tensor<7x6x2x2xf32>
  %q = graph.reduce_sum %r2 {graph.name = "pool2", dims = array<i64: 2, 3>, keepdims = false} : (tensor<7x6x2x2xf32>) -> tensor<7x6xf32>
  %e = graph.gather %emb, %ids {graph.name = "embedding", axis = 0 : i64} : (tensor<9x6xf32>, tensor<7x2xi64>) -> tensor<7x2x6xf32>
  %es = graph.reduce_sum %e {graph.name = "bag", dims = array<i64: 1>, keepdims = false} : (tensor<7x2x6xf32>) -> tensor<7x6xf32>
  %h = graph.add %q, %es {graph.name = "join"} : (tensor<7x6xf32>, tensor<7x6xf32>) -> tensor<7x6xf32>
  %l = graph.matmul %h, %w4 {graph.name = "fc"} : (tensor<7x6xf32>, tensor<6x5xf32>) -> tensor<7x5xf32>
  %y = graph.add %l, %b4 {graph.name = "fc.add"} : (tensor<7x5xf32>, tensor<5xf32>) -> tensor<7x5xf32>
  return %y : tensor<7x5xf32>
}
