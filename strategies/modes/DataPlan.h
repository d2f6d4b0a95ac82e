//===- DataPlan.h - plain data parallelism beside a search -------------------------------------------===//
//
// A search never leaves out plain data parallelism, and its answer is held against the plan of it. Neither how that
// lies nor what it costs depends on the search. So another thread finds out, where one has nothing else to do.
//
//   DataPlan data(function, options, prices, shared);
//   ... data.lies()                                       // where the problem is stated
//   data.beginPricing();
//   ...                                                   // the problem is solved, without a cost model
//   data.endPricing();
//   data.priceIfShorter(planned.predicted())
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_MODES_DATAPLAN_H
#define TESSERA_STRATEGIES_MODES_DATAPLAN_H

#include "strategies/cost/ProgramCost.h"
#include "strategies/modes/Assign.h"

#include <future>

namespace tessera::strategies {

class DataPlan {
public:
  /// All must outlive this.
  DataPlan(const FunctionAssignment &function, const AssignOptions &options, const Prices &prices,
           const SharedShardings &shared);

  /// Waits for it.
  const FunctionAssignment &lies();

  /// From here to endPricing() the other threads' cost models (CostModel::perThread) are in use.
  void beginPricing();
  void endPricing();

  /// What it costs; nothing where it takes `than` at least, or where what lives for a step alone does not fit.
  llvm::Expected<std::optional<ProgramCost>> priceIfShorter(Cost than);

private:
  bool fits();
  llvm::Expected<std::optional<ProgramCost>> price(const CostModel &model, Cost than);

  const AssignOptions &options_;
  const Prices &prices_;
  const int threads_;
  std::future<FunctionAssignment> assigning_;
  std::optional<FunctionAssignment> lies_;
  std::future<llvm::Expected<std::optional<ProgramCost>>> pricing_;
  std::optional<ProgramCost> priced_;
};

} // namespace tessera::strategies

#endif
