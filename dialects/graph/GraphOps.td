//===- GraphOps.td - every operator, with its sharding rule -------------------------------------===//
//
// This file defines what each operator computes and how it may be sharded. Kernels (runtime/backend) implement exactly
// these semantics under the operator's mnemonic, with the attributes named here.
//
// Conventions. Tensors are ranked and static. "Broadcast" means NumPy's: shapes are aligned at the last dimension, and
// a dimension of extent 1 is repeated. Dimension numbers are not negative (the importer normalises them). Comparisons
// give i1. Element types: f32, f64, f16, bf16, i64, i32, i8, ui8, i1.
//
// dialects/dist/ShardingRule.h documents the syntax of rules. The rule "custom" means that no text can express the
// rule; C++ code in GraphRules.cpp builds it.
//
// Factor letters are the same in an operator and its gradients (n batch, g groups, c channels in, f channels out, h w z
// space, r s t kernel, m k n of a product), so that a reader recognises them.
//
//===--------------------------------------------------------------------------------------------===//
#ifndef TESSERA_GRAPH_OPS_TD
#define TESSERA_GRAPH_OPS_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "dialects/dist/DistInterfaces.td"
include "dialects/graph/GraphDialect.td"

def Graph_Tensor : TensorOf<[AnyFloat, AnySignlessInteger, UI8]>;

// `methods`: those of ShardingRuleOpInterface that the operator implements itself, beside its rule.
class Graph_Op<string mnemonic, string rule, list<Trait> traits = [], list<string> methods = []>
    : Op<Graph_Dialect, mnemonic,
         !listconcat([Pure, DeclareOpInterfaceMethods<ShardingRuleOpInterface,
                        !listconcat(methods, !if(!eq(rule, "custom"), ["getShardingRule"], []<string>))>],
                     traits)> {
  string shardingRule = rule;
  let extraClassDefinition = "::llvm::StringRef $cppClass::getRuleText() { return \"" # rule # "\"; }";
}

// Result types follow from the traits: SameOperandsAndResultType, AllTypesMatch, Graph_Broadcasts or Graph_Compares.
class Graph_TraitTypedOp<string mnemonic, string rule, list<Trait> traits, list<string> methods = []>
    : Graph_Op<mnemonic, rule, traits, methods> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

// Result types follow from operands and attributes: inferReturnTypes in GraphTypes.cpp.
class Graph_InferredOp<string mnemonic, string rule, list<Trait> traits = [], list<string> methods = []>
    : Graph_TraitTypedOp<mnemonic, rule, !listconcat([InferTypeOpAdaptor], traits), methods>;

// The result type is given, checked by a verifier.
class Graph_TypedOp<string mnemonic, string rule, list<Trait> traits = [], list<string> methods = []>
    : Graph_Op<mnemonic, rule, traits, methods> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

// Computes each point of the result from the same point of the operands. Such an operator may become part of
// graph.fused.
def Graph_Elementwise : NativeOpTrait<"GraphElementwise"> {
  let cppNamespace = "::tessera::graph";
}

// The result is the broadcast of the operands; Graph_Compares: with elements of i1 (Graph.h).
class Graph_TypeTrait<string name> : NativeOpTrait<name> { let cppNamespace = "::tessera::graph"; }
def Graph_Broadcasts : TraitList<[InferTypeOpInterface, Graph_TypeTrait<"GraphBroadcasts">]>;
def Graph_Compares : TraitList<[InferTypeOpInterface, Graph_TypeTrait<"GraphCompares">]>;

// How an operator computes in mixed precision (the pass graph-lower-precision; precisionOf in GraphKinds.h). An
// operator without any of these traits computes in float32: exponentials, sums, statistics, losses and every new
// operator.
class Graph_PrecisionTrait<string name> : NativeOpTrait<name> { let cppNamespace = "::tessera::graph"; }
// Sums products. It takes 16-bit operands; with `wide` its result is float32.
def Graph_Products : Graph_PrecisionTrait<"GraphProducts">;
// Computes in 16 bits with little loss, or none where it only moves or selects elements.
def Graph_Follows : Graph_PrecisionTrait<"GraphFollows">;
// Computes in float32. Operands and results of the first result's shape are stored in 16 bits.
def Graph_Normalizes : Graph_PrecisionTrait<"GraphNormalizes">;

// Adds the leaves of its summed factor itself: an attribute `leaves` says in how many equal ranges the factor is
// summed, a power of two; without it the factor is summed at once. The leaves' results are added as a balanced tree,
// neighbours first, and every sum is rounded to the result's type (docs/adr/0021-equal-bits.md).
def Graph_AddsLeaves : Graph_TypeTrait<"GraphAddsLeaves">;

//===--------------------------------------------------------------------------------------------===//
// Elementwise
//===--------------------------------------------------------------------------------------------===//

