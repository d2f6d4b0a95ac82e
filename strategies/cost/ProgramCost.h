//===- ProgramCost.h - what a program costs under one strategy per operator -----------------------===//
//
// The chosen program is laid out as one rank will run it: operators on local shapes, reshards that an operator pays as
// the first reader of a value under a sharding (dist::ReshardedValues), and what it brings along
// (dist::ownCollectives). Of that follow loops (graph::formLoops), the kernels' times (LoopCost.h), the order of
// execution, what is sent as one message (Joining.h) and the most that lives at once (graph/Order.h).
//
//   ProgramCost cost = cantFail(priceProgram({program, strategies, args, results}, model));
//   cost.operators[3].collectives      // what operator 3 pays
//   cost.peakBytes                     // on one rank
//
// All costs are those of a whole step: what runs for every micro-batch (graph/Sections.h) counts as often.
//
//===----------------------------------------------------------------------------------------------===//
#ifndef TESSERA_STRATEGIES_COST_PROGRAMCOST_H
#define TESSERA_STRATEGIES_COST_PROGRAMCOST_H

#include "strategies/cost/Joining.h"
#include "strategies/space/FunctionAssignment.h"

namespace tessera::strategies {

/// A program with the chosen strategies and shardings.
struct ChosenProgram {
  const Program &program;
  llvm::ArrayRef<Strategy> strategies;    // by operator; valid
  llvm::ArrayRef<Sharding> args, results; // of the function
  bool apart = false;                     // reshards are planned as CostModel::apart plans them
};

/// What is chosen for a function, which must outlive the result.
inline ChosenProgram chosenIn(const FunctionAssignment &function) {
  return {function.program, function.assignment.strategies, function.args, function.results};
}

/// From one sharding of a value to another.
struct Resharded {
  Shape shape; // global
  Sharding from, to;
};

struct PricedCollective {
  enum Place {
    Operand,   // before an operator
    Statistic, // inside it
    Result,    // behind it
    Output,    // before the function's result
  } place;
  int index; // of the operand, statistic or result
  int64_t elementBytes;
  Cost cost; // of all its runs in a step; of a joined message: its part
  dist::Collective collective;
  int64_t times = 1;                    // how often it runs in a step
  std::optional<Resharded> begins = {}; // the reshard whose first collective this is
  std::optional<int> message = {};      // of the joined ones, the one that it is sent in; nothing: it is sent alone
};

struct OperatorPrice {
  Cost compute = 0;                          // of all its runs in a step
  std::vector<PricedCollective> collectives; // in the order in which they run
};

struct ProgramCost {
  std::vector<OperatorPrice> operators;
  std::vector<PricedCollective> outputs; // collectives for the function's results
  Cost compute = 0, communication = 0;
  bool apart = false;               // ChosenProgram::apart
  std::optional<BesideCost> beside; // nothing: all collectives run in line
  Cost leastTime = 0;               // of any schedule of the same kernels and collectives; 0: none was looked for
  int64_t persistentBytes = 0;      // parameters and states on one rank
  int64_t peakBytes = 0;            // these and the largest live set; an estimate, since the arena is packed later
  /// The time of a step.
  Cost predicted() const { return beside ? beside->predicted : compute + communication; }
};

/// The memory that one of the operator's own collectives takes besides operands and results, while the operator runs.
int64_t bufferBytes(const OwnCollective &own);

/// Prices a program. An error if a reader expects a partial value that its producer does not leave.
llvm::Expected<ProgramCost> priceProgram(const ChosenProgram &chosen, const CostModel &model,
                                         const JoinOptions &join = {});

/// The same where the program may take less time than `than`; nothing if it cannot, whatever is sent when.
llvm::Expected<std::optional<ProgramCost>> priceIfShorter(const ChosenProgram &chosen, const CostModel &model,
                                                          const JoinOptions &join, Cost than);

/// Where messages go over several kinds of links: takes the program's price with reshards planned apart where it takes
/// less time so than `than` and `cost`, and does not need more memory than that or `join.memory`. It is not looked for
/// where the kernels alone take 98 % of the step. `cost`: the price otherwise; nothing if that is `than` at least.
llvm::Error takeApartIfShorter(ChosenProgram chosen, const CostModel &model, const JoinOptions &join, Cost than,
                               std::optional<ProgramCost> &cost);

} // namespace tessera::strategies

#endif
