// RUN: tessera-opt --graph-index-limits %s | FileCheck %s

// An embedding: the ids are cut in micro-batches, seen under another shape, and wrapped by the importer.
// CHECK-LABEL: func.func @embedding
// CHECK-SAME: %{{[a-z0-9]+}}: tensor<8x5xi32> {graph.id_limit = 300 : i64, graph.name = "ids", graph.role = "input"}
// CHECK-SAME: %{{[a-z0-9]+}}: tensor<8x4xi64> {graph.name = "target", graph.role = "target"}
// CHECK-SAME: %{{[a-z0-9]+}}: tensor<300x16xf32> {graph.name = "table", graph.role = "parameter"}
func.func @embedding(%ids: tensor<8x5xi32> {graph.role = "input", graph.name = "ids"},
                     %target: tensor<8x4xi64> {graph.role = "target", graph.name = "target"},
                     %table: tensor<300x16xf32> {graph.role = "parameter", graph.name = "table"}) -> (tensor<32x16xf32>, tensor<8x4xi64>) {
  %s = graph.slice %ids {starts = array<i64: 0, 0>, limits = array<i64: 8, 4>, strides = array<i64: 1, 1>} : (tensor<8x5xi32>) -> tensor<8x4xi32>
  %c = graph.cast %s : (tensor<8x4xi32>) -> tensor<8x4xi64>
  %r = graph.reshape %c : (tensor<8x4xi64>) -> tensor<32xi64>
  %zero = graph.constant dense<0> : tensor<i64>
  %n = graph.constant dense<300> : tensor<i64>
  %below = graph.lt %r, %zero : (tensor<32xi64>, tensor<i64>) -> tensor<32xi1>
  %up = graph.add %r, %n : (tensor<32xi64>, tensor<i64>) -> tensor<32xi64>
  %i = graph.select %below, %up, %r {graph.wraps_indices} : (tensor<32xi1>, tensor<32xi64>, tensor<32xi64>) -> tensor<32xi64>
  %y = graph.gather %table, %i {axis = 0 : i64, start = 0 : i64, batch_dims = 0 : i64} : (tensor<300x16xf32>, tensor<32xi64>) -> tensor<32x16xf32>
  return %y, %target : tensor<32x16xf32>, tensor<8x4xi64>
}

// Of two tables the smaller counts. A select that nobody marked may hand on anything, arithmetic does, and what is
// taken from is no index.
// CHECK-LABEL: func.func @others
// CHECK-SAME: %{{[a-z0-9]+}}: tensor<4xi64> {graph.id_limit = 7 : i64, graph.name = "two", graph.role = "input"}
// CHECK-SAME: %{{[a-z0-9]+}}: tensor<4xi64> {graph.name = "chosen", graph.role = "input"}
// CHECK-SAME: %{{[a-z0-9]+}}: tensor<4xi64> {graph.name = "shifted", graph.role = "input"}
func.func @others(%two: tensor<4xi64> {graph.role = "input", graph.name = "two"},
                  %chosen: tensor<4xi64> {graph.role = "input", graph.name = "chosen"},
                  %shifted: tensor<4xi64> {graph.role = "input", graph.name = "shifted"},
                  %a: tensor<9x2xf32> {graph.role = "parameter", graph.name = "a"},
                  %b: tensor<2x7xf32> {graph.role = "parameter", graph.name = "b"},
                  %on: tensor<4xi1> {graph.role = "state", graph.name = "on"})
    -> (tensor<4x2xf32>, tensor<2x4xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<1xi64>) {
  %0 = graph.gather %a, %two {axis = 0 : i64, start = 0 : i64, batch_dims = 0 : i64} : (tensor<9x2xf32>, tensor<4xi64>) -> tensor<4x2xf32>
  %1 = graph.gather %b, %two {axis = 1 : i64, start = 0 : i64, batch_dims = 0 : i64} : (tensor<2x7xf32>, tensor<4xi64>) -> tensor<2x4xf32>
  %z = graph.constant dense<0> : tensor<i64>
  %s = graph.select %on, %z, %chosen : (tensor<4xi1>, tensor<i64>, tensor<4xi64>) -> tensor<4xi64>
  %2 = graph.gather %a, %s {axis = 0 : i64, start = 0 : i64, batch_dims = 0 : i64} : (tensor<9x2xf32>, tensor<4xi64>) -> tensor<4x2xf32>
  %m = graph.add %shifted, %shifted : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
  %3 = graph.gather %a, %m {axis = 0 : i64, start = 0 : i64, batch_dims = 0 : i64} : (tensor<9x2xf32>, tensor<4xi64>) -> tensor<4x2xf32>
  %first = graph.constant dense<0> : tensor<1xi64>
  %4 = graph.gather %chosen, %first {axis = 0 : i64, start = 0 : i64, batch_dims = 0 : i64} : (tensor<4xi64>, tensor<1xi64>) -> tensor<1xi64>
  return %0, %1, %2, %3, %4 : tensor<4x2xf32>, tensor<2x4xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<1xi64>
}