class Graph_UnaryOp<string mnemonic, string rule = "... -> ...", list<Trait> traits = []>
    : Graph_TraitTypedOp<mnemonic, rule, !listconcat([Graph_Elementwise, SameOperandsAndResultType], traits),
                         ["getFlops"]> {
  let arguments = (ins Graph_Tensor:$x);
  let results = (outs Graph_Tensor:$y);
}

def Graph_NegOp        : Graph_UnaryOp<"neg", "... -> ... | linear 0", [Graph_Follows]> { let summary = "-x"; }
def Graph_AbsOp        : Graph_UnaryOp<"abs", "... -> ...", [Graph_Follows]> { let summary = "|x|"; }
def Graph_SignOp       : Graph_UnaryOp<"sign", "... -> ...", [Graph_Follows]> { let summary = "-1, 0 or 1"; }
def Graph_ExpOp        : Graph_UnaryOp<"exp"> { let summary = "e^x"; }
def Graph_Expm1Op      : Graph_UnaryOp<"expm1"> { let summary = "e^x - 1, exact near 0"; }
def Graph_LogOp        : Graph_UnaryOp<"log"> { let summary = "natural logarithm"; }
def Graph_Log1pOp      : Graph_UnaryOp<"log1p"> { let summary = "log(1 + x), exact near 0"; }
def Graph_SqrtOp       : Graph_UnaryOp<"sqrt"> { let summary = "square root"; }
def Graph_RsqrtOp      : Graph_UnaryOp<"rsqrt"> { let summary = "1 / sqrt(x)"; }
def Graph_ReciprocalOp : Graph_UnaryOp<"reciprocal"> { let summary = "1 / x"; }
def Graph_TanhOp       : Graph_UnaryOp<"tanh", "... -> ...", [Graph_Follows]> { let summary = "hyperbolic tangent"; }
def Graph_SigmoidOp    : Graph_UnaryOp<"sigmoid", "... -> ...", [Graph_Follows]> { let summary = "1 / (1 + e^-x)"; }
def Graph_ErfOp        : Graph_UnaryOp<"erf", "... -> ...", [Graph_Follows]> { let summary = "error function"; }
def Graph_SinOp        : Graph_UnaryOp<"sin"> { let summary = "sine"; }
def Graph_CosOp        : Graph_UnaryOp<"cos"> { let summary = "cosine"; }
def Graph_AtanOp       : Graph_UnaryOp<"atan"> { let summary = "inverse tangent, in (-pi/2, pi/2)"; }
def Graph_ReluOp : Graph_UnaryOp<"relu", "... -> ...", [Graph_Follows]> {
  let summary = "max(x, 0); NaN stays NaN";
}
def Graph_FloorOp      : Graph_UnaryOp<"floor", "... -> ...", [Graph_Follows]> { let summary = "round down"; }
def Graph_CeilOp       : Graph_UnaryOp<"ceil", "... -> ...", [Graph_Follows]> { let summary = "round up"; }
def Graph_RoundOp : Graph_UnaryOp<"round", "... -> ...", [Graph_Follows]> {
  let summary = "round to nearest, ties to even";
}
def Graph_NotOp        : Graph_UnaryOp<"not"> { let summary = "logical not, on i1"; }

// Linear from a floating-point type to one that is no narrower. A conversion that truncates is not linear, and one that
// rounds to fewer digits loses less if it rounds the sum than if it rounds every term.
def Graph_CastOp : Graph_TypedOp<"cast", "... -> ... | {floats ? linear 0}", [Graph_Elementwise]> {
  let summary = "converts the element type: float to integer truncates, to i1 is x != 0";
  let arguments = (ins Graph_Tensor:$x);
  let results = (outs Graph_Tensor:$y);
}

class Graph_BinaryOp<string mnemonic, string rule = "..., ... -> ...", list<string> methods = [],
                     list<Trait> traits = [], Trait type = Graph_Broadcasts>
    : Graph_TraitTypedOp<mnemonic, rule, !listconcat([Graph_Elementwise, type], traits),
                         !listconcat(methods, ["getFlops"])> {
  let arguments = (ins Graph_Tensor:$a, Graph_Tensor:$b);
  let results = (outs Graph_Tensor:$y);
}
class Graph_CompareOp<string mnemonic>
    : Graph_BinaryOp<mnemonic, "..., ... -> ...", [], [Graph_Follows], Graph_Compares>;

