// RUN: tessera-opt --dist-join-collectives %s | FileCheck %s --check-prefix=MARK
// RUN: tessera-opt --dist-join-collectives=most=64 %s | FileCheck %s --check-prefix=SMALL
// RUN: tessera-opt --dist-join-collectives --graph-schedule %s | FileCheck %s --check-prefix=ORDER

module attributes {dist.mesh = #dist.mesh<"data=2,model=2">} {
  // Sums over the same ranks are one message. Another group, another reduction and a gather are none of it.
  // MARK-LABEL: func.func @train
  // MARK: "all-reduce" {{.*}}axes = ["data"]{{.*}}dist.message = 0 : i64
  // MARK: "all-reduce" {{.*}}axes = ["data"]{{.*}}dist.message = 0 : i64
  // MARK-NOT: dist.message
  // MARK: "all-reduce" {{.*}}axes = ["model"]
  // MARK-NOT: dist.message
  // MARK: "all-reduce" {{.*}}"max"
  // MARK-NOT: dist.message
  // MARK: "all-gather"
  // MARK: "all-reduce" {{.*}}axes = ["data"]{{.*}}dist.message = 0 : i64

  // 64 bytes hold two of 32.
  // SMALL-LABEL: func.func @train
  // SMALL-COUNT-2: dist.message = 0 : i64
  // SMALL-NOT: dist.message

  // The members stand behind each other, where the last of them is ready.
  // ORDER-LABEL: func.func @train
  // ORDER: %[[A:.*]] = graph.relu %arg0
  // ORDER: %[[B:.*]] = graph.neg %arg0
  // ORDER: %[[C:.*]] = graph.exp %arg0
  // ORDER: %[[SA:.*]] = dist.collective "all-reduce" %[[A]]
  // ORDER-NEXT: %[[SB:.*]] = dist.collective "all-reduce" %[[B]]
  // ORDER-NEXT: %[[SC:.*]] = dist.collective "all-reduce" %[[C]]
  func.func @train(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<16xf32>, tensor<8xf32>) {
    %a = graph.relu %x : (tensor<8xf32>) -> tensor<8xf32>
    %sa = dist.collective "all-reduce" %a {axes = ["data"], reduction = "sum"} : (tensor<8xf32>) -> tensor<8xf32>
    %b = graph.neg %x : (tensor<8xf32>) -> tensor<8xf32>
    %sb = dist.collective "all-reduce" %b {axes = ["data"], reduction = "sum"} : (tensor<8xf32>) -> tensor<8xf32>
    %d = graph.abs %x : (tensor<8xf32>) -> tensor<8xf32>
    %sd = dist.collective "all-reduce" %d {axes = ["model"], reduction = "sum"} : (tensor<8xf32>) -> tensor<8xf32>
    %e = graph.sqrt %x : (tensor<8xf32>) -> tensor<8xf32>
    %se = dist.collective "all-reduce" %e {axes = ["data"], reduction = "max"} : (tensor<8xf32>) -> tensor<8xf32>
    %f = graph.tanh %x : (tensor<8xf32>) -> tensor<8xf32>
    %sf = dist.collective "all-gather" %f {axes = ["data"], dim = 0} : (tensor<8xf32>) -> tensor<16xf32>
    %c = graph.exp %x : (tensor<8xf32>) -> tensor<8xf32>
    %sc = dist.collective "all-reduce" %c {axes = ["data"], reduction = "sum"} : (tensor<8xf32>) -> tensor<8xf32>
    return %sa, %sb, %sd, %se, %sf, %sc : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<16xf32>, tensor<8xf32>
  }

  // With a sharded optimizer: parameters are gathered, and gradients scattered. A gather of what a scatter made is
  // another message than those that need nothing.
  // MARK-LABEL: func.func @sharded
  // MARK: "all-gather" %arg0 {{.*}}dist.message = [[GATHERS:[0-9]+]] : i64
  // MARK: "all-gather" %arg1 {{.*}}dist.message = [[GATHERS]] : i64
  // MARK: "reduce-scatter" {{.*}}dist.message = [[SCATTERS:[0-9]+]] : i64
  // MARK: "reduce-scatter" {{.*}}dist.message = [[SCATTERS]] : i64
  // MARK: "reduce-scatter" {{.*}}dist.message = [[SCATTERS]] : i64

  // 64 bytes hold two scatters of 32; a gather counts as what it makes.
  // SMALL-LABEL: func.func @sharded
  // SMALL-NOT: "all-gather" {{.*}}dist.message
  // SMALL: "reduce-scatter" {{.*}}dist.message = 0 : i64
  // SMALL: "reduce-scatter" {{.*}}dist.message = 0 : i64
  // SMALL-NOT: dist.message

  // ORDER-LABEL: func.func @sharded
  // ORDER: "all-gather"
  // ORDER-NEXT: "all-gather"
  // ORDER: "reduce-scatter"
  // ORDER-NEXT: "reduce-scatter"
  // ORDER-NEXT: "reduce-scatter"
  func.func @sharded(%p: tensor<8xf32>, %q: tensor<4x2xf32>) -> (tensor<4xf32>, tensor<2x4xf32>, tensor<4xf32>) {
    %wp = dist.collective "all-gather" %p {axes = ["data"], dim = 0} : (tensor<8xf32>) -> tensor<16xf32>
    %a = graph.relu %wp : (tensor<16xf32>) -> tensor<16xf32>
    %wq = dist.collective "all-gather" %q {axes = ["data"], dim = 1} : (tensor<4x2xf32>) -> tensor<4x4xf32>
    %b = graph.neg %wq : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %h = graph.slice %wp {starts = array<i64: 0>, limits = array<i64: 8>, strides = array<i64: 1>} : (tensor<16xf32>) -> tensor<8xf32>
    %c = graph.exp %h : (tensor<8xf32>) -> tensor<8xf32>
    %sc = dist.collective "reduce-scatter" %c {axes = ["data"], dim = 0, reduction = "sum"} : (tensor<8xf32>) -> tensor<4xf32>
    %d = graph.tanh %h : (tensor<8xf32>) -> tensor<8xf32>
    %sd = dist.collective "reduce-scatter" %d {axes = ["data"], dim = 0, reduction = "sum"} : (tensor<8xf32>) -> tensor<4xf32>
    %sb = dist.collective "reduce-scatter" %b {axes = ["data"], dim = 0, reduction = "sum"} : (tensor<4x4xf32>) -> tensor<2x4xf32>
    return %sc, %sb, %sd : tensor<4xf32>, tensor<2x4xf32>, tensor<4xf32>
  }
}
