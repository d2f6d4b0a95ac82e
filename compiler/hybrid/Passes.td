//===- Passes.td - the passes of compiler/hybrid -------------------------------------------------===//
//
// The passes that only mode hybrid needs, in which the model file is the program of one rank (docs/hybrid.md). The
// importer has given the module its mesh.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_HYBRID_PASSES_TD
#define TESSERA_COMPILER_HYBRID_PASSES_TD

include "mlir/Pass/PassBase.td"

class HybridPass<string name> : Pass<name, "::mlir::ModuleOp"> {
  let dependentDialects = ["::tessera::dist::DistDialect", "::tessera::graph::GraphDialect"];
  let options = [
    Option<"file", "file", "std::string", "\"\"",
           "JSON file that says how batch, inputs, outputs and parameters are cut; none: the axis 'data' cuts the "
           "batch">,
  ];
}

def HybridAnnotatePass : HybridPass<"hybrid-annotate"> {
  let summary = "Adds the sharding of every argument of a per-rank program";
  let description = [{
    The pass runs before graph-build-training, which reads dist.sharding of parameters. Where random numbers are
    combined with data that differ between ranks, each rank gets its part of the numbers of the unpartitioned program.
  }];
}

def HybridCompletePass : HybridPass<"hybrid-complete"> {
  let summary = "Combines the results of a per-rank program over all ranks, and adds global shapes";
  let description = [{
    The pass runs after graph-build-training. Loss and counts become those of all ranks, running statistics become equal
    on all ranks, and arguments and results get their global shapes. Then the module is in phase 5 (local).
  }];
}

#endif