// "linear 0+1": a partial sum passes if both operands are partial. "linear 0 1": it passes if exactly one is.
def Graph_AddOp : Graph_BinaryOp<"add", "..., ... -> ... | linear 0+1", [], [Graph_Follows]> {
  let summary = "a + b, broadcast";
}
def Graph_SubOp : Graph_BinaryOp<"sub", "..., ... -> ... | linear 0+1", [], [Graph_Follows]> {
  let summary = "a - b, broadcast";
}
def Graph_MulOp : Graph_BinaryOp<"mul", "..., ... -> ... | linear 0 1", [], [Graph_Follows]> {
  let summary = "a * b, broadcast";
}
// Linear on floating-point types only: integers truncate.
def Graph_DivOp : Graph_BinaryOp<"div", "..., ... -> ... | {floats ? linear 0}", [], [Graph_Follows]> {
  let summary = "a / b, broadcast; integers truncate toward zero";
}
def Graph_PowOp : Graph_BinaryOp<"pow"> { let summary = "a ^ b, broadcast"; }
def Graph_MaxOp : Graph_BinaryOp<"max", "..., ... -> ...", [], [Graph_Follows]> {
  let summary = "maximum, broadcast; NaN wins";
}
def Graph_MinOp : Graph_BinaryOp<"min", "..., ... -> ...", [], [Graph_Follows]> {
  let summary = "minimum, broadcast; NaN wins";
}
def Graph_ModOp : Graph_BinaryOp<"mod"> { let summary = "remainder with the divisor's sign"; }
def Graph_EqOp  : Graph_CompareOp<"eq"> { let summary = "a == b, i1"; }
def Graph_LtOp  : Graph_CompareOp<"lt"> { let summary = "a < b, i1"; }
def Graph_LeOp  : Graph_CompareOp<"le"> { let summary = "a <= b, i1"; }
def Graph_AndOp : Graph_BinaryOp<"and"> { let summary = "logical and, on i1"; }
def Graph_OrOp  : Graph_BinaryOp<"or"> { let summary = "logical or, on i1"; }
def Graph_XorOp : Graph_BinaryOp<"xor"> { let summary = "logical exclusive or, on i1"; }
def Graph_BitAndOp : Graph_BinaryOp<"bit_and"> { let summary = "and of every bit, on integers"; }
def Graph_BitOrOp : Graph_BinaryOp<"bit_or"> { let summary = "or of every bit, on integers"; }
def Graph_BitXorOp : Graph_BinaryOp<"bit_xor"> { let summary = "exclusive or of every bit, on integers"; }

def Graph_SelectOp : Graph_InferredOp<"select", "..., ..., ... -> ... | linear 1+2",
                                      [Graph_Elementwise, Graph_Follows], ["getFlops"]> {
  let summary = "cond ? a : b, broadcast; cond is i1";
  let arguments = (ins Graph_Tensor:$cond, Graph_Tensor:$a, Graph_Tensor:$b);
  let results = (outs Graph_Tensor:$y);
}

//===--------------------------------------------------------------------------------------------===//
// Sources
//===--------------------------------------------------------------------------------------------===//

def Graph_ConstantOp : Graph_Op<"constant", "custom", [ConstantLike, AllTypesMatch<["value", "y"]>], ["localize"]> {
  let summary = "a splat (any dimension may be sharded) or a small dense constant (none may)";
  let description = [{
    Weights are never constants: they are arguments with the role "parameter".
    `exact` is the number that a splat of f32 was rounded from, where that changed it, such as the 0.9 of Adam's beta1.
    A plan holds it, and a program that runs in float64 computes with it; in f32 the constant is `value`.
  }];
  let arguments = (ins ElementsAttr:$value, OptionalAttr<F64Attr>:$exact);
  let results = (outs Graph_Tensor:$y);
  let assemblyFormat = "attr-dict $value";
  let hasFolder = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    bool isSplat() { return ::llvm::isa<::mlir::SplatElementsAttr>(getValue()); }
    /// The number of a splat of floats, `exact` where it is given.
    std::optional<double> getNumber();
  }];
  let builders = [OpBuilder<(ins "::mlir::RankedTensorType":$type, "double":$splat)>,
                  OpBuilder<(ins "::mlir::ElementsAttr":$value), [{ build($_builder, $_state, value, nullptr); }]>];
}

