// A small convolutional network with what is hard to distribute: overlapping windows, batch normalisation with
// running statistics, dropout, a residual connection, an embedding. random_programs_test trains it.
func.func @forward(
    %x: tensor<8x4x8x8xf32> {graph.role = "input", graph.name = "image"},
    %ids: tensor<8x2xi64> {graph.role = "input", graph.name = "ids"},
    %w1: tensor<8x4x3x3xf32> {graph.role = "parameter", graph.name = "conv1.weight"},
    %g1: tensor<8xf32> {graph.role = "parameter", graph.name = "bn1.weight"},
    %b1: tensor<8xf32> {graph.role = "parameter", graph.name = "bn1.bias"},
    %w2: tensor<8x8x3x3xf32> {graph.role = "parameter", graph.name = "conv2.weight"},
    %w3: tensor<8x8x1x1xf32> {graph.role = "parameter", graph.name = "short.weight"},
    %emb: tensor<8x8xf32> {graph.role = "parameter", graph.name = "embedding"},
    %w4: tensor<8x4xf32> {graph.role = "parameter", graph.name = "fc.weight"},
    %b4: tensor<4xf32> {graph.role = "parameter", graph.name = "fc.bias"},
    %rm: tensor<8xf32> {graph.role = "state", graph.name = "bn1.running_mean", graph.update = 1 : i64, graph.fill = 0.0 : f64},
    %step: tensor<i64> {graph.role = "step", graph.name = "step"})
    -> (tensor<8x4xf32> {graph.role = "output", graph.name = "logits"},
        tensor<8xf32> {graph.role = "update", graph.name = "bn1.running_mean"}) {
  %c1 = graph.conv %x, %w1 {graph.name = "conv1", strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<8x4x8x8xf32>, tensor<8x4x3x3xf32>) -> tensor<8x8x8x8xf32>
  %n1, %m1, %v1 = graph.batch_norm %c1, %g1, %b1 {graph.name = "bn1", epsilon = 1.0e-5 : f64} : (tensor<8x8x8x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<8x8x8x8xf32>, tensor<8xf32>, tensor<8xf32>)
  %keep = graph.constant dense<0.9> : tensor<f32>
  %take = graph.constant dense<0.1> : tensor<f32>
  %old = graph.mul %rm, %keep {graph.name = "bn1.old"} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %add = graph.mul %m1, %take {graph.name = "bn1.add"} : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %rm2 = graph.add %old, %add {graph.name = "bn1.new"} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %r1 = graph.relu %n1 {graph.name = "relu1"} : (tensor<8x8x8x8xf32>) -> tensor<8x8x8x8xf32>
  %p1 = graph.max_pool %r1 {graph.name = "pool1", kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<8x8x8x8xf32>) -> tensor<8x8x4x4xf32>
  %c2 = graph.conv %p1, %w2 {graph.name = "conv2", strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<8x8x4x4xf32>, tensor<8x8x3x3xf32>) -> tensor<8x8x2x2xf32>
  %c3 = graph.conv %p1, %w3 {graph.name = "short", strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<8x8x4x4xf32>, tensor<8x8x1x1xf32>) -> tensor<8x8x2x2xf32>
  %sum = graph.add %c2, %c3 {graph.name = "residual"} : (tensor<8x8x2x2xf32>, tensor<8x8x2x2xf32>) -> tensor<8x8x2x2xf32>
  %r2 = graph.relu %sum {graph.name = "relu2"} : (tensor<8x8x2x2xf32>) -> tensor<8x8x2x2xf32>
  %u = graph.random %step {graph.name = "drop.random", seed = 11 : i64, stream = 2 : i64} : (tensor<i64>) -> tensor<8x8x2x2xf32>
  %half = graph.constant dense<0.25> : tensor<f32>
  %mask = graph.lt %u, %half {graph.name = "drop.mask"} : (tensor<8x8x2x2xf32>, tensor<f32>) -> tensor<8x8x2x2xi1>
  %zero = graph.constant dense<0.0> : tensor<8x8x2x2xf32>
  %d = graph.select %mask, %zero, %r2 {graph.name = "drop"} : (tensor<8x8x2x2xi1>, tensor<8x8x2x2xf32>, tensor<8x8x2x2xf32>) -> tensor<8x8x2x2xf32>
  %q = graph.reduce_sum %d {graph.name = "pool2", dims = array<i64: 2, 3>, keepdims = false} : (tensor<8x8x2x2xf32>) -> tensor<8x8xf32>
  %e = graph.gather %emb, %ids {graph.name = "embedding", axis = 0 : i64} : (tensor<8x8xf32>, tensor<8x2xi64>) -> tensor<8x2x8xf32>
  %es = graph.reduce_sum %e {graph.name = "bag", dims = array<i64: 1>, keepdims = false} : (tensor<8x2x8xf32>) -> tensor<8x8xf32>
  %h = graph.add %q, %es {graph.name = "join"} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %l = graph.matmul %h, %w4 {graph.name = "fc"} : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %y = graph.add %l, %b4 {graph.name = "fc.add"} : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  return %y, %rm2 : tensor<8x4xf32>, tensor<8xf32>
}
func.func @infer(
    %x: tensor<8x4x8x8xf32> {graph.role = "input", graph.name = "image"},
    %ids: tensor<8x2xi64> {graph.role = "input", graph.name = "ids"},
    %w1: tensor<8x4x3x3xf32> {graph.role = "parameter", graph.name = "conv1.weight"},
    %g1: tensor<8xf32> {graph.role = "parameter", graph.name = "bn1.weight"},
    %b1: tensor<8xf32> {graph.role = "parameter", graph.name = "bn1.bias"},
    %w2: tensor<8x8x3x3xf32> {graph.role = "parameter", graph.name = "conv2.weight"},
    %w3: tensor<8x8x1x1xf32> {graph.role = "parameter", graph.name = "short.weight"},
    %emb: tensor<8x8xf32> {graph.role = "parameter", graph.name = "embedding"},
    %w4: tensor<8x4xf32> {graph.role = "parameter", graph.name = "fc.weight"},
    %b4: tensor<4xf32> {graph.role = "parameter", graph.name = "fc.bias"},
    %rm: tensor<8xf32> {graph.role = "state", graph.name = "bn1.running_mean", graph.fill = 0.0 : f64})
    -> (tensor<8x4xf32> {graph.role = "output", graph.name = "logits"}) {
  %c1 = graph.conv %x, %w1 {graph.name = "conv1", strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<8x4x8x8xf32>, tensor<8x4x3x3xf32>) -> tensor<8x8x8x8xf32>
  %rmv = graph.reshape %rm : (tensor<8xf32>) -> tensor<1x8x1x1xf32>
  %g1v = graph.reshape %g1 : (tensor<8xf32>) -> tensor<1x8x1x1xf32>
  %b1v = graph.reshape %b1 : (tensor<8xf32>) -> tensor<1x8x1x1xf32>
  %n0 = graph.sub %c1, %rmv {graph.name = "bn1"} : (tensor<8x8x8x8xf32>, tensor<1x8x1x1xf32>) -> tensor<8x8x8x8xf32>
  %n1 = graph.mul %n0, %g1v : (tensor<8x8x8x8xf32>, tensor<1x8x1x1xf32>) -> tensor<8x8x8x8xf32>
  %n2 = graph.add %n1, %b1v : (tensor<8x8x8x8xf32>, tensor<1x8x1x1xf32>) -> tensor<8x8x8x8xf32>
  %r1 = graph.relu %n2 {graph.name = "relu1"} : (tensor<8x8x8x8xf32>) -> tensor<8x8x8x8xf32>
  %p1 = graph.max_pool %r1 {graph.name = "pool1", kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<8x8x8x8xf32>) -> tensor<8x8x4x4xf32>
  %c2 = graph.conv %p1, %w2 {graph.name = "conv2", strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<8x8x4x4xf32>, tensor<8x8x3x3xf32>) -> tensor<8x8x2x2xf32>
  %c3 = graph.conv %p1, %w3 {graph.name = "short", strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<8x8x4x4xf32>, tensor<8x8x1x1xf32>) -> tensor<8x8x2x2xf32>
  %sum = graph.add %c2, %c3 {graph.name = "residual"} : (tensor<8x8x2x2xf32>, tensor<8x8x2x2xf32>) -> tensor<8x8x2x2xf32>
  %r2 = graph.relu %sum {graph.name = "relu2"} : (tensor<8x8x2x2xf32>) -> tensor<8x8x2x2xf32>
  %q = graph.reduce_sum %r2 {graph.name = "pool2", dims = array<i64: 2, 3>, keepdims = false} : (tensor<8x8x2x2xf32>) -> tensor<8x8xf32>
  %e = graph.gather %emb, %ids {graph.name = "embedding", axis = 0 : i64} : (tensor<8x8xf32>, tensor<8x2xi64>) -> tensor<8x2x8xf32>
  %es = graph.reduce_sum %e {graph.name = "bag", dims = array<i64: 1>, keepdims = false} : (tensor<8x2x8xf32>) -> tensor<8x8xf32>
  %h = graph.add %q, %es {graph.name = "join"} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %l = graph.matmul %h, %w4 {graph.name = "fc"} : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %y = graph.add %l, %b4 {graph.name = "fc.add"} : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}
