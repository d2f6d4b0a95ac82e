// RUN: tessera-opt %s -split-input-file -verify-diagnostics | FileCheck %s

module attributes {dist.mesh = #dist.mesh<"data=2,model=3">} {
  // CHECK-LABEL: func.func @kinds
  func.func @kinds(%x: tensor<6x4xf32>) -> tensor<6x4xf32> {
    // CHECK: dist.collective "slice" %{{.*}} {axes = ["model"], dim = 0 : i64} : (tensor<6x4xf32>) -> tensor<2x4xf32>
    %0 = dist.collective "slice" %x {axes = ["model"], dim = 0 : i64} : (tensor<6x4xf32>) -> tensor<2x4xf32>
    // CHECK: dist.collective "all-to-all" %{{.*}} {axes = ["data"], dim = 0 : i64, split_dim = 1 : i64}
    %1 = dist.collective "all-to-all" %0 {axes = ["data"], dim = 0 : i64, split_dim = 1 : i64} : (tensor<2x4xf32>) -> tensor<4x2xf32>
    %2 = dist.collective "all-gather" %1 {axes = ["data", "model"], dim = 0 : i64} : (tensor<4x2xf32>) -> tensor<24x2xf32>
    // CHECK: dist.collective "reduce-scatter" %{{.*}} {axes = ["data"], dim = 0 : i64, reduction = "sum"}
    %3 = dist.collective "reduce-scatter" %2 {axes = ["data"], dim = 0 : i64, reduction = "sum"} : (tensor<24x2xf32>) -> tensor<12x2xf32>
    // CHECK: dist.collective "halo" %{{.*}} {axes = ["model"], dim = 0 : i64, fill = 1.000000e+00 : f64, halo_hi = 2 : i64, halo_lo = 1 : i64}
    %4 = dist.collective "halo" %3 {axes = ["model"], dim = 0 : i64, halo_lo = 1 : i64, halo_hi = 2 : i64, fill = 1.0 : f64} : (tensor<12x2xf32>) -> tensor<15x2xf32>
    %5 = dist.collective "permute" %4 {axes = ["data", "model"], sources = array<i64: 1, 0, 3, 2, 5, 4>} : (tensor<15x2xf32>) -> tensor<15x2xf32>
    return %x : tensor<6x4xf32>
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<"data=2">} {
  func.func @shape(%x: tensor<6x4xf32>) {
    // expected-error @+1 {{over 2 ranks cannot turn 'tensor<6x4xf32>' into 'tensor<2x4xf32>'}}
    %0 = dist.collective "slice" %x {axes = ["data"], dim = 0 : i64} : (tensor<6x4xf32>) -> tensor<2x4xf32>
    return
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<"data=2">} {
  func.func @axis(%x: tensor<6x4xf32>) {
    // expected-error @+1 {{names 'model', which is no axis of the mesh data=2}}
    %0 = dist.collective "all-reduce" %x {axes = ["model"], reduction = "sum"} : (tensor<6x4xf32>) -> tensor<6x4xf32>
    return
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<"data=2">} {
  func.func @reduction(%x: tensor<6x4xf32>) {
    // expected-error @+1 {{has the reduction ''}}
    %0 = dist.collective "all-reduce" %x {axes = ["data"]} : (tensor<6x4xf32>) -> tensor<6x4xf32>
    return
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<"data=2">} {
  func.func @wide(%x: tensor<2x4xf32>) {
    // expected-error @+1 {{has a halo wider than its neighbour's block}}
    %0 = dist.collective "halo" %x {axes = ["data"], dim = 0 : i64, halo_lo = 3 : i64} : (tensor<2x4xf32>) -> tensor<5x4xf32>
    return
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<"data=2">} {
  func.func @sources(%x: tensor<2x4xf32>) {
    // expected-error @+1 {{has sources that are no permutation}}
    %0 = dist.collective "permute" %x {axes = ["data"], sources = array<i64: 0, 0>} : (tensor<2x4xf32>) -> tensor<2x4xf32>
    return
  }
}