def Graph_IotaOp : Graph_TypedOp<"iota", "-> ...", [Graph_Elementwise], ["rankAttributes"]> {
  let summary = "y[i] = start + i[dim], with the global index";
  let description = [{ `start` is 0 in global programs; localisation adds the shard's offset. }];
  let arguments = (ins I64Attr:$dim, DefaultValuedAttr<I64Attr, "0">:$start);
  let results = (outs Graph_Tensor:$y);
}

def Graph_RandomOp : Graph_TypedOp<"random", "() -> ...", [Graph_Elementwise], ["rankAttributes"]> {
  let summary = "uniform numbers in [0, 1), a hash of (seed, stream, step, global element index)";
  let description = [{
    Philox 4x32-10 with key = (seed low 32, seed high 32 xor stream) and counter = (c low 32, c high 32,
    step low 32, step high 32), where c = g / 4 and g is the row-major index of the element in the global tensor;
    output word g mod 4, w, gives (w >> 8) * 2^-24. So masks do not depend on the mesh.
    In global programs `global_shape` and `offset` are empty, which means the result's shape and zeros. In local
    programs they say which block of the global tensor the rank produces.
  }];
  let arguments = (ins Graph_Tensor:$step, I64Attr:$seed, I64Attr:$stream,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$global_shape,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$offset);
  let results = (outs Graph_Tensor:$y);
}

//===--------------------------------------------------------------------------------------------===//
// Data movement
//===--------------------------------------------------------------------------------------------===//

def Graph_BroadcastOp : Graph_TypedOp<"broadcast", "... -> ... | linear 0", [Graph_Follows]> {
  let summary = "stretches x to the result's shape, by NumPy's rule";
  let arguments = (ins Graph_Tensor:$x);
  let results = (outs Graph_Tensor:$y);
}

def Graph_ReshapeOp : Graph_TypedOp<"reshape", "custom", [Graph_Follows]> {
  let summary = "the same elements in row-major order under another shape";
  let arguments = (ins Graph_Tensor:$x);
  let results = (outs Graph_Tensor:$y);
}

def Graph_TransposeOp : Graph_InferredOp<"transpose", "d.. -> d..[perm] | linear 0", [Graph_Follows]> {
  let summary = "y.shape[i] = x.shape[perm[i]]";
  let arguments = (ins Graph_Tensor:$x, DenseI64ArrayAttr:$perm);
  let results = (outs Graph_Tensor:$y);
}

def Graph_SliceOp : Graph_InferredOp<"slice", "custom", [Graph_Follows], ["localize"]> {
  let summary = "y[i] = x[starts + i * strides], for i with starts + i * strides < limits; strides > 0";
  let arguments = (ins Graph_Tensor:$x, DenseI64ArrayAttr:$starts, DenseI64ArrayAttr:$limits,
                       DenseI64ArrayAttr:$strides);
  let results = (outs Graph_Tensor:$y);
}

def Graph_PadOp : Graph_InferredOp<"pad", "custom", [Graph_Follows]> {
  let summary = "adds lo[d] elements before, hi[d] after and inner[d] between elements of dimension d, each = value";
  let description = [{ `inner` makes it the adjoint of a strided slice. lo, hi, inner are not negative. }];
  let arguments = (ins Graph_Tensor:$x, DenseI64ArrayAttr:$lo, DenseI64ArrayAttr:$hi,
                       DenseI64ArrayAttr:$inner, F64Attr:$value);
  let results = (outs Graph_Tensor:$y);
}

def Graph_ConcatOp : Graph_InferredOp<"concat", "custom", [Graph_Follows]> {
  let summary = "the operands one after the other along dim";
  let arguments = (ins Variadic<Graph_Tensor>:$xs, I64Attr:$dim);
  let results = (outs Graph_Tensor:$y);
}

def Graph_GatherOp : Graph_InferredOp<"gather", "custom", [Graph_Follows], ["rankAttributes"]> {
  let summary = "y = take(table, indices, axis): y.shape = table.shape[:axis] + indices.shape + table.shape[axis+1:]";
  let description = [{
    The first `batch_dims` dimensions of table and indices are common: each batch takes from its own part of
    the table (y has them once, axis >= batch_dims). NumPy's take_along_axis at the last axis is
    batch_dims = axis = rank - 1.
    `start` is 0 in global programs. On a shard of the table's axis it is the shard's first index; an
    index outside [start, start + extent) then gives 0 (the result is a partial sum over the shards).
    Where the shard is padded, `limit` replaces the extent: it is the number of its rows that are not padding (-1: all
    rows). An index outside the global table is an error of the model and gives 0. Negative indices are not allowed (the
    importer wraps them).
    Rule: "b.. a.. v c.., b.. i.. -> b.. a.. i.. c.. | sum v | linear 0".
  }];
  let arguments = (ins Graph_Tensor:$table, Graph_Tensor:$indices, I64Attr:$axis,
                       DefaultValuedAttr<I64Attr, "0">:$start,
                       DefaultValuedAttr<I64Attr, "0">:$batch_dims,
                       DefaultValuedAttr<I64Attr, "-1">:$limit);
  let results = (outs Graph_Tensor:$y);
}

def Graph_ScatterAddOp : Graph_InferredOp<"scatter_add", "custom", [], ["localize", "rankAttributes"]> {
  let summary = "adjoint of gather: zeros of extent `size` along axis, plus updates at indices";
  let description = [{
    indices as in gather, updates like gather's result. `start` and `batch_dims` as in gather.
    Rule: "b.. i.., b.. a.. i.. c.. -> b.. a.. v c.. | sum i.. | linear 1".
  }];
  let arguments = (ins Graph_Tensor:$indices, Graph_Tensor:$updates, I64Attr:$axis, I64Attr:$size,
                       DefaultValuedAttr<I64Attr, "0">:$start,
                       DefaultValuedAttr<I64Attr, "0">:$batch_dims);
  let results = (outs Graph_Tensor:$y);
}

//===--------------------------------------------------------------------------------------------===//
// Micro-batches (Sections.h)
//===--------------------------------------------------------------------------------------------===//

def Graph_MicroRowsOp
    : Graph_InferredOp<"micro_rows", "(m p=parts) d.. -> m d.. | whole p | linear 0", [Graph_Follows]> {
  let summary = "the rows i, i + parts, i + 2 parts, ... of x, for the micro-batch i of `parts`";
  let description = [{
    Rows are those of dimension 0. What depends on the result runs once for each micro-batch.
  }];
  let arguments = (ins Graph_Tensor:$x, I64Attr:$parts);
  let results = (outs Graph_Tensor:$y);
}

def Graph_AccumulateOp
    : Graph_TraitTypedOp<"accumulate", "... -> ... | linear 0",
                         [Graph_Elementwise, SameOperandsAndResultType, Graph_Follows]> {
  let summary = "the sum of x over all micro-batches, in their order";
  let description = [{
    x is computed for each of `parts` micro-batches. The sum is there when the last one is done. Its memory is set to
    zeros before the first one, and x is added in place.
  }];
  let arguments = (ins Graph_Tensor:$x, I64Attr:$parts);
  let results = (outs Graph_Tensor:$y);
}

//===--------------------------------------------------------------------------------------------===//
// Reductions
//===--------------------------------------------------------------------------------------------===//

class Graph_ReduceOp<string mnemonic, string clauses>
    : Graph_InferredOp<mnemonic, "d.. -> {keepdims ? d../dims : d..-dims} | " # clauses, [], ["getFlops"]> {
  let arguments = (ins Graph_Tensor:$x, DenseI64ArrayAttr:$dims, BoolAttr:$keepdims);
  let results = (outs Graph_Tensor:$y);
}
def Graph_ReduceSumOp : Graph_ReduceOp<"reduce_sum", "sum d..[dims] | linear 0"> {
  let summary = "sum over dims (mean is sum times 1/N)";
}
def Graph_ReduceMaxOp : Graph_ReduceOp<"reduce_max", "max d..[dims]"> { let summary = "maximum over dims"; }
def Graph_ReduceMinOp : Graph_ReduceOp<"reduce_min", "min d..[dims]"> { let summary = "minimum over dims"; }

// A plain sum with leaves (docs/adr/0021-equal-bits.md). Localization makes it. It is emitted as a loop, or as part of
// one, whose domain has the leaves as a dimension.
def Graph_LeafSumsOp : Graph_TypedOp<"leaf_sums", "custom"> {
  let summary = "the sums over dims of each of `leaves` equal ranges of dimension dim, one of dims";
  let description = [{
    The result has the leaves in the place of dimension dim; other summed dimensions are dropped:

      leaf_sums x {dims = [0, 2], dim = 0, leaves = 4}: [8, 3, 5] -> [4, 3]
  }];
  let arguments = (ins Graph_Tensor:$x, DenseI64ArrayAttr:$dims, I64Attr:$dim, I64Attr:$leaves);
  let results = (outs Graph_Tensor:$y);
}

def Graph_ArgMaxOp : Graph_InferredOp<"argmax", "d../dim -> {keepdims ? d../dim : d..-dim}"> {
  let summary = "i64 index of the first maximum along dim (which is whole); keepdims";
  let arguments = (ins Graph_Tensor:$x, I64Attr:$dim, BoolAttr:$keepdims);
  let results = (outs Graph_Tensor:$y);
}

def Graph_TopKOp : Graph_InferredOp<"topk", "d../dim -> d../dim"> {
  let summary = "i64 indices of the k largest elements along dim (which is whole), in descending order";
  let description = [{
    `smallest`: of the k smallest, ascending. Of equal elements the one with the lower index comes first; NaN
    counts as larger than any number. The values are a gather with these indices.
  }];
  let arguments = (ins Graph_Tensor:$x, I64Attr:$k, I64Attr:$dim, BoolAttr:$smallest);
  let results = (outs Graph_Tensor:$y);
}

def Graph_OrthonormalizeOp
    : Graph_InferredOp<"orthonormalize", "... n r -> ... n r | whole n r", [], ["getFlops"]> {
  let summary = "columns of matrices that are orthogonal to each other, of length 1";
  let description = [{
    By Gram and Schmidt, from the first column to the last: what is left of a column without its share in those before
    it, divided by its length. So the first j columns span what they spanned before.

    A column of which nothing is left is replaced by a fixed one (runtime/backend/Orthonormalize.h), so that there is
    always a whole basis. Columns for which there is no room (r > n) are 0. A matrix with a number that is not finite
    becomes NaN.
  }];
  let arguments = (ins Graph_Tensor:$x);
  let results = (outs Graph_Tensor:$y);
}

//===--------------------------------------------------------------------------------------------===//
// Contractions
//===--------------------------------------------------------------------------------------------===//

def Graph_MatMulOp
    : Graph_InferredOp<"matmul",
                       "... {transpose_a ? k m : m k}, ... {transpose_b ? n k : k n} -> ... m n | sum k | linear 0 1",
                       [Graph_Products, Graph_AddsLeaves], ["getFlops"]> {
  let summary = "... m k, ... k n -> ... m n, batch dimensions broadcast";
  let description = [{
    With transpose_a the first operand is `... k m`, with transpose_b the second `... n k`.
    With `wide` (as for the convolutions below) operands of 16 bits give a result of f32.
    `leaves` are those of k.
  }];
  let arguments = (ins Graph_Tensor:$a, Graph_Tensor:$b,
                       DefaultValuedAttr<BoolAttr, "false">:$transpose_a,
                       DefaultValuedAttr<BoolAttr, "false">:$transpose_b, UnitAttr:$wide,
                       OptionalAttr<I64Attr>:$leaves);
  let results = (outs Graph_Tensor:$y);
}

// 1 to 3 spatial dimensions. pads = lo of every spatial dimension, then hi of every one (ONNX order); never negative in
// global programs.
def Graph_ConvOp
    : Graph_InferredOp<"conv",
                       "n (g=groups c) hwz.., (g f) c rst.. -> n (g f) hwz.. | sum c "
                       "| whole rst.. | window hwz..:rst.. | linear 0 1",
                       [Graph_Products], ["localize", "getFlops"]> {
  let summary = "cross-correlation: x [n, g*c, h, w], w [g*f, c, r, s] -> y [n, g*f, h', w']";
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$w, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations, I64Attr:$groups,
                       UnitAttr:$wide);
  let results = (outs Graph_Tensor:$y);
}

