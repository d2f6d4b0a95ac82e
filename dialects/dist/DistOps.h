//===- DistOps.h - reshards and collectives as operations -------------------------------------===//
//
// See DistOps.td. The algebra behind them is in Reshard.h.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_DIALECTS_DIST_DISTOPS_H
#define TESSERA_DIALECTS_DIST_DISTOPS_H

#include "dialects/dist/DistDialect.h"
#include "dialects/dist/Reshard.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace tessera::dist {
/// The axis of a pipeline's mesh along which its stages lie. The meshes of modules do not have it.
inline constexpr llvm::StringLiteral kStageAxis = "stage";
} // namespace tessera::dist

#define GET_OP_CLASSES
#include "dialects/dist/DistOps.h.inc"

#endif
