//===- Passes.h - the passes of compiler/hybrid --------------------------------------------------===//
//
// hybrid-annotate and hybrid-complete; Passes.td describes them, docs/hybrid.md what they are for.
//
//   tessera-opt --hybrid-annotate="file=mlp.json" --graph-build-training --hybrid-complete="file=mlp.json" mlp.mlir
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_HYBRID_PASSES_H
#define TESSERA_COMPILER_HYBRID_PASSES_H

#include "compiler/hybrid/HybridOptions.h"

#include "mlir/Pass/Pass.h"

namespace tessera::compiler {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "compiler/hybrid/Passes.h.inc"

/// The same passes with options that were read before.
std::unique_ptr<mlir::Pass> createHybridAnnotatePass(HybridOptions options);
std::unique_ptr<mlir::Pass> createHybridCompletePass(HybridOptions options);

} // namespace tessera::compiler

#endif