def Graph_ConvInputGradOp
    : Graph_InferredOp<"conv_input_grad",
                       "n (g=groups f) hwz.., (g f) c rst.. -> n (g c) hwz.. | sum f "
                       "| whole rst.. | window(transposed) hwz..:rst.. | linear 0 1",
                       [Graph_Products], ["localize", "getFlops"]> {
  let summary = "adjoint of conv in x: dy, w -> dx with spatial extents input_sizes";
  let description = [{
    dx[n, c, y] = sum of dy[n, f, j] * w[f, c, r] over j, r, f with y = j * stride - pad_lo + r * dilation; terms
    with y outside [0, input_size) are dropped. pads may exceed what the forward convolution had
    (localisation with halos), pad_hi is not needed and only kept for symmetry. Also ONNX ConvTranspose.
  }];
  let arguments = (ins Graph_Tensor:$dy, Graph_Tensor:$w, DenseI64ArrayAttr:$input_sizes,
                       DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pads,
                       DenseI64ArrayAttr:$dilations, I64Attr:$groups,
                       UnitAttr:$wide);
  let results = (outs Graph_Tensor:$dx);
}

def Graph_ConvWeightGradOp
    : Graph_InferredOp<"conv_weight_grad",
                       "n (g=groups c) hwz.., n (g f) hwz.. -> (g f) c rst.. | sum n hwz.. "
                       "| whole rst.. | window hwz..:rst.. | linear 0 1",
                       [Graph_Products, Graph_AddsLeaves], ["localize", "getFlops"]> {
  let summary = "adjoint of conv in w: x, dy -> dw with spatial extents kernel_sizes";
  let description = [{ `leaves` are those of n. }];
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$dy, DenseI64ArrayAttr:$kernel_sizes,
                       DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pads,
                       DenseI64ArrayAttr:$dilations, I64Attr:$groups,
                       UnitAttr:$wide, OptionalAttr<I64Attr>:$leaves);
  let results = (outs Graph_Tensor:$dw);
}

