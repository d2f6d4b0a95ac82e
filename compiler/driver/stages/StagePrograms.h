//===- StagePrograms.h - the model with every number of micro-batches that is tried ----------------===//
//
// A batch in another number of micro-batches is another program. It is made when it is first asked for, or several are
// made side by side.
//
//   StagePrograms programs(run);
//   Error e = programs.make({4, 8, 16});
//   for (int64_t parts : *programs.microBatches())
//     programs.atLeast(stages, parts, ranks);                 // no step is shorter
//
// This header is private to the driver.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_COMPILER_DRIVER_STAGES_STAGEPROGRAMS_H
#define TESSERA_COMPILER_DRIVER_STAGES_STAGEPROGRAMS_H

#include "compiler/driver/Compilation.h"

#include "mlir/IR/OwningOpRef.h"

#include <map>

namespace tessera {

/// A program with the recomputation of a trial.
struct TriedProgram {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  strategies::Program step; // its first function
};

struct StageProgram {
  mlir::OwningOpRef<mlir::ModuleOp> module;   // in phase 2
  std::vector<TriedProgram> tried;            // the next if none fits
  std::string error;                          // why there is none
  strategies::Cost kernels = 0, launches = 0; // of a step on one rank without launches, and these
  strategies::Cost longest = 0;               // of the kernels, what must lie in one stage
};

/// The schedules that are tried for stages; all but the first have several stages on a rank.
extern const std::vector<std::string> kTriedSchedules;

class StagePrograms {
public:
  explicit StagePrograms(Compilation &run) : run_(run) {}

  /// Makes the programs with these numbers of micro-batches.
  llvm::Error make(llvm::ArrayRef<int64_t> numbers);
  /// The program; one with an error if the model cannot be cut so.
  llvm::Expected<StageProgram *> of(int64_t parts);
  /// Makes `tried`: what --recompute says; of "auto" first nothing is computed again, and where nothing fits so, all.
  llvm::Error computeAgain(StageProgram &program);
  /// The numbers of micro-batches: the one that is given, or those that divide the batch.
  llvm::Expected<std::vector<int64_t>> microBatches();
  /// The most stages into which the model can be cut. Requires microBatches().
  int64_t mostStages() const { return mostStages_; }
  /// The rows of a batch, where the number of micro-batches is chosen; else 0.
  int64_t rows() const { return rows_; }
  /// What kernels take if they are divided evenly, but for what must lie in one stage, and nothing is sent. The last
  /// place waits until the first micro-batch has come through the forward passes before it. kForbidden: there is no
  /// such program.
  llvm::Expected<strategies::Cost> atLeast(int64_t stages, int64_t parts, int64_t ranks);

private:
  llvm::Error make(int64_t parts, StageProgram &program) const;
  llvm::Error priceKernels(StageProgram &program) const;

  Compilation &run_;
  std::map<int64_t, StageProgram> programs_; // by micro-batches
  int64_t mostStages_ = 1, rows_ = 0;
};

} // namespace tessera

#endif
