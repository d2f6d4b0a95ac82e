//===- Passes.h - the passes of compiler/pipeline ----------------------------------------------------===//
//
// graph-read-stages and dist-cut-stages; Passes.td describes them.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_PIPELINE_PASSES_H
#define TESSERA_COMPILER_PIPELINE_PASSES_H

#include "dialects/dist/DistDialect.h"
#include "dialects/graph/Graph.h"

#include "mlir/Pass/Pass.h"

namespace tessera::compiler {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "compiler/pipeline/Passes.h.inc"

} // namespace tessera::compiler

#endif