//===--------------------------------------------------------------------------------------------===//
// Windows
//===--------------------------------------------------------------------------------------------===//

def Graph_MaxPoolOp
    : Graph_InferredOp<"max_pool", "n c hwz.. -> n c hwz.. | window(-inf) hwz..:kernel",
                       [Graph_Follows], ["localize", "getFlops"]> {
  let summary = "maximum over windows of x [n, c, spatial...]; padding never wins";
  let arguments = (ins Graph_Tensor:$x, DenseI64ArrayAttr:$kernel, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations);
  let results = (outs Graph_Tensor:$y);
}

def Graph_MaxPoolGradOp : Graph_TraitTypedOp<"max_pool_grad", "custom", [AllTypesMatch<["x", "dx"]>, Graph_Follows],
                                             ["localize", "getFlops"]> {
  let summary = "x, dy -> dx: each window's dy goes to its first maximum in row-major order";
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$dy, DenseI64ArrayAttr:$kernel,
                       DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pads,
                       DenseI64ArrayAttr:$dilations);
  let results = (outs Graph_Tensor:$dx);
}

def Graph_AvgPoolOp
    : Graph_InferredOp<"avg_pool",
                       "n c hwz.. -> n c hwz.. "
                       "| {include_pad or pads=0 ? window hwz..:kernel : whole hwz..} | linear 0",
                       [Graph_Follows], ["localize", "getFlops"]> {
  let summary = "mean over windows; include_pad: divide by the window's size, else by the elements inside x";
  let arguments = (ins Graph_Tensor:$x, DenseI64ArrayAttr:$kernel, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$pads, BoolAttr:$include_pad);
  let results = (outs Graph_Tensor:$y);
}

