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
}
