//===- DistOps.td - reshards and collectives ----------------------------------------------------===//
//
// Phase 4 states on global tensors where a sharding changes (`dist.reshard`); phase 5 states on local ones
// which collectives do it (`dist.collective`). Both know no operator.
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

// One operator for all collectives: what they share (a group of axes, local types, lowering to one step of
// the plan) is more than what sets them apart.
def Dist_CollectiveOp : Op<Dist_Dialect, "collective", [Pure]> {
  let summary = "one collective among the ranks along `axes`, on local tensors (phase 5)";
  let description = [{
    `kind` and the meaning of the other attributes: CollectiveKind and Collective in
    dialects/dist/Reshard.h. "slice" communicates nothing; each rank keeps its own block; "fit", over no
    axes, appends zeros to `dim` or drops its tail, as the result's type says.

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
                       DefaultValuedAttr<I64Attr, "0">:$root);
  let results = (outs AnyRankedTensor:$y);
  let assemblyFormat = "$kind $x attr-dict `:` functional-type($x, $y)";
  let hasVerifier = 1;
  let builders = [
    // The result's shape is collective.localOut.
    OpBuilder<(ins "::mlir::Value":$x, "const ::tessera::dist::Mesh &":$mesh,
                   "const ::tessera::dist::Collective &":$collective)>];
  let extraClassDeclaration = [{
    ::tessera::dist::CollectiveKind getCollectiveKind();
    /// The axes as indices; the verifier has seen that they are the mesh's.
    ::tessera::dist::AxisList getAxisList(const ::tessera::dist::Mesh &mesh);
    /// As the planner made it; `result` (the sharding) is not known any more and stays empty.
    ::tessera::dist::Collective getCollective(const ::tessera::dist::Mesh &mesh);
  }];
}

#endif