def Graph_AvgPoolGradOp
    : Graph_InferredOp<"avg_pool_grad",
                       "n c hwz.. -> n c hwz.. "
                       "| {include_pad or pads=0 ? window(transposed) hwz..:kernel : whole hwz..} | linear 0",
                       [Graph_Follows], ["localize", "getFlops"]> {
  let summary = "adjoint of avg_pool: dy -> dx with spatial extents input_sizes";
  let arguments = (ins Graph_Tensor:$dy, DenseI64ArrayAttr:$input_sizes, DenseI64ArrayAttr:$kernel,
                       DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pads, BoolAttr:$include_pad);
  let results = (outs Graph_Tensor:$dx);
}

//===--------------------------------------------------------------------------------------------===//
// Normalisation
//===--------------------------------------------------------------------------------------------===//

def Graph_SoftmaxOp
    : Graph_TraitTypedOp<"softmax", "d.. -> d.. | stat(max, sum) d..[dim]", [SameOperandsAndResultType]> {
  let summary = "e^x / sum e^x along dim (a stat factor)";
  let arguments = (ins Graph_Tensor:$x, I64Attr:$dim);
  let results = (outs Graph_Tensor:$y);
}
def Graph_SoftmaxGradOp
    : Graph_TraitTypedOp<"softmax_grad", "d.., d.. -> d.. | stat(sum) d..[dim]", [SameOperandsAndResultType]> {
  let summary = "dy, y -> dx = y * (dy - sum(dy * y) along dim)";
  let arguments = (ins Graph_Tensor:$dy, Graph_Tensor:$y, I64Attr:$dim);
  let results = (outs Graph_Tensor:$dx);
}
def Graph_LogSoftmaxOp
    : Graph_TraitTypedOp<"log_softmax", "d.. -> d.. | stat(max, sum) d..[dim]", [SameOperandsAndResultType]> {
  let summary = "x - log sum e^x along dim (a stat factor)";
  let arguments = (ins Graph_Tensor:$x, I64Attr:$dim);
  let results = (outs Graph_Tensor:$y);
}
def Graph_LogSoftmaxGradOp
    : Graph_TraitTypedOp<"log_softmax_grad", "d.., d.. -> d.. | stat(sum) d..[dim]", [SameOperandsAndResultType]> {
  let summary = "dy, y -> dx = dy - e^y * sum(dy) along dim";
  let arguments = (ins Graph_Tensor:$dy, Graph_Tensor:$y, I64Attr:$dim);
  let results = (outs Graph_Tensor:$dx);
}

//===--------------------------------------------------------------------------------------------===//
// Attention
//===--------------------------------------------------------------------------------------------===//

class Graph_AttentionBase<string mnemonic>
    : Graph_InferredOp<mnemonic, "custom", [Graph_Products], ["rankAttributes", "getFlops"]> {
  // The attributes that define the scores, the same in the operator and its gradient.
  dag scoreAttributes = (ins F64Attr:$scale, DefaultValuedAttr<BoolAttr, "false">:$causal,
                             DefaultValuedAttr<F64Attr, "0.0">:$outside,
                             DefaultValuedAttr<I64Attr, "0">:$start,
                             DefaultValuedAttr<BoolAttr, "false">:$rows_first, OptionalAttr<F64Attr>:$keep_scale,
                             UnitAttr:$wide);
  // `more`: the bias, if there is one; then, if there is `keep_scale`, what dropout keeps.
  let extraClassDeclaration = [{
    ::mlir::Value getBias() {
      return getMore().size() > (getKeepScale() ? 1 : 0) ? ::mlir::Value(getMore().front()) : ::mlir::Value();
    }
    ::mlir::Value getKeep() {
      return getKeepScale() && !getMore().empty() ? ::mlir::Value(getMore().back()) : ::mlir::Value();
    }
  }];
}

def Graph_AttentionOp : Graph_AttentionBase<"attention"> {
  let summary = "y = softmax(scores) v, with scores = scale * q k^T + bias, head by head";
  let description = [{
    q [b.., h, m, d], k [b.., u, n, d], v [b.., u, n, e] -> y [b.., h, m, e], where u divides h: the head i of q
    meets the head i * u / h of k and v (grouped queries). With `rows_first` heads stand behind rows, as
    projections leave them: q [b.., m, h, d], k [b.., n, u, d], v [b.., n, u, e] -> y [b.., m, h, e].
    The optional bias broadcasts to [b.., h, m, n] (with `rows_first`, too). Where q, k and v have 16
    bits, scores and exponentials are f32, the bias may be f32, and `wide` makes the result f32, as a product's.
    `causal`: where j > i + start, the product of row i and key j (before the bias) is `outside`. `start` is
    that of the whole tensor in global programs; on a shard of the rows, localisation adds its first row.
    The scores are never in memory as a whole. Rule: "b.. h m d, b.. h n d, b.. h n e -> b.. h m e | whole n d". Where
    h > u, the heads of q are (u g) and those of k and v are u. A cut of e makes every rank compute all scores.
    `keeps_statistics`: the second result [b.., h, m] (with `rows_first`, too) is log sum e^score of each row, for the
    gradient; of the type of the scores. In the rule it is "b.. h m": a cut of e leaves it whole.
    `keep_scale`: the last operand [b.., h, m, n] (with `rows_first`, too) says what dropout keeps of the probabilities,
    true or 1, and what not, false or 0; y = (softmax(scores) * keep * keep_scale) v. Its type is i1 or that of q.
  }];
  let arguments = !con((ins Graph_Tensor:$q, Graph_Tensor:$k, Graph_Tensor:$v, Variadic<Graph_Tensor>:$more),
                       scoreAttributes, (ins UnitAttr:$keeps_statistics));
  let results = (outs Graph_Tensor:$y, Optional<Graph_Tensor>:$statistics);
}

