//===- Passes.td - the passes of compiler/training -----------------------------------------------===//
#ifndef TESSERA_COMPILER_TRAINING_PASSES_TD
#define TESSERA_COMPILER_TRAINING_PASSES_TD

include "mlir/Pass/PassBase.td"

// The defaults are also those of tessera-compile, which passes its options on unchanged.
def BuildTrainingPass : Pass<"graph-build-training", "::mlir::ModuleOp"> {
  let summary = "Builds @train and @eval from @forward and @infer: loss, gradients, optimizer";
  let description = [{
    `@forward` is consumed, `@infer` is kept. compiler/training/Training.h says which arguments and results the new
    functions have, compiler/training/TrainingOptions.h how loss, optimizer, schedule and loss scale are written.

    ```
    tessera-opt --graph-build-training="loss=cross_entropy optimizer=sgd:lr=0.1,momentum=0.9" network.mlir
    ```
  }];
  let dependentDialects = ["::tessera::dist::DistDialect", "::tessera::graph::GraphDialect"];
  let options = [
    Option<"loss", "loss", "std::string", "\"cross_entropy\"", "NAME:key=value,...">,
    Option<"optimizer", "optimizer", "std::string", "\"sgd:lr=0.01\"", "NAME:key=value,...">,
    Option<"schedule", "schedule", "std::string", "\"constant\"", "NAME:key=value,...">,
    Option<"clipNorm", "clip-norm", "double", "0", "Limit of the global gradient norm; 0: none">,
    Option<"lossScale", "loss-scale", "std::string", "\"\"",
           "none, static:scale=X or dynamic[:key=value,...]; empty: none">,
    Option<"auxOutputs", "aux", "std::string", "\"\"", "Outputs that are added to the loss: OUTPUT=COEFFICIENT,...">,
    Option<"compress", "compress", "std::string", "\"\"",
           "In what the terms of the gradients' sums over ranks may be sent: bf16, f16, int8[:block=N] or "
           "powersgd[:rank=R]; empty: as they are">,
    Option<"accumulate", "accumulate", "int64_t", "1", "Micro-batches per step">,
    Option<"gradientScale", "gradient-scale", "double", "1", "The gradients are those of the loss times this">,
    Option<"perRank", "per-rank", "bool", "false",
           "The program is that of one rank of the module's mesh: gradients are summed over the ranks that hold the "
           "same slice of their parameter">,
  ];
}

#endif
