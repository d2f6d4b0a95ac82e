#include "strategies/modes/DataPlan.h"

#include "strategies/modes/Modes.h"
#include "strategies/space/InParallel.h"

namespace tessera::strategies {

DataPlan::DataPlan(const FunctionAssignment &function, const AssignOptions &options, const Prices &prices,
                   const SharedShardings &shared)
    : options_(options), prices_(prices),
      threads_(prices.ofOneThread || !function.program.func->getContext()->isMultithreadingEnabled()
                   ? 1
                   : options.exactThreads),
      assigning_(std::async(besideCaller(threads_), [&function, &options, &shared] {
        FunctionAssignment data(function.program);
        llvm::cantFail(assignData(data, options, shared));
        return data;
      })) {}

const FunctionAssignment &DataPlan::lies() {
  if (!lies_)
    lies_.emplace(assigning_.get());
  return *lies_;
}

bool DataPlan::fits() {
  const FunctionAssignment &data = lies();
  int64_t persistent = 0;
  for (unsigned a = 0; a < data.args.size(); ++a)
    if (data.isPersistent(a)) {
      const mlir::Value v = mlir::func::FuncOp(data.program.func).getArgument(a);
      persistent += prices_.model.localBytes(shapeOf(v), elementBytes(v.getType()), data.args[a]);
    }
  return persistent <= memoryOf(options_);
}

llvm::Expected<std::optional<ProgramCost>> DataPlan::price(const CostModel &model, Cost than) {
  const ChosenProgram chosen = chosenIn(lies());
  const JoinOptions join = joinOf(options_);
  llvm::Expected<std::optional<ProgramCost>> cost = strategies::priceIfShorter(chosen, model, join, than);
  if (cost)
    if (llvm::Error e = takeApartIfShorter(chosen, model, join, than, *cost))
      return e;
  return cost;
}

void DataPlan::beginPricing() {
  if (threads_ == 1 || priced_ || !fits())
    return;
  const CostModel &model = *prices_.model.perThread(2).back();
  pricing_ =
      std::async(besideCaller(threads_), [this, &model] { return price(model, std::numeric_limits<Cost>::max()); });
}

void DataPlan::endPricing() {
  if (!pricing_.valid())
    return;
  llvm::Expected<std::optional<ProgramCost>> priced = pricing_.get();
  if (priced)
    priced_ = std::move(*priced);
  else
    llvm::consumeError(priced.takeError()); // it fails again where it is needed
}

llvm::Expected<std::optional<ProgramCost>> DataPlan::priceIfShorter(Cost than) {
  if (!fits())
    return std::nullopt;
  if (!priced_)
    return price(prices_.model, than);
  if (priced_->predicted() >= than)
    return std::nullopt;
  return std::move(*priced_);
}

} // namespace tessera::strategies