def Graph_AttentionGradOp : Graph_AttentionBase<"attention_grad"> {
  let summary = "dy, q, k, v, y, statistics, bias, keep -> dq, dk, dv; bias and keep have no gradient";
  let description = [{
    y and statistics are what attention made of the other operands. So the probabilities are
    p = e^(scores - statistics), no tensor of the size of the scores is kept, and no row is summed again: dp = dy v^T, ds = p * (dp - sum(dy * y)
    along e), dq = scale * ds k, dk = scale * ds^T q, dv = p^T dy. No gradient goes through pairs that are outside.
    With dropout the p of dv and the dp of ds are multiplied by keep * keep_scale.
    A statistic so large that it tells p too roughly is made again.
    Rule: "b.. h m e, b.. h m d, b.. h n d, b.. h n e, b.. h m e, b.. h m -> b.. h m d, b.. h n d, b.. h n e | sum m
    | whole n d e | linear 0", with (u g) and u as above, and "sum m g": a cut of m cuts dq and leaves dk and dv
    partial.
  }];
  let arguments = !con((ins Graph_Tensor:$dy, Graph_Tensor:$q, Graph_Tensor:$k, Graph_Tensor:$v, Graph_Tensor:$y,
                            Graph_Tensor:$statistics, Variadic<Graph_Tensor>:$more), scoreAttributes);
  let results = (outs Graph_Tensor:$dq, Graph_Tensor:$dk, Graph_Tensor:$dv);
}

// Exists in phases 1 and 2 only: the pass graph-decompose-norms writes it as reductions and elementwise
// operators, so that its statistics are over the global batch under every sharding.
def Graph_BatchNormOp
    : Graph_TraitTypedOp<"batch_norm", "n c ..., c, c -> n c ..., c, c | stat(sum) n ...",
                         [AllTypesMatch<["x", "y"]>, AllTypesMatch<["scale", "mean", "var"]>, Graph_Normalizes]> {
  let summary = "training mode: x, scale, bias -> y, mean, var (biased), over every dimension but 1";
  let arguments = (ins Graph_Tensor:$x, Graph_Tensor:$scale, Graph_Tensor:$bias, F64Attr:$epsilon);
  let results = (outs Graph_Tensor:$y, Graph_Tensor:$mean, Graph_Tensor:$var);
}
def Graph_BatchNormGradOp
    : Graph_TraitTypedOp<"batch_norm_grad", "n c ..., n c ..., c, c, c -> n c ..., c, c | stat(sum) n ...",
                         [AllTypesMatch<["x", "dx"]>, AllTypesMatch<["scale", "dscale", "dbias"]>, Graph_Normalizes]> {
  let summary = "dy, x, scale, mean, var -> dx, dscale, dbias";
  let arguments = (ins Graph_Tensor:$dy, Graph_Tensor:$x, Graph_Tensor:$scale, Graph_Tensor:$mean,
                       Graph_Tensor:$var, F64Attr:$epsilon);
  let results = (outs Graph_Tensor:$dx, Graph_Tensor:$dscale, Graph_Tensor:$dbias);
}

//===--------------------------------------------------------------------------------------------===//
// Phase 5 only
//===--------------------------------------------------------------------------------------------===//

// The body holds elementwise operators, broadcasts and splat constants on the operands. The results may be reductions
// (reduce_sum, reduce_max, reduce_min, leaf_sums) of values of the body. It is emitted as one kernel with an
// Expression. It is made after partitioning, so it needs no sharding rule.
def Graph_YieldOp : Op<Graph_Dialect, "yield", [Pure, Terminator, ParentOneOf<["FusedOp"]>]> {
  let summary = "ends the body of graph.fused";
  let arguments = (ins Variadic<Graph_Tensor>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
}
def Graph_FusedOp : Op<Graph_Dialect, "fused", [Pure, IsolatedFromAbove, SingleBlock]> {
  let summary = "one loop nest over many elementwise operators";
  let arguments = (ins Variadic<Graph_Tensor>:$inputs);
  let results = (outs Variadic<Graph_Tensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "`(` $inputs `)` attr-dict-with-keyword `:` functional-type($inputs, $outputs) $body";
  let hasVerifier = 1;
}

#endif
