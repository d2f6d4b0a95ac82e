// Training steps that the tests of this folder share, made by the compiler's own passes.
#ifndef TESSERA_TEST_UNIT_STRATEGIES_TRAININGPROGRAMS_H
#define TESSERA_TEST_UNIT_STRATEGIES_TRAININGPROGRAMS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>

namespace tessera::strategies {

/// Of all of them.
mlir::MLIRContext &context();

/// As tessera-compile imports a file of test/models and makes a training step of it. `batch`: 0 where the file has one.
mlir::OwningOpRef<mlir::ModuleOp> trainingOf(const std::string &file, int64_t batch, int64_t micros = 1);

/// A product, its gradients and the update, for so many micro-batches. Copies of the weights may expire.
mlir::OwningOpRef<mlir::ModuleOp> withExpiringCopies(int micros);

/// Lets copies of parameters expire, and those of activations, too.
void expireCopies(mlir::ModuleOp module, bool activations = true);

} // namespace tessera::strategies

#endif
