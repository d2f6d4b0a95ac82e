//===- OperandParts.h - operands that are parts of larger tensors -------------------------------------===//
#ifndef TESSERA_RUNTIME_PLAN_OPERANDPARTS_H
#define TESSERA_RUNTIME_PLAN_OPERANDPARTS_H

namespace tessera::rt {

/// Attribute of a kernel: which parts of its operands it reads (runtime/backend/AttentionGeometry.h). A plan with it
/// needs version 8.
inline constexpr char kOperandParts[] = "operand_parts";

} // namespace tessera::rt

#endif
