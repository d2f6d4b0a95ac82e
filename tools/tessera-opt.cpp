//===- tessera-opt.cpp - runs passes on text -----------------------------------------------------===//
//
//   tessera-opt --graph-decompose-norms --canonicalize --cse network.mlir
//
// mlir-opt with Tessera's dialects and passes; what the lit tests run.
//
//===----------------------------------------------------------------------------------------------===//
#include "compiler/autodiff/Passes.h"
#include "compiler/hybrid/Passes.h"
#include "compiler/partition/Passes.h"
#include "compiler/pipeline/Passes.h"
#include "compiler/training/Passes.h"
#include "compiler/transform/Passes.h"
#include "dialects/dist/DistDialect.h"
#include "dialects/graph/Graph.h"
#include "strategies/modes/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<mlir::func::FuncDialect, tessera::dist::DistDialect, tessera::graph::GraphDialect>();
  mlir::registerTransformsPasses();
  tessera::compiler::registerAutodiffPasses();
  tessera::compiler::registerTrainingPasses();
  tessera::compiler::registerTransformPasses();
  tessera::compiler::registerPartitionPasses();
  tessera::compiler::registerPartitionPipelines();
  tessera::compiler::registerHybridPasses();
  tessera::compiler::registerPipelinePasses();
  tessera::strategies::registerAssignPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "Tessera's pass driver\n", registry));
}
