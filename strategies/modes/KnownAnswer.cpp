#include "strategies/modes/KnownAnswer.h"

#include <limits>

using namespace mlir;

namespace tessera::strategies {

/// Equal for functions of which every search finds the same.
static std::vector<const void *> contentOf(func::FuncOp func) {
  std::vector<const void *> content = {func.getFunctionType().getAsOpaquePointer(),
                                       func->getAttrDictionary().getAsOpaquePointer()};
  llvm::DenseMap<Value, size_t> numbers; // looked up only
  auto number = [&](Value value) { numbers.try_emplace(value, numbers.size()); };
  for (Value arg : func.getArguments())
    number(arg);
  func.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (op == func)
      return;
    content.push_back(op->getName().getAsOpaquePointer());
    content.push_back(op->getAttrDictionary().getAsOpaquePointer());
    for (Value operand : op->getOperands())
      content.push_back(reinterpret_cast<const void *>(uintptr_t(numbers.at(operand))));
    for (Region &region : op->getRegions())
      for (Value arg : region.getArguments())
        number(arg);
    for (Value result : op->getResults()) {
      content.push_back(result.getType().getAsOpaquePointer());
      number(result);
    }
  });
  return content;
}

/// The search of whole groups, in which nobody has a say and of which nothing else is asked.
static bool isPlain(const AssignOptions &options) {
  return options.mode == "auto" && options.user.empty() && options.searcher.empty() && options.dumpGraph.empty() &&
         !options.splitGroups && options.tooDear == std::numeric_limits<Cost>::max() &&
         !(options.stop && *options.stop);
}

std::shared_ptr<KnownAnswer> KnownAnswer::of(const FunctionAssignment &function, const AssignOptions &options,
                                             const SearchReport &search, const ProgramCost &planned,
                                             BesideBound &bound) {
  if (!isPlain(options) || search.stopped)
    return nullptr;
  auto known = std::make_shared<KnownAnswer>();
  known->function_ = contentOf(function.program.func);
  known->mesh_ = options.mesh;
  known->limit_ = memoryOf(options);
  known->effort_ = options.searchWork;
  known->share_ = options.share;
  known->join_ = joinOf(options);
  known->gap_ = options.searchGap;
  known->explained_ = options.explain;
  known->strategies_ = function.assignment.strategies;
  known->args_ = function.args;
  known->results_ = function.results;
  for (const OperatorInfo &info : function.program.operators)
    for (Value result : info.op->getResults())
      known->values_.push_back(function.assignment.of(result));
  known->search_ = search;
  known->planned_ = planned;
  known->bound_ = std::move(bound);
  return known;
}

bool KnownAnswer::answers(const FunctionAssignment &function, const AssignOptions &options) const {
  const bool isEnough = !search_.limited || options.searchWork <= effort_;
  return !isTaken_ && isEnough && isPlain(options) && options.searchThreads == 1 && options.mesh == mesh_ &&
         memoryOf(options) == limit_ && options.share == share_ && joinOf(options) == join_ &&
         options.searchGap == gap_ && options.explain == explained_ && contentOf(function.program.func) == function_;
}

void KnownAnswer::take(FunctionAssignment &function, SearchReport &search, ProgramCost &planned, BesideBound &bound) {
  isTaken_ = true;
  for (unsigned a = 0; a < args_.size(); ++a)
    function.setArg(a, args_[a]);
  function.results = std::move(results_);
  function.assignment.strategies = std::move(strategies_);
  size_t value = 0;
  for (const OperatorInfo &info : function.program.operators)
    for (Value result : info.op->getResults())
      function.assignment.values[result] = std::move(values_[value++]);
  search = std::move(search_);
  planned = std::move(planned_);
  bound = std::move(bound_);
}

} // namespace tessera::strategies
