//===- DistOps.td - reshards and collectives ----------------------------------------------------===//
//
// In phase 4 `dist.reshard` marks, on global tensors, where a sharding changes. In phase 5 `dist.collective` says, on
// local tensors, which collectives change it. In a pipeline `dist.send` and `dist.receive` lead from stage to stage.
//
//===--------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIST_OPS_TD
#define TESSERA_DIST_OPS_TD

include "mlir/Interfaces/SideEffectInterfaces.td"
include "dialects/dist/DistDialect.td"

def Dist_ReshardOp : Op<Dist_Dialect, "reshard", [Pure, AllTypesMatch<["x", "y"]>]> {
  let summary = "the same global tensor under another sharding (phase 4)";
  let description = [{
    ```mlir
    %1 = dist.reshard %0 from <"[-, -] sum(data)"> to <"[data, -]"> : tensor<8x6xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$x, Dist_ShardingAttr:$from, Dist_ShardingAttr:$to);
  let results = (outs AnyRankedTensor:$y);
  let assemblyFormat = "$x `from` $from `to` $to attr-dict `:` type($x)";
}

// One operator stands for all collectives, because they share most: a group of axes, local types, and one step of the
// plan each.
def Dist_CollectiveOp : Op<Dist_Dialect, "collective", [Pure]> {
  let summary = "one collective among the ranks along `axes`, on local tensors (phase 5)";
  let description = [{
    CollectiveKind and Collective in dialects/dist/Reshard.h define `kind` and the other attributes. "slice" sends
    nothing: each rank keeps its own block. "fit" has no axes. It appends zeros to `dim` or drops its tail, so that the
    result has its type. "fold" has none either. It reduces the terms that lie one behind the other along `dim`; the
    result's type says how many they are. "exchange" lists all messages of all ranks in `boxes`: for each the sending
    and the receiving rank, where the box begins in the operand, where in the result, and its shape.

    ```mlir
    %1 = dist.collective "reduce-scatter" %0 {axes = ["data"], dim = 0, reduction = "sum"}
        : (tensor<8x6xf32>) -> tensor<4x6xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$x, StrAttr:$kind, StrArrayAttr:$axes,
                       DefaultValuedAttr<I64Attr, "-1">:$dim,
                       DefaultValuedAttr<I64Attr, "-1">:$split_dim,
                       DefaultValuedAttr<StrAttr, "\"\"">:$reduction,
                       DefaultValuedAttr<I64Attr, "0">:$halo_lo,
                       DefaultValuedAttr<I64Attr, "0">:$halo_hi,
                       DefaultValuedAttr<F64Attr, "0.0">:$fill,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$sources,
                       DefaultValuedAttr<I64Attr, "0">:$root,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$boxes);
  let results = (outs AnyRankedTensor:$y);
  let assemblyFormat = "$kind $x attr-dict `:` functional-type($x, $y)";
  let hasVerifier = 1;
  let builders = [
    // The result's shape is collective.localOut.
    OpBuilder<(ins "::mlir::Value":$x, "const ::tessera::dist::Mesh &":$mesh,
                   "const ::tessera::dist::Collective &":$collective)>];
  let extraClassDeclaration = [{
    ::tessera::dist::CollectiveKind getCollectiveKind();
    /// The axes as indices. The verifier has checked that they are axes of the mesh.
    ::tessera::dist::AxisList getAxisList(const ::tessera::dist::Mesh &mesh);
    /// The collective of the planner. Its `result` (a sharding) is empty, since the operator does not store it.
    ::tessera::dist::Collective getCollective(const ::tessera::dist::Mesh &mesh);
  }];
}

// Not pure: both have an effect on another rank.
def Dist_SendOp : Op<Dist_Dialect, "send"> {
  let summary = "sends a local tensor to the ranks of another stage (phase 5)";
  let description = [{
    Every rank sends to the one at the same place of the mesh of stage `peer`. It does not wait for the receiver. The
    n-th message of a channel is received by the n-th receive.

    ```mlir
    dist.send %0 {channel = 3, peer = 1} : tensor<8x6xf32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$x, I64Attr:$peer, I64Attr:$channel);
  let assemblyFormat = "$x attr-dict `:` type($x)";
}

def Dist_ReceiveOp : Op<Dist_Dialect, "receive"> {
  let summary = "waits for a local tensor from the ranks of another stage (phase 5)";
  let description = [{
    ```mlir
    %0 = dist.receive {channel = 3, peer = 0} : tensor<8x6xf32>
    ```
  }];
  let arguments = (ins I64Attr:$peer, I64Attr:$channel);
  let results = (outs AnyRankedTensor:$y);
  let assemblyFormat = "attr-dict `:` type($y)";
}

#endif
