//===- Passes.td - the passes of compiler/pipeline -----------------------------------------------===//
#ifndef TESSERA_COMPILER_PIPELINE_PASSES_TD
#define TESSERA_COMPILER_PIPELINE_PASSES_TD

include "mlir/Pass/PassBase.td"

def CutStagesPass : Pass<"dist-cut-stages", "::mlir::ModuleOp"> {
  let summary = "Cuts a local program into one module per stage of a pipeline";
  let description = [{
    Operators, parameters and states carry the number of their stage as `dist.stage`. An operator without one is
    computed in every stage that reads it. Afterwards the module has one module per stage, @stage0, @stage1, ..., with
    the functions of that stage. What crosses stages is a `dist.send` and a `dist.receive`. In a program with
    micro-batches all operators carry their section (`graph.section`): the gradients that a stage sends to those before
    it, with all that they need, are `input`, and the rest of its backward pass is `weight`.
  }];
  let options = [Option<"stages", "stages", "int64_t", "0", "How many; 0: as many as the operators have">];
  let dependentDialects = ["::tessera::dist::DistDialect", "::tessera::graph::GraphDialect"];
}

#endif
