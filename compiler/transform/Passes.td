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
    Stands before differentiation: behind it the gradient reads the scores, too. In `@forward` only what has no other
    trained operand than q, k and v is fused. compiler/transform/FuseAttention.cpp shows the pattern and says what is
    left as it is.
  }];
  let options = [
    ListOption<"keep", "keep", "std::string", "Names of operators that stay as they are">,
  ];
}

def LowerPrecisionPass : GraphPass<"graph-lower-precision"> {
  let summary = "Gives products and what lies between them 16-bit operands";
  let description = [{
    Sums, statistics, losses and the optimizer stay in float32. Stands before graph-decompose-norms, which would hide
    from it what belongs to a normalisation.
  }];
  let options = [
    Option<"type", "type", "std::string", "\"bf16\"", "bf16 or f16">,
  ];
}

def DecomposeNormsPass : GraphPass<"graph-decompose-norms"> {
  let summary = "Writes batch_norm and batch_norm_grad as reductions and elementwise operators";
  let description = [{
    The reductions are over the global tensor, so statistics are over the global batch under every sharding.
    compiler/transform/DecomposeNorms.cpp has the formulas.
  }];
}

def SimplifyPass : GraphPass<"graph-simplify"> {
  let summary = "Merges operators that compute the same and removes unused ones";
  let description = [{
    Names do not count: of two equal operators the first one stays. Stands behind the passes that make operators, which
    may therefore repeat themselves.
  }];
}

def IndexLimitsPass : GraphPass<"graph-index-limits"> {
  let summary = "Notes on inputs and targets of which values they may be";
  let description = [{
    A token outside the vocabulary gives a row of zeros. The pass follows an input to the tables that it indexes and
    writes `graph.id_limit` on the argument: the smallest table's number of entries. The plan says it to the runtime,
    which refuses data beyond it.
  }];
}

def RecomputePass : GraphPass<"graph-recompute"> {
  let summary = "Makes forward values again for the backward half instead of keeping them";
  let description = [{
    Stands behind graph-simplify, which would merge the copies with the originals. `cheap` makes again what elementwise
    operators make, `full` also whole segments of the forward half, `none` nothing. compiler/transform/Recompute.cpp
    says where segments begin and end.

    ```
    tessera-opt --graph-recompute="level=full segments=0,2" step.mlir
    ```
  }];
  let options = [
    Option<"level", "level", "std::string", "\"full\"", "none, cheap or full">,
    ListOption<"segments", "segments", "int64_t", "Of the level full, only these (from 0); none: all">,
  ];
}

def VerifyImportedPass : Pass<"graph-verify-imported", "::mlir::ModuleOp"> {
  let summary = "Checks what holds at the end of phase 1";
  let description = [{
    There is `@infer`, and nothing but it and `@forward`. A function is one block of operators on tensors of static
    shape. Every argument has a role (input, parameter, state, in `@forward` also step) and a name that no other
    argument of its role has; every result is an output or the new value of exactly one state, of the same type.
    `@infer` updates nothing.
  }];
}

def VerifyTrainingPass : Pass<"graph-verify-training", "::mlir::ModuleOp"> {
  let summary = "Checks what holds at the end of phase 2";
  let description = [{
    `@forward` is gone, and no normalisation is left whole. What an argument or a result must have is as in phase 1,
    with the roles that training adds; `@train` begins with the step, returns exactly one loss, and whatever it updates
    is a parameter or a state. A parameter or state that several functions have is of one type.
  }];
}

#endif
