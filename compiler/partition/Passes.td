//===- Passes.td - the passes of compiler/partition ----------------------------------------------===//
//
// Phases 3 (annotated), 4 (resharded) and 5 (local); Passes.h shows which pass stands between which.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_PARTITION_PASSES_TD
#define TESSERA_COMPILER_PARTITION_PASSES_TD

include "mlir/Pass/PassBase.td"

class PartitionPass<string name> : Pass<name, "::mlir::ModuleOp"> {
  let dependentDialects = ["::tessera::dist::DistDialect", "::tessera::graph::GraphDialect"];
}

def DecomposeStatsPass : PartitionPass<"dist-decompose-stats"> {
  let summary = "Writes operators whose statistics a strategy cuts as primitives";
  let description = [{
    A softmax whose dimension is cut needs the maximum and the sum over all ranks. As reductions and elementwise
    operators these are partial results, which resharding pays like any others.
  }];
}

def VerifyAnnotatedPass : PartitionPass<"dist-verify-annotated"> {
  let summary = "Checks what holds at the end of phase 3";
  let description = [{
    Every operator with a rule has a strategy that the rule allows, every argument and result of a function a sharding
    that its shape allows.
  }];
}

def InsertReshardsPass : PartitionPass<"dist-insert-reshards"> {
  let summary = "States every change of sharding as a dist.reshard";
  let description = [{
    Afterwards the sharding of a value is what its reader expects. Equal reshards of a value are one.
  }];
}

def VerifyReshardedPass : PartitionPass<"dist-verify-resharded"> {
  let summary = "Checks what holds at the end of phase 4";
  let description = [{
    Every operand has the sharding that its reader expects, and no reshard makes a sum that is owed.
  }];
}

def LocalizePass : PartitionPass<"dist-localize"> {
  let summary = "Makes types one rank's and reshards collectives";
  let description = [{
    An operator becomes what one rank computes of it; where a window reaches over the edge of a slice, its neighbours'
    rows are fetched before. A reshard becomes the cheapest sequence of collectives (dialects/dist/Reshard.h).
  }];
}

def VerifyLocalPass : PartitionPass<"dist-verify-local"> {
  let summary = "Checks what holds at the end of phase 5";
  let description = [{
    No reshard is left, all values are tensors of static shape, and functions return the types that they say.
  }];
}

def OptimizeCollectivesPass : PartitionPass<"dist-optimize-collectives"> {
  let summary = "Shares, merges and drops collectives";
  let description = [{
    Of equal collectives one is left, unused ones go, and an all-reduce of which a rank only reads its slice becomes a
    reduce-scatter.
  }];
}

def FusePass : PartitionPass<"graph-fuse"> {
  let summary = "Fuses elementwise operators and reductions into loop nests";
  let description = [{
    What a loop nest makes and nothing else reads is never in memory. dialects/graph/Fusion.h says what goes
    together.
  }];
}

def SchedulePass : PartitionPass<"graph-schedule"> {
  let summary = "Orders a local program so that less memory is live";
  let description = [{
    The program's own order, except that what makes no more memory live than it frees runs as soon as it can.
  }];
}

def AddStartProgramPass : PartitionPass<"dist-add-start-program"> {
  let summary = "Adds @start, which makes equal copies equal before the first step";
  let description = [{
    `@start` sends every parameter and state that several ranks hold from the first of them to the others. There is
    none if every rank holds what no other has. The module is in phase 5.
  }];
}

#endif
