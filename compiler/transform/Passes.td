//===- Passes.td - the passes of compiler/transform ----------------------------------------------===//
#ifndef TESSERA_COMPILER_TRANSFORM_PASSES_TD
#define TESSERA_COMPILER_TRANSFORM_PASSES_TD

include "mlir/Pass/PassBase.td"

class GraphPass<string name> : Pass<name, "::mlir::func::FuncOp"> {
  let dependentDialects = ["::tessera::graph::GraphDialect"];
}

def FuseAttentionPass : GraphPass<"graph-fuse-attention"> {
  let summary = "Writes two products with a softmax between as graph.attention";
  let description = [{
    The pass runs before differentiation, because the gradient reads the scores, too. In `@forward` it fuses only
    attention whose bias is not trained. compiler/transform/FuseAttention.cpp shows the pattern and says what the pass
    does not fuse.
  }];
  let options = [
    ListOption<"keep", "keep", "std::string", "Names of operators that stay as they are">,
  ];
}

def LowerPrecisionPass : GraphPass<"graph-lower-precision"> {
  let summary = "Gives products and what lies between them 16-bit operands";
  let description = [{
    Sums, statistics, losses and the optimizer stay in float32. The pass runs before graph-decompose-norms, because it
    treats a normalisation as a whole.
  }];
  let options = [
    Option<"type", "type", "std::string", "\"bf16\"", "bf16 or f16">,
    Option<"products", "products", "std::string", "\"wide\"",
           "wide: they store float32 sums; narrow: the type, where another product depends on them">,
  ];
}

def DecomposeNormsPass : GraphPass<"graph-decompose-norms"> {
  let summary = "Writes batch_norm, log_softmax and their gradients as reductions and elementwise operators";
  let description = [{
    The reductions are over the global tensor, so statistics are those of the whole tensor under every sharding.
    compiler/transform/DecomposeNorms.cpp has the formulas.
  }];
}

def JoinPadsPass : GraphPass<"graph-join-pads"> {
  let summary = "Writes sums of blocks in their places as concatenations";
  let description = [{
    The gradients of slices of one tensor are such blocks. The pass leaves the operators that nobody reads any more to
    graph-simplify. It runs before graph-lower-precision, so that a concatenation has 16 bits where its readers have.
  }];
}

def SimplifyPass : GraphPass<"graph-simplify"> {
  let summary = "Merges operators that compute the same and removes unused ones";
  let description = [{
    Two operators that differ only in their names are equal, and the first one stays. The pass runs after the passes
    that build operators, so that these may build the same operator more than once.
  }];
}

def RoundProductsPass : GraphPass<"graph-round-products"> {
  let summary = "Marks conversions of products' sums that round inside of loops, too";
  let description = [{
    A product of 16-bit operands sums in float32 and hands the sum on. Where all readers of a sum convert it to the
    operands' type, and the loops of dialects/graph/flow/Fusion.h would store the conversions, or what rounding them first
    does not change (`graph::roundsAlike`), the conversions get the attribute `graph.rounds`. What memory holds is the
    same. Sums that a loop makes beside it are sums of rounded numbers then.

    The pass sees the whole program, so that the places of rounding do not depend on a mesh. It runs after
    graph-simplify, which leaves the operators that loops are made of.
  }];
}

def RepeatPass : GraphPass<"graph-repeat"> {
  let summary = "Lets loops compute values again that it would cost more to read";
  let description = [{
    A loop (dialects/graph/flow/Fusion.h) that reads what another loop makes gets copies of the operators that make it, with
    the attribute `graph.repeats`, if it reads their operands anyway, or if one value in place of others saves bytes.
    Such copies are free: every loop that reads them computes them. The pass runs after graph-simplify, which would merge
    the copies with the originals, and before graph-round-products, which looks at what memory holds.

    In a stage of a pipeline a backward pass computes again what the forward pass of its micro-batch made, and what nothing
    reads any longer is removed.
  }];
}

def IndexLimitsPass : GraphPass<"graph-index-limits"> {
  let summary = "Writes on inputs and targets the limit of their values";
  let description = [{
    A token outside the vocabulary gives a row of zeros. The pass follows an input to the tables that it indexes and
    writes `graph.id_limit` on the argument: the number of entries of the smallest table. The plan hands it to the
    runtime, which refuses data outside the limit.
  }];
}

def RecomputePass : GraphPass<"graph-recompute"> {
  let summary = "Recomputes forward values for the backward half instead of keeping them";
  let description = [{
    The pass runs after graph-simplify, which would merge the copies with the originals. `cheap` recomputes results of
    elementwise operators, `full` whole segments of the forward half, `none` nothing. compiler/transform/Recompute.cpp
    says where segments begin and end.

    ```
    tessera-opt --graph-recompute="level=full segments=0,2" step.mlir
    ```
  }];
  let options = [
    Option<"level", "level", "std::string", "\"full\"", "none, cheap or full">,
    ListOption<"segments", "segments", "int64_t", "Of the level full, only these (from 0); none: all">,
    Option<"stages", "stages", "int64_t", "1", "Of the level full: as many segments, or a multiple">,
  ];
}

def ExpireCopiesPass : GraphPass<"graph-expire-copies"> {
  let summary = "Lets copies end with the half of a step that reads them";
  let description = [{
    What both halves read of a parameter, or several micro-batches, goes through views: one that a strategy may hand on
    gathered, as a copy for all, and one for each half. Where no copy is kept, each half has its own, and makes it for
    each micro-batch. With `activations`, what both halves read of an activation, the backward half reads through a view
    of its own, so that no copy of it lives between the halves. The pass runs where a program does not fit the memory
    otherwise, after graph-simplify, which would merge the views. compiler/transform/ExpireCopies.cpp says which values it takes.
  }];
  let options = [
    Option<"activations", "activations", "bool", "false", "Copies of activations end, too">,
  ];
}

def VerifyImportedPass : Pass<"graph-verify-imported", "::mlir::ModuleOp"> {
  let summary = "Checks what holds at the end of phase 1";
  let description = [{
    The module has `@infer` and may have `@forward`, and no other function. A function is one block of operators on
    tensors of static shape. Every argument has a role (input, parameter, state, in `@forward` also step) and a name
    that no other argument of its role has; every result is an output or the new value of exactly one state, of the same
    type. `@infer` updates nothing.
  }];
}

def VerifyTrainingPass : Pass<"graph-verify-training", "::mlir::ModuleOp"> {
  let summary = "Checks what holds at the end of phase 2";
  let description = [{
    The module has no `@forward` and no normalisation that is not decomposed. Arguments and results are as in phase 1,
    with the roles that training adds. The first argument of `@train` is the step. `@train` returns exactly one loss,
    and updates only parameters and states. A parameter or state that several functions have has the same type in all.
  }];
}

#endif
