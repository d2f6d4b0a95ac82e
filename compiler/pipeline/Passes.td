//===- Passes.td - the passes of compiler/pipeline -----------------------------------------------===//
#ifndef TESSERA_COMPILER_PIPELINE_PASSES_TD
#define TESSERA_COMPILER_PIPELINE_PASSES_TD

include "mlir/Pass/PassBase.td"

def CutStagesPass : Pass<"dist-cut-stages", "::mlir::ModuleOp"> {
  let summary = "Cuts a local program into the stages of a pipeline, one module per device";
  let description = [{
    Operators, parameters and states carry the number of their stage as `dist.stage`. An operator without one is
    computed wherever it is read. Stage s lies on device s modulo `devices`, or there and back with `returns`. Afterwards
    the module has one module per device, @stage0, @stage1, ..., with the functions of its stages. What crosses devices
    is a `dist.send` and a `dist.receive`. In a program with micro-batches all operators carry their section
    (`graph.section`): the gradients that a stage hands to those before it, with all that they need, are `input`, and the
    rest of its backward pass is `weight`.
  }];
  let options = [
    Option<"stages", "stages", "int64_t", "0", "How many; 0: as many as the operators have">,
    Option<"devices", "devices", "int64_t", "0", "On how many they lie; 0: each on its own">,
    Option<"returns", "returns", "bool", "false", "Two stages on each device, in the shape of a V">
  ];
  let dependentDialects = ["::tessera::dist::DistDialect", "::tessera::graph::GraphDialect"];
}

def ReadStagesPass : Pass<"graph-read-stages", "::mlir::ModuleOp"> {
  let summary = "Gives operators the stages that the Send and Recv of a model file say";
  let description = [{
    The pass runs in mode hybrid, before graph-build-training. Operators of the forward pass get `graph.given_stage`, and
    the reshapes that mark borders go (dialects/graph/GivenStages.h).
  }];
  let options = [
    Option<"stages", "stages", "int64_t", "0", "How many the mesh has; 0: none, and no border may be there">
  ];
  let dependentDialects = ["::tessera::dist::DistDialect", "::tessera::graph::GraphDialect"];
}

#endif
