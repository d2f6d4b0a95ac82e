// RUN: tessera-opt %s --split-input-file --verify-diagnostics

// Collectives whose kind, axes, dimensions or types do not fit together.

module attributes {dist.mesh = #dist.mesh<"data=2">} {
  func.func @kind(%x: tensor<6x4xf32>) {
    // expected-error @+1 {{has the unknown kind 'all-most'; CollectiveKind lists all}}
    %0 = dist.collective "all-most" %x {axes = ["data"]} : (tensor<6x4xf32>) -> tensor<6x4xf32>
    return
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<"data=2">} {
  func.func @rank(%x: tensor<6x4xf32>) {
    // expected-error @+1 {{must keep rank and element type and have static shapes; it turns 'tensor<6x4xf32>' into 'tensor<24xf32>'}}
    %0 = dist.collective "all-reduce" %x {axes = ["data"], reduction = "sum"} : (tensor<6x4xf32>) -> tensor<24xf32>
    return
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<"data=2">} {
  func.func @axis_twice(%x: tensor<6x4xf32>) {
    // expected-error @+1 {{names the axis 'data' twice}}
    %0 = dist.collective "all-reduce" %x {axes = ["data", "data"], reduction = "sum"} : (tensor<6x4xf32>) -> tensor<6x4xf32>
    return
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<"data=2">} {
  func.func @unasked_reduction(%x: tensor<6x4xf32>) {
    // expected-error @+1 {{has the reduction 'sum'; its kind takes none}}
    %0 = dist.collective "all-gather" %x {axes = ["data"], dim = 0 : i64, reduction = "sum"} : (tensor<6x4xf32>) -> tensor<12x4xf32>
    return
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<"data=2">} {
  func.func @dimension(%x: tensor<6x4xf32>) {
    // expected-error @+1 {{has the dimension 2 on 'tensor<6x4xf32>'; it needs one below the rank}}
    %0 = dist.collective "all-gather" %x {axes = ["data"], dim = 2 : i64} : (tensor<6x4xf32>) -> tensor<12x4xf32>
    return
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<"data=2">} {
  func.func @unasked_dimension(%x: tensor<6x4xf32>) {
    // expected-error @+1 {{has the dimension 0 on 'tensor<6x4xf32>'; its kind takes none (-1)}}
    %0 = dist.collective "all-reduce" %x {axes = ["data"], dim = 0 : i64, reduction = "max"} : (tensor<6x4xf32>) -> tensor<6x4xf32>
    return
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<"data=2">} {
  func.func @split(%x: tensor<6x4xf32>) {
    // expected-error @+1 {{has the split dimension 0 on 'tensor<6x4xf32>'; it needs one below the rank, other than dim}}
    %0 = dist.collective "all-to-all" %x {axes = ["data"], dim = 0 : i64, split_dim = 0 : i64} : (tensor<6x4xf32>) -> tensor<6x4xf32>
    return
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<"data=2">} {
  func.func @unasked_split(%x: tensor<6x4xf32>) {
    // expected-error @+1 {{has the split dimension 1 on 'tensor<6x4xf32>'; only all-to-all takes one (-1)}}
    %0 = dist.collective "slice" %x {axes = ["data"], dim = 0 : i64, split_dim = 1 : i64} : (tensor<6x4xf32>) -> tensor<3x4xf32>
    return
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<"data=2">} {
  func.func @root(%x: tensor<6x4xf32>) {
    // expected-error @+1 {{has the root 2 in a group of 2}}
    %0 = dist.collective "broadcast" %x {axes = ["data"], root = 2 : i64} : (tensor<6x4xf32>) -> tensor<6x4xf32>
    return
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<"data=2">} {
  func.func @unasked_halo(%x: tensor<6x4xf32>) {
    // expected-error @+1 {{has a halo wider than its neighbour's block}}
    %0 = dist.collective "all-reduce" %x {axes = ["data"], reduction = "sum", halo_lo = 1 : i64} : (tensor<6x4xf32>) -> tensor<6x4xf32>
    return
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<"data=2">} {
  func.func @few_sources(%x: tensor<6x4xf32>) {
    // expected-error @+1 {{must name a source for each of the mesh's ranks}}
    %0 = dist.collective "permute" %x {axes = ["data"], sources = array<i64: 0>} : (tensor<6x4xf32>) -> tensor<6x4xf32>
    return
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  func.func @permute_of_a_part(%x: tensor<6x4xf32>) {
    // expected-error @+1 {{must name a source for each of the mesh's ranks}}
    %0 = dist.collective "permute" %x {axes = ["data"], sources = array<i64: 1, 0>} : (tensor<6x4xf32>) -> tensor<6x4xf32>
    return
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<"data=2">} {
  func.func @unasked_sources(%x: tensor<6x4xf32>) {
    // expected-error @+1 {{has sources, which only permute takes}}
    %0 = dist.collective "all-reduce" %x {axes = ["data"], reduction = "sum", sources = array<i64: 1, 0>} : (tensor<6x4xf32>) -> tensor<6x4xf32>
    return
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<"data=4">} {
  func.func @uneven(%x: tensor<6x4xf32>) {
    // expected-error @+1 {{over 4 ranks cannot turn 'tensor<6x4xf32>' into 'tensor<2x4xf32>'}}
    %0 = dist.collective "reduce-scatter" %x {axes = ["data"], dim = 0 : i64, reduction = "sum"} : (tensor<6x4xf32>) -> tensor<2x4xf32>
    return
  }
}

// -----

module attributes {dist.mesh = #dist.mesh<"data=2">} {
  func.func @gathered(%x: tensor<6x4xf32>) {
    // expected-error @+1 {{over 2 ranks cannot turn 'tensor<6x4xf32>' into 'tensor<6x8xf32>'}}
    %0 = dist.collective "all-gather" %x {axes = ["data"], dim = 0 : i64} : (tensor<6x4xf32>) -> tensor<6x8xf32>
    return
  }
}
