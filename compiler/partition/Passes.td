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
  let summary = "Decomposes operators whose statistics a strategy cuts";
  let description = [{
    A softmax whose dimension is cut needs the maximum and the sum over all ranks. The pass writes it as reductions and
    elementwise operators. The results of the reductions are partial, and reshards reduce them like any others.
  }];
}

def VerifyAnnotatedPass : PartitionPass<"dist-verify-annotated"> {
  let summary = "Checks what holds at the end of phase 3";
  let description = [{
    Every operator with a rule has a strategy that the rule allows. Every argument and result of a function has a
    sharding that its shape allows. No strategy cuts a statistic.
  }];
}

def InsertReshardsPass : PartitionPass<"dist-insert-reshards"> {
  let summary = "Inserts a dist.reshard for every change of sharding";
  let description = [{
    Afterwards every operand has the sharding that its reader expects. Readers that expect the same sharding of a value
    share one reshard.
  }];
}

def VerifyReshardedPass : PartitionPass<"dist-verify-resharded"> {
  let summary = "Checks what holds at the end of phase 4";
  let description = [{
    Every operand has the sharding that its reader expects, and no reshard makes a tensor partial.
  }];
}

def LocalizePass : PartitionPass<"dist-localize"> {
  let summary = "Replaces global types by those of one rank, and reshards by collectives";
  let description = [{
    Every operator becomes the part that one rank computes. Where a window reaches beyond the edge of a block, a halo
    exchange before the operator gets the neighbours' rows. A reshard becomes the cheapest sequence of collectives
    (dialects/dist/Reshard.h). A sum that is to send its terms in fewer bits (`graph.sent_as`) becomes an all-to-all of
    them, an addition and, where all ranks want it, an all-gather, and the function gets states for what rounding leaves
    (NarrowSums.h). One that is to be sent as factors becomes two all-reduces and products (FactorSums.h).
  }];
}

def VerifyLocalPass : PartitionPass<"dist-verify-local"> {
  let summary = "Checks what holds at the end of phase 5";
  let description = [{
    The program has no reshard, all values are tensors of static shape, and functions return the types of their
    signature.
  }];
}

def OptimizeCollectivesPass : PartitionPass<"dist-optimize-collectives"> {
  let summary = "Shares, merges and drops collectives";
  let description = [{
    Of equal collectives one is kept, and unused ones are erased. An all-reduce of which each rank reads only its block
    becomes a reduce-scatter.
  }];
}

def NarrowProductsPass : PartitionPass<"graph-narrow-products"> {
  let summary = "Lets products store in 16 bits what is rounded before it is read";
  let description = [{
    Where conversions that graph-round-products has marked (`graph.rounds`) are all that reads the float32 sum of a
    product, the product stores their type, and they are gone. Where a collective reads the sum, it stays, and the loop
    around the conversion rounds.
  }];
}

def MarkPartsPass : PartitionPass<"graph-mark-parts"> {
  let summary = "Lets attention read queries, keys and values where a projection has left them side by side";
  let description = [{
    Marks slices whose readers all can read a part of a larger tensor (`graph.read_as_part`): they are no kernels, and
    their operand lives in their place. A slice of rows that become rows of heads is written as a slice of heads.
    dialects/graph/OperandParts.h says which readers can.
  }];
}

def JoinCollectivesPass : PartitionPass<"dist-join-collectives"> {
  let summary = "Chooses which collectives are sent as one message, and which run beside kernels";
  let description = [{
    All-reduces of one group, reduction and element type that are sent as one message get the same number as attribute
    `dist.message`. graph-schedule puts them behind each other, and the emitted plan lays their operands side by side.
    dialects/graph/flow/Messages.h says which are joined. tessera-compile chooses by its cost model; by itself the pass fills
    messages up to a size.

    If tessera-compile lets collectives run beside kernels (strategies/overlap/Overlap.h), those get the attribute
    `dist.beside`, and every operator gets its turn in the order of execution as `graph.turn`. Every operator also gets
    the time that the cost model predicts for one run of it, as `graph.predicted_ns`.
  }];
  let options = [Option<"most", "most", "int64_t", "1 << 26", "Bytes of a joined message at most">];
}

def FusePass : PartitionPass<"graph-fuse"> {
  let summary = "Fuses elementwise operators and reductions into loop nests";
  let description = [{
    A value that only its own loop nest reads is never in memory. dialects/graph/flow/Fusion.h says which operators share a
    loop nest.
  }];
}

def SchedulePass : PartitionPass<"graph-schedule"> {
  let summary = "Orders a local program so that less memory is live, or as its turns say";
  let description = [{
    The order is the program's own, except that an operator that frees at least as much memory as it allocates runs as
    soon as it can (dialects/graph/flow/Order.h). Conversions of parameters and states to fewer bytes come first, as
    neighbours that a device runs at once, if the program needs no more memory so. Where operators have turns
    (`graph.turn`), they run by turn, and the pass takes the turns away.
  }];
}

def AddStartProgramPass : PartitionPass<"dist-add-start-program"> {
  let summary = "Adds @start, which makes equal copies equal before the first step";
  let description = [{
    `@start` sends every parameter and state that several ranks hold from the first of them to the others. The pass adds
    no `@start` if no two ranks hold the same block. The module must be in phase 5.
  }];
}

#endif
