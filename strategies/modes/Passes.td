//===- Passes.td - assignment as a pass ----------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_MODES_PASSES_TD
#define TESSERA_STRATEGIES_MODES_PASSES_TD

include "mlir/Pass/PassBase.td"

// The defaults here are those of tessera-compile, which hands its options on as they are.
def AssignStrategiesPass : Pass<"assign-strategies", "::mlir::ModuleOp"> {
  let summary = "Gives every operator a strategy and every argument and result a sharding";
  let description = [{
    The pass leads from phase 2 to phase 3. strategies/modes/Assign.h describes the modes.

    ```
    tessera-opt --assign-strategies="mesh=data=2,model=2 mode=semi-auto strategy=fc.json" step.mlir
    ```
  }];
  let dependentDialects = ["::tessera::dist::DistDialect"];
  let options = [
    Option<"mesh", "mesh", "std::string", "\"1\"", "Named axes, major to minor: data=2,model=2; or a number of ranks">,
    Option<"mode", "mode", "std::string", "\"data\"", "data, semi-auto or auto">,
    Option<"strategy", "strategy", "std::string", "\"\"",
           "JSON file with strategies for some operators, or with a saved assignment">,
    Option<"topology", "topology", "std::string", "\"cpu\"", "A preset, several of one (16x8xh100), or a JSON file">,
    Option<"profile", "profile", "std::string", "\"\"", "JSON file with measured kernel times">,
    Option<"memory", "memory", "std::string", "\"\"", "Per rank, such as 16GiB; empty: the topology's">,
    Option<"fusion", "fusion", "std::string", "\"auto\"",
           "Which collectives are sent as one message: auto, off, or the size of a message, such as 25MiB">,
    Option<"overlap", "overlap", "std::string", "\"auto\"",
           "Whether collectives run beside kernels: auto, on or off">,
    Option<"searchBudget", "search-budget", "double", "AssignOptions().searchWork",
           "Effort of the search in 1e9 steps: roughly seconds, but the same result each time">,
    Option<"searchGap", "search-gap", "double", "AssignOptions().searchGap",
           "The search also ends at this relative distance to its proven bound">,
    Option<"splitGroups", "split-groups", "bool", "false",
           "What may follow another operator may also choose for itself">,
    Option<"searchThreads", "search-threads", "int", "AssignOptions().searchThreads", "Threads of the search's random part: the answer may depend on their number">,
    Option<"searcher", "searcher", "std::string", "\"\"", "Which searcher mode auto uses; empty: the default one">,
    Option<"dumpGraph", "dump-strategy-graph", "std::string", "\"\"",
           "File for the search problem of mode auto; gzip if its name ends in .gz">,
  ];
}

#endif
