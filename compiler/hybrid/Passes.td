//===- Passes.td - the passes of compiler/hybrid -------------------------------------------------===//
//
// What a program that is one rank's needs besides the others' passes (docs/hybrid.md). The module has its mesh from the
// importer.
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
  let summary = "Says how every argument of a per-rank program is cut";
  let description = [{
    Stands before graph-build-training, which reads dist.sharding of parameters. Random numbers get their place in the
    whole program's where the data that they meet differ between ranks.
  }];
}

def HybridCompletePass : HybridPass<"hybrid-complete"> {
  let summary = "Ties a per-rank program to the outside";
  let description = [{
    Stands behind graph-build-training. Loss and counts become those of all ranks, running statistics one value, and
    arguments and results get their whole shapes. Afterwards the module is in phase 5 (local).
  }];
}

#endif
