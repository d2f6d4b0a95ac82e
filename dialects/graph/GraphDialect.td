#ifndef TESSERA_GRAPH_DIALECT_TD
#define TESSERA_GRAPH_DIALECT_TD

include "mlir/IR/OpBase.td"

def Graph_Dialect : Dialect {
  let name = "graph";
  let cppNamespace = "::tessera::graph";
  let summary = "What is computed, on global tensors";
  let description = [{
    Primitive operators of dataflow programs. Values are ranked tensors of static shape; there is no
    memory, no order but data dependence and no side effect. Every operator carries its sharding
    rule (see dialects/dist/ShardingRule.h); everything that distributes a program derives from it.

    A program is a `func.func`: `@train`, `@eval` or `@infer`. Arguments carry
    `graph.role` ("input", "target", "step", "parameter", "state"), `graph.name` and, where the
    program computes a new value for it, `graph.update = i` (the index of that result). A state
    carries `graph.fill` (its initial value) unless the weights hold it. Results carry `graph.role`
    ("output", "loss", "correct", "predictions", "update") and `graph.name`.

    An operator that stems from the model file carries the discardable attribute `graph.name` (the
    node's name); one that belongs to the gradient of a named operator also `graph.grad_of`.
  }];
}

#endif
