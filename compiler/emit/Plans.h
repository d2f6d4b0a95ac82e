//===- Plans.h - the plans as messages -----------------------------------------------------------===//
#ifndef TESSERA_COMPILER_EMIT_PLANS_H
#define TESSERA_COMPILER_EMIT_PLANS_H

#include "compiler/emit/Emit.h"

#include "runtime/plan/plan.pb.h"

namespace tessera::compiler {

/// One plan per rank of the module's mesh. plan_id is empty. Each plan has passed the plan checker.
llvm::Expected<std::vector<plan::Plan>> buildPlans(mlir::ModuleOp local, const EmitOptions &options,
                                                   MemoryReport *report = nullptr);

} // namespace tessera::compiler

#endif
