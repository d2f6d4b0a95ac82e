//===- Passes.h - the passes of compiler/autodiff ----------------------------------------------------===//
//
//   graph-gradient          in a function (option `function`) whose result 0 is a number: appends
//                           its gradients by the arguments `wrt` (default: every one of floating
//                           point) as results
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_AUTODIFF_PASSES_H
#define TESSERA_COMPILER_AUTODIFF_PASSES_H

namespace tessera::compiler {

/// Makes the passes known by name.
void registerAutodiffPasses();

} // namespace tessera::compiler

#endif
