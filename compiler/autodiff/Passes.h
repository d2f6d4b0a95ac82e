//===- Passes.h - the passes of compiler/autodiff ------------------------------------------------===//
//
// graph-gradient; Passes.td describes it.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_AUTODIFF_PASSES_H
#define TESSERA_COMPILER_AUTODIFF_PASSES_H

#include "mlir/Pass/Pass.h"

namespace tessera::compiler {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "compiler/autodiff/Passes.h.inc"

} // namespace tessera::compiler

#endif
